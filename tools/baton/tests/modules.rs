//! Tests modules: `require` in several processes, Debian's compiled modules, and C code that forks.

mod harness;

use harness::{Run, baton, cases, peer};

cases! {
    mod loading from "loading.lua":
        a_module_is_loaded_once_by_many_processes,
        a_file_is_loaded_once_by_many_processes,
        waiters_try_again_after_a_failure,
        waiters_try_again_after_the_loader_was_killed,
        waiters_try_again_after_a_failure_that_ends_a_coroutine,
        a_message_handler_sees_the_loader,
        a_waiter_can_be_killed,
        a_module_that_waits_does_not_hold_up_others,
        modules_may_require_each_other_in_one_direction,
        a_cycle_across_processes_raises_and_names_both,
        a_c_library_is_loaded_once_by_many_processes,
        the_modules_of_baton_are_not_globals;
}

#[test]
fn a_child_of_fork_has_only_the_process_that_forked() {
    for from in ["process", "main"] {
        baton()
            .script("forking.lua")
            .arg(from)
            .run()
            .succeeds()
            .wrote("42\n")
            .without_panic();
    }
}

#[test]
fn cjson_works() {
    module_works(
        "cjson",
        "lua-cjson",
        "local cjson = require 'cjson'
         local value = cjson.decode '[1,{\"a\":[true,null,\"text\"]}]'
         assert(value[2].a[2] == cjson.null and not pcall(cjson.decode, '[1,'))
         return cjson.encode(value)",
        r#"[1,{"a":[true,null,"text"]}]"#,
    );
}

#[test]
fn lpeg_works() {
    module_works(
        "lpeg",
        "lua-lpeg",
        "local lpeg = require 'lpeg'
         local word = lpeg.C(lpeg.R 'az' ^ 1) / string.upper
         local checked = lpeg.Cmt(lpeg.C(lpeg.R '09' ^ 1), function(_, at, digits) return at, '<' \
         .. digits .. '>' end)
         local list = lpeg.Ct((word + checked + 1) ^ 0)
         local text = ('abc 12 de 3 '):rep(200)
         local got = list:match(text)
         return #got .. table.concat(got, '', 1, 4)",
        "800ABC<12>DE<3>",
    );
}

#[test]
fn lfs_works() {
    module_works(
        "lfs",
        "lua-filesystem",
        "local lfs = require 'lfs'
         local dir = os.getenv 'SCRATCH' .. '/dir' .. tostring {}:sub(8)
         assert(lfs.mkdir(dir))
         for i = 1, 3 do io.open(dir .. '/file' .. i, 'w'):close() end
         local names = {}
         for name in lfs.dir(dir) do names[#names + 1] = name:match '^file%d$' end
         table.sort(names)
         return table.concat(names, ' ') .. ' ' .. lfs.attributes(dir, 'mode')",
        "file1 file2 file3 directory",
    );
}

#[test]
fn socket_works() {
    module_works(
        "socket",
        "lua-socket",
        "local socket = require 'socket'
         local server = assert(socket.bind('127.0.0.1', 0))
         local _, port = server:getsockname()
         local client = assert(socket.connect('127.0.0.1', port))
         local peer = assert(server:accept())
         assert(client:send 'hello\\n')
         local line = assert(peer:receive '*l')
         assert(peer:send(line:upper() .. '\\n'))
         line = assert(client:receive '*l')
         client:close() peer:close() server:close()
         return line",
        "HELLO",
    );
}

#[test]
fn luv_works() {
    module_works(
        "luv",
        "lua-luv",
        "local uv = require 'luv'
         local log = {}
         local timer = uv.new_timer()
         timer:start(5, 0, function() log[#log + 1] = 'timer' timer:close() end)
         local work = uv.new_work(function(n) return n * 2 end, function(n) log[#log + 1] = \
         ('%d'):format(n) end)
         work:queue(21)
         uv.run()
         table.sort(log)
         return table.concat(log, ' ')",
        "42 timer",
    );
}

#[test]
fn cqueues_works() {
    module_works(
        "cqueues",
        "lua-cqueues",
        "local cqueues = require 'cqueues'
         local log = {}
         local queue = cqueues.new()
         queue:wrap(function() cqueues.sleep(0.01) log[#log + 1] = 'second' end)
         queue:wrap(function() log[#log + 1] = 'first' end)
         assert(queue:loop())
         return table.concat(log, ' ')",
        "first second",
    );
}

#[test]
fn callbacks_of_lpeg_may_wait_and_be_preempted() {
    if !is_installed("lpeg", "lua-lpeg") {
        return;
    }
    system_modules()
        .process_code(
            "local lpeg = require 'lpeg'
             process.params.slice = 0.0005
             local all = {}
             for i = 1, 10 do
               all[i] = process.spawn(function()
                 local item = lpeg.Cmt(lpeg.C(lpeg.R 'az'), function(_, at, letter)
                   process.yield()
                   return at, letter:byte() + i
                 end)
                 local sum = 0
                 for _, n in ipairs(lpeg.Ct(item ^ 0):match(('az'):rep(50))) do sum = sum + n end
                 return sum
               end)
             end
             for i = 1, 10 do
               local ok, sum = all[i]:join()
               assert(ok and sum == 50 * (97 + 122) + 100 * i, sum)
             end
             print 'end'",
        )
        .run()
        .succeeds()
        .wrote("end\n");
}

#[test]
fn the_search_paths_have_those_of_the_system_lua() {
    let Some(lua) = peer::lua() else { return };
    let code = "print(package.path) print(package.cpath)";
    let bare = |run: Run| {
        run.without_env("LUA_PATH_5_4")
            .without_env("LUA_CPATH_5_4")
            .code(code)
            .run()
    };
    let (wanted, got) = (bare(lua), bare(baton()));
    assert_eq!(got.stdout.lines().count(), 2, "{got}");
    // Baton may run under an emulator. Then the system's Lua is for another architecture.
    let ours = format!("/{}-linux-gnu/", std::env::consts::ARCH);
    let wanted = ["x86_64", "aarch64"]
        .iter()
        .fold(wanted.stdout, |paths, theirs| {
            paths.replace(&format!("/{theirs}-linux-gnu/"), &ours)
        });
    for (wanted, got) in wanted.lines().zip(got.stdout.lines()) {
        let places: Vec<_> = got.split(';').collect();
        for place in wanted.split(';') {
            assert!(
                places.contains(&place),
                "{place} is not searched, only {got}"
            );
        }
    }
}

/// Runs `code`, the body of a function, in the main process and in three others. Each must return
/// `wanted`.
fn module_works(module: &str, package: &str, code: &str, wanted: &str) {
    if !is_installed(module, package) {
        return;
    }
    let in_main = format!("print((function() {code} end)())");
    let wanted_line = format!("{wanted}\n");
    system_modules()
        .code(&in_main)
        .run()
        .succeeds()
        .wrote(&wanted_line)
        .without_panic();
    let one_by_one = format!(
        "local function body() {code} end
         for i = 1, 3 do print(select(2, process.spawn(body):join())) end"
    );
    system_modules()
        .process_code(&one_by_one)
        .run()
        .succeeds()
        .wrote(&wanted_line.repeat(3))
        .without_panic();
    let beside_a_loop = format!(
        "local function body() {code} end
         process.params.slice = 0.001
         process.spawn({{ daemon = true }}, function() while true do end end)
         process.spawn({{ daemon = true, priority = 60 }}, function() while true do \
         process.sleep(0.001) end end)
         print(select(2, process.spawn(body):join()))
         print(body())"
    );
    system_modules()
        .process_code(&beside_a_loop)
        .run()
        .succeeds()
        .wrote(&wanted_line.repeat(2))
        .without_panic();
}

/// A run that finds modules only on the system Lua's search paths.
fn system_modules() -> Run {
    baton()
        .without_env("LUA_PATH_5_4")
        .without_env("LUA_CPATH_5_4")
}

/// Returns whether the system's own Lua finds the module.
fn is_installed(module: &str, package: &str) -> bool {
    let Some(lua) = peer::lua() else { return false };
    let run = lua.without_env("LUA_PATH_5_4").without_env("LUA_CPATH_5_4");
    let found = run
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
