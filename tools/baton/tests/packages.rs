//! Tests Debian's packages of Lua modules, unmodified: one program per package, under `lua5.4` and
//! under `baton`.
//!
//! A program of `tests/lua/packages` must print the same under both. It also runs in several
//! processes at once beside a ticking one, with the default slice and with a tiny one.

mod harness;
#[path = "packages/network.rs"]
mod network;
#[path = "packages/prosody.rs"]
mod prosody;
#[path = "packages/server.rs"]
mod server;
#[path = "packages/tools.rs"]
mod tools;
#[path = "packages/transactions.rs"]
mod transactions;

use harness::{Outcome, Run, baton, peer};
use server::Server;

/// Makes one `#[test]` of each program. Its arguments: the module that shows whether the package is
/// installed, and the package.
macro_rules! programs {
    ($($name:ident: $module:literal from $package:literal;)+) => {
        $(#[test]
        fn $name() {
            if is_installed($module, $package) {
                behaves_the_same(stringify!($name), |run| run);
            }
        })+

        /// The programs that need only their package.
        const WITHOUT_SETUP: &[&str] = &[$(stringify!($name)),+];
    };
}

programs! {
    bitop: "bit" from "lua-bitop";
    cjson: "cjson" from "lua-cjson";
    cqueues: "cqueues" from "lua-cqueues";
    cyrussasl: "cyrussasl" from "lua-cyrussasl";
    dbi_sqlite3: "dbd.sqlite3" from "lua-dbi-sqlite3";
    event: "luaevent.core" from "lua-event";
    expat: "lxp" from "lua-expat";
    filesystem: "lfs" from "lua-filesystem";
    guestfs: "guestfs" from "lua-guestfs";
    lpeg: "lpeg" from "lua-lpeg";
    luaossl: "openssl" from "lua-luaossl";
    luv: "luv" from "lua-luv";
    rex_gnu: "rex_gnu" from "lua-rex-gnu";
    rex_onig: "rex_onig" from "lua-rex-onig";
    rex_pcre2: "rex_pcre2" from "lua-rex-pcre2";
    rex_posix: "rex_posix" from "lua-rex-posix";
    rex_tre: "rex_tre" from "lua-rex-tre";
    socket: "socket" from "lua-socket";
    sql_sqlite3: "luasql.sqlite3" from "lua-sql-sqlite3";
    system: "system" from "lua-system";
    term: "term" from "lua-term";
    unbound: "lunbound" from "lua-unbound";
    yaml: "yaml" from "lua-yaml";
    zlib: "zlib" from "lua-zlib";
}

#[test]
fn sec() {
    if is_installed("ssl", "lua-sec") && is_installed("openssl", "lua-luaossl") {
        behaves_the_same("sec", |run| run);
    }
}

#[test]
fn geoip() {
    if is_installed("geoip", "lua-geoip") && is_file("/usr/share/GeoIP/GeoIP.dat", "geoip-database")
    {
        behaves_the_same("geoip", |run| run);
    }
}

#[test]
fn sql_postgres_and_dbi_postgresql() {
    if !is_installed("luasql.postgres", "lua-sql-postgres")
        || !is_installed("dbd.postgresql", "lua-dbi-postgresql")
    {
        return;
    }
    let Some(server) = Server::postgres() else {
        return;
    };
    behaves_the_same("sql_postgres", |run| run.env("SERVER", server.dir()));
    behaves_the_same("dbi_postgresql", |run| run.env("SERVER", server.dir()));
}

#[test]
fn sql_mysql_and_dbi_mysql() {
    if !is_installed("luasql.mysql", "lua-sql-mysql") || !is_installed("dbd.mysql", "lua-dbi-mysql")
    {
        return;
    }
    let Some(server) = Server::mariadb() else {
        return;
    };
    let prepare = |run: Run| {
        run.env("SERVER", server.dir())
            .env("PORT", server.port().to_string())
    };
    behaves_the_same("sql_mysql", prepare);
    behaves_the_same("dbi_mysql", prepare);
}

#[test]
fn modules_without_c_code() {
    let modules =
        "argparse cliargs dkjson inifile luassert luaunit:lua-unit mediator pl:lua-penlight say";
    let installed = modules.split(' ').all(|entry| match entry.split_once(':') {
        Some((module, package)) => is_installed(module, package),
        None => is_installed(entry, &format!("lua-{entry}")),
    });
    if installed {
        behaves_the_same("pure", |run| run);
    }
}

#[test]
fn examples_that_packages_install_do_the_same() {
    let mut count = 0;
    for package in ["lua-cliargs", "lua-dkjson", "lua-unit"] {
        let dir = format!("/usr/share/doc/{package}/examples");
        if is_file(&dir, package) {
            for entry in std::fs::read_dir(&dir).expect("the examples can be listed") {
                let path = entry.expect("a directory entry can be read").path();
                let Some(lua) = peer::lua() else { return };
                let run = |run: Run| in_own_dir(run).arg(&path).run();
                let (wanted, got) = (run(lua), run(baton()));
                let seen =
                    |outcome: &Outcome| steady(&format!("{}{}", outcome.stdout, outcome.stderr));
                assert_eq!(seen(&wanted), seen(&got), "{wanted}\n{got}");
                assert_eq!(wanted.status, got.status, "{wanted}\n{got}");
                count += 1;
            }
            assert!(count > 0, "there is no example in {dir}");
        }
    }
}

/// A run that starts in its scratch directory, since examples write files.
fn in_own_dir(run: Run) -> Run {
    let dir = run.scratch().to_path_buf();
    run.in_dir(&dir)
}

/// Removes what differs between runs: the order of keys, the interpreter's name, addresses and
/// times.
fn steady(text: &str) -> String {
    let is_steady =
        |word: &&str| !word.contains("0x") && !word.contains('.') && !word.contains("lua5.4");
    let passing = ["mixed table encoded", "sparse array", "# Started on"];
    let lines = text
        .lines()
        .filter(|line| !passing.iter().any(|beginning| line.starts_with(beginning)));
    let lines = lines.map(|line| {
        line.split(' ')
            .filter(is_steady)
            .collect::<Vec<_>>()
            .join(" ")
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn ldap() {
    if is_installed("lualdap", "lua-ldap")
        && let Some(server) = Server::slapd()
    {
        behaves_the_same("ldap", |run| run.env("SERVER", server.ldap_address()));
    }
}

#[test]
fn readline() {
    if !is_installed("readline", "lua-readline") {
        return;
    }
    let Some(lua) = peer::lua() else { return };
    let plain = |run: Run| {
        run.script("packages/plain.lua")
            .arg("readline")
            .stdin("one\ntwo\nthree\n")
            .run()
    };
    let wanted = plain(lua);
    wanted.succeeds();
    agrees(&wanted, &plain(baton()));
    let crowd = baton()
        .script("packages/crowd.lua")
        .arg("readline")
        .stdin(&"one\ntwo\nthree\n".repeat(4))
        .run();
    // The library itself prints its prompts, once per copy.
    let is_said = |line: &&str| !line.starts_with("> ") && !line.starts_with("? ");
    let said = |outcome: &Outcome| {
        outcome
            .stdout
            .lines()
            .filter(is_said)
            .collect::<Vec<_>>()
            .join("\n")
    };
    assert_eq!(said(crowd.succeeds()), said(&wanted), "{crowd}");
}

#[test]
fn sql_odbc() {
    let architecture = std::env::consts::ARCH;
    let driver = format!("/usr/lib/{architecture}-linux-gnu/odbc/libsqlite3odbc.so");
    if is_installed("luasql.odbc", "lua-sql-odbc")
        && is_installed("luasql.sqlite3", "lua-sql-sqlite3")
        && is_file(&driver, "libsqliteodbc")
    {
        behaves_the_same("sql_odbc", |run| {
            let dir = run.scratch().to_path_buf();
            let sources: String = (1..=4)
                .map(|copy| {
                    format!(
                        "[copy{copy}]\nDriver={driver}\nDatabase={}/copy{copy}.database\n",
                        dir.display()
                    )
                })
                .collect();
            std::fs::write(dir.join("odbc.ini"), sources)
                .expect("the run's directory can be written to");
            run.env("ODBCINI", dir.join("odbc.ini"))
                .env("ODBCSYSINI", dir)
        });
    }
}

/// Runs a case of blocking calls during which other processes run.
fn overlaps(case: &str, prepare: impl Fn(Run) -> Run) {
    let outcome = prepare(baton().script("packages/overlap.lua").arg(case)).run();
    outcome.succeeds().wrote("passed\n");
}

#[test]
fn fifty_processes_wait_for_postgresql_at_the_same_time() {
    if is_installed("luasql.postgres", "lua-sql-postgres")
        && let Some(server) = Server::postgres()
    {
        overlaps("postgres", |run| run.env("SERVER", server.dir()));
    }
}

#[test]
fn a_long_query_of_sqlite_stops_only_other_calls_of_its_connection() {
    if is_installed("luasql.sqlite3", "lua-sql-sqlite3") {
        overlaps("sqlite", |run| run);
    }
}

#[test]
fn collecting_sqlite_cursors_during_a_query_stops_no_process() {
    if !is_installed("luasql.sqlite3", "lua-sql-sqlite3") {
        return;
    }
    let code = "local environment = require 'luasql.sqlite3'.sqlite3()
         local slow, quick = environment:connect ':memory:', environment:connect ':memory:'
         local cursors, ticks = {}, 0
         for i = 1, 50 do cursors[i] = quick:execute 'select 1' end
         local query = process.spawn(function()
           local cursor = slow:execute [[with recursive c(x) as (select 1 union all select x + 1 \
           from c where x < 4000000)
             select count(*) from c]]
           cursor:close()
         end)
         repeat process.sleep(0.001) until query:status() == 'foreign'
         cursors = nil
         while query:status() == 'foreign' do
           collectgarbage()
           ticks = ticks + 1
           process.sleep(0.001)
         end
         query:join()
         collectgarbage()
         print(ticks > 3, quick:close(), slow:close(), environment:close())";
    baton()
        .process_code(code)
        .run()
        .succeeds()
        .wrote("true\ttrue\ttrue\ttrue\n")
        .quietly();
}

#[test]
fn sockets_block_their_own_process_and_closing_ends_their_waits() {
    if is_installed("socket", "lua-socket") {
        overlaps("sockets", |run| run);
    }
}

#[test]
fn a_tls_handshake_without_an_answer_stops_no_other_process() {
    if is_installed("ssl", "lua-sec") {
        overlaps("tls", |run| run);
    }
}

#[test]
fn texts_that_share_a_buffer_are_made_one_at_a_time() {
    if is_installed("openssl.pkey", "lua-luaossl") {
        overlaps("texts", |run| run);
    }
}

#[test]
fn a_function_that_openssl_calls_in_a_handshake_may_err() {
    if is_installed("openssl", "lua-luaossl") && is_installed("cqueues", "lua-cqueues") {
        let outcome = baton().script("foreign/tls_callback.lua").run();
        outcome.succeeds().without_panic();
        assert_eq!(outcome.stdout, "sound\n", "{outcome}");
    }
}

#[test]
fn streams_are_packed_beside_other_processes() {
    if is_installed("zlib", "lua-zlib") {
        overlaps("streams", |run| run);
    }
}

#[test]
fn sums_that_processes_share_are_computed_one_piece_after_the_other() {
    if is_installed("zlib", "lua-zlib") {
        overlaps("sums", |run| run);
    }
}

#[test]
fn a_long_text_is_decoded_beside_other_processes_and_a_table_encoded_in_one_piece() {
    if is_installed("cjson", "lua-cjson") {
        overlaps("json", |run| run);
        overlaps("safe_json", |run| run);
    }
}

#[test]
fn the_warning_about_a_known_module_says_why_others_may_not_run_beside_it() {
    if is_installed("cjson", "lua-cjson") {
        let mut program = baton()
            .process_code(
                "process.params.warn_blocked = 0.02
                 local cjson = require 'cjson'
                 local value = {}
                 for i = 1, 500000 do value[i] = { i, 'text' } end
                 process.spawn({ daemon = true }, function() while true do process.sleep(0.001) \
                 end end)
                 process.yield()
                 while true do cjson.encode(value) end",
            )
            .start();
        program.await_stderr(
            "'encode' of the module 'cjson' keeps all other processes waiting. Others may not run \
             beside it: it reads tables that others may change",
        );
    }
}

#[test]
fn a_grammar_matches_a_long_text_beside_other_processes() {
    if is_installed("lpeg", "lua-lpeg") {
        overlaps("patterns", |run| run);
    }
}

#[test]
fn a_regular_expression_that_processes_share_gives_each_its_own_result() {
    for (module, package) in [
        ("rex_posix", "lua-rex-posix"),
        ("rex_gnu", "lua-rex-gnu"),
        ("rex_tre", "lua-rex-tre"),
    ] {
        if is_installed(module, package) {
            overlaps("expressions", |run| run.env("FLAVOUR", module));
        }
    }
}

#[test]
fn documents_are_parsed_beside_other_processes() {
    if is_installed("lxp", "lua-expat") {
        overlaps("documents", |run| run);
    }
}

#[test]
fn a_parser_whose_callbacks_wait_is_fed_by_one_process_at_a_time() {
    if is_installed("lxp", "lua-expat") {
        overlaps("one_parser", |run| run);
    }
}

#[test]
fn a_grammar_serves_others_while_its_callback_waits() {
    if is_installed("lpeg", "lua-lpeg") {
        overlaps("one_grammar", |run| run);
    }
}

#[test]
fn handshakes_whose_callbacks_wait_come_one_at_a_time() {
    if is_installed("ssl", "lua-sec") && is_installed("openssl", "lua-luaossl") {
        overlaps("handshakes", |run| {
            let dir = run.scratch().to_path_buf();
            run.env("SCRATCH", dir)
        });
    }
}

/// Programs that other tests of this file run, and files that programs share.
const WITH_SETUP: &[&str] = &[
    "dbi_mysql",
    "dbi_postgresql",
    "geoip",
    "ldap",
    "overlap",
    "pure",
    "readline",
    "sec",
    "sql_mysql",
    "sql_odbc",
    "sql_postgres",
    "transactions",
];
const SHARED: &[&str] = &[
    "certificate",
    "crowd",
    "dbi",
    "kit",
    "plain",
    "regex",
    "sql",
];

#[test]
fn no_program_is_left_out() {
    for entry in
        std::fs::read_dir(harness::lua_dir().join("packages")).expect("the programs are there")
    {
        let path = entry.expect("a directory entry can be read").path();
        let name = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let named = [WITHOUT_SETUP, WITH_SETUP, SHARED]
            .iter()
            .any(|list| list.contains(&name.as_str()));
        assert!(named, "no test runs {}", path.display());
    }
}

/// Runs the program under both interpreters and in both crowds. `prepare` changes each run.
fn behaves_the_same(program: &str, prepare: impl Fn(Run) -> Run) {
    let Some(lua) = peer::lua() else { return };
    let plain = |run: Run| prepare(run.script("packages/plain.lua").arg(program)).run();
    let wanted = plain(lua);
    wanted.succeeds();
    agrees(&wanted, &plain(baton()));
    let crowd = || baton().script("packages/crowd.lua").arg(program);
    agrees(&wanted, &prepare(crowd()).run());
    agrees(&wanted, &prepare(crowd().arg("0.0001")).run());
}

fn agrees(wanted: &Outcome, got: &Outcome) {
    got.succeeds().without_panic();
    assert_eq!(
        wanted.stdout, got.stdout,
        "another stdout than lua's\n{got}"
    );
    // Copies may repeat a library's warnings, but must not have warnings that lua's copy does not
    // have.
    for line in got.stderr.lines() {
        assert!(
            wanted.stderr.contains(line),
            "another stderr than lua's\n{got}"
        );
    }
}

/// Returns whether the system's own Lua finds the module.
fn is_installed(module: &str, package: &str) -> bool {
    let Some(lua) = peer::lua() else { return false };
    let found = lua
        .code(&format!("require '{module}'"))
        .run()
        .status
        .success();
    if !found {
        peer::skip(
            &format!("the module {module}"),
            &format!("install {package}"),
        );
    }
    found
}

fn is_file(path: &str, package: &str) -> bool {
    let found = std::path::Path::new(path).exists();
    if !found {
        peer::skip(&format!("what needs {path}"), &format!("install {package}"));
    }
    found
}
