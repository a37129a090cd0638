//! The Lua guest has no mistake in its memory that AddressSanitizer or Valgrind's memcheck finds in
//! the scenarios.
//!
//! AddressSanitizer watches the guest's C half and Lua itself, compiled for it and linked in place
//! of what the library has. The Rust half is as always. The program runs one scenario, and the
//! suite checks what it prints.

#[path = "../../../guests/lua/build/files.rs"]
#[allow(dead_code, reason = "the build script uses the rest")]
mod files;
#[path = "../../../guests/lua/build/lua_source.rs"]
#[allow(dead_code, reason = "the build scripts use the rest")]
mod lua_source;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::{fs, thread};

use baton_harness::{Archive, Checker, finish, place, repository, skip, succeed};

/// The guest, which the program is linked with. Its library for rustc is beside where one for C
/// would be.
static GUEST: Archive = Archive::of("baton-lua", place!(), &[]);

/// What is compiled with: bounds of heap blocks and of variables of files. Bounds of variables on
/// stacks are left out. A Lua error leaves C frames by longjmp, and on a process's stack
/// AddressSanitizer does not notice: it would go on to take these frames for living ones.
const FOR_ASAN: [&str; 4] = [
    "-fsanitize=address",
    "-fno-omit-frame-pointer",
    "--param",
    "asan-stack=0",
];

/// The scenarios that memcheck is not given, as it takes long: they differ from others in number or
/// time alone.
const NOT_FOR_MEMCHECK: [&str; 3] = ["many", "churn", "idle"];

/// Where headers are.
const INCLUDED: [&str; 5] = [
    "runtime/sys/c",
    "bindings/ffi/c",
    "bindings/capi/include",
    "guests/lua/c",
    "guests/lua/include",
];

/// Whether something that both need is missing. If so, reports that it was not tested.
fn is_missing(what: &str) -> bool {
    // Only gcc has the parameter.
    skip::is_missing(&["gcc", "--version"], "gcc", what)
}

fn scratch(name: &str) -> PathBuf {
    place!().scratch().join(format!("checked_lua_{name}"))
}

/// The compiler, with the directories of headers.
fn compiler(lua: &Path) -> Command {
    let mut compiler = Command::new("gcc");
    compiler.args(["-w", "-O1", "-g", "-fPIC", "-I"]).arg(lua);
    for directory in INCLUDED {
        compiler.arg("-I").arg(repository().join(directory));
    }
    compiler
}

/// Runs commands, as many at once as there are processors.
fn run_all(commands: Vec<Command>) {
    let at_once = thread::available_parallelism().map_or(1, usize::from);
    let left = Mutex::new(commands);
    let next = || left.lock().expect("no command has failed").pop();
    thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                while let Some(mut command) = next() {
                    succeed(&mut command);
                }
            });
        }
    });
}

/// Compiles Lua and the guest's C half for AddressSanitizer. Returns the archive.
fn compile_for_asan(lua: &Path, directory: &Path) -> PathBuf {
    let own = repository().join("guests/lua/c");
    let mut objects = Vec::new();
    let commands = files::sources(lua, &own).into_iter().map(|source| {
        let object = directory.join(format!("{}.o", objects.len()));
        let mut compile = compiler(lua);
        compile
            .args(FOR_ASAN)
            .args(["-DLUA_USE_LINUX", "-DLUA_COMPAT_5_3", "-DBATON_CHECKS"])
            .arg("-DBATON_MODULE_BUILT_FOR=\"the scenarios\"") // they load none
            .arg("-include")
            .arg(own.join("seam/seam.h"))
            .args(source.defines.iter().map(|define| format!("-D{define}")))
            .arg("-c")
            .arg(&source.path)
            .arg("-o")
            .arg(&object);
        objects.push(object);
        compile
    });
    let commands = commands.collect();
    run_all(commands);
    let archive = directory.join("libbaton_lua_c.a");
    succeed(Command::new("ar").arg("crs").arg(&archive).args(&objects));
    archive
}

/// A linker that takes another archive in place of the library's, and AddressSanitizer first.
fn linker_for_asan(archive: &Path, directory: &Path) -> PathBuf {
    let path = directory.join("gcc-with-asan");
    let script = format!(
        "#!/bin/sh\nfor a; do\n  shift\n  \
         case $a in */libbaton_lua_c.a) a='{}' ;; esac\n  \
         set -- \"$@\" \"$a\"\ndone\n\
         exec gcc -fsanitize=address -Wl,--no-as-needed -lasan -Wl,--as-needed \"$@\"\n",
        archive.display()
    );
    fs::write(&path, script).expect("a script is written");
    succeed(Command::new("chmod").arg("+x").arg(&path));
    path
}

/// Makes the program for a checker.
fn program(checker: Checker) -> PathBuf {
    let directory = scratch(checker.name());
    // What another run has left.
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).expect("a directory for the program");
    let own = repository().join("guests/lua/tests/checked");
    let lua = lua_source::lua_source_directory();
    let host = directory.join("host.o");
    succeed(
        compiler(&lua)
            .args(["-Dlua_pushcclosure=baton_stock_pushcclosure", "-c"])
            .arg(own.join("host.c"))
            .arg("-o")
            .arg(&host),
    );
    let guest = GUEST.built().with_extension("rlib");
    let libraries = guest.parent().expect("it is in a directory");
    let made = directory.join("program");
    let mut rustc = Command::new("rustc");
    rustc
        .args(["--edition", "2024", "-C", "debuginfo=0", "--extern"])
        .arg(format!("baton_lua={}", guest.display()))
        .arg("-L")
        .arg(format!("dependency={}", libraries.join("deps").display()))
        .arg("-C")
        .arg(format!("link-arg={}", host.display()))
        .args(["-C", "link-arg=-rdynamic"]);
    match checker {
        Checker::AddressSanitizer => {
            let archive = compile_for_asan(&lua, &directory);
            let linker = linker_for_asan(&archive, &directory);
            rustc.arg("-C").arg(format!("linker={}", linker.display()));
        }
        Checker::Memcheck => {
            let flags = checker.flags().iter();
            let of_rustc = flags.flat_map(|flag| ["-C".to_owned(), format!("link-arg={flag}")]);
            rustc.args(of_rustc);
        }
    }
    succeed(rustc.arg(own.join("program.rs")).arg("-o").arg(&made));
    made
}

fn suite() -> Command {
    Command::new(env!("CARGO_BIN_EXE_baton-conformance"))
}

/// Plays all scenarios but these. All must pass.
fn play_all_but(left_out: &[&str], checker: Checker, program: &Path) {
    let scenarios = repository().join("guests/lua/scenarios");
    let list = succeed(suite().arg("--list"));
    let names = list
        .lines()
        .filter_map(|line| Some(line.split_once([' ', ':'])?.0));
    let mut suite = suite();
    suite
        .args(["--limit", "150"])
        .args(
            names
                .filter(|name| !left_out.contains(name))
                .flat_map(|name| ["--only", name]),
        )
        .args(checker.runner())
        .arg(program)
        .arg(scenarios.join("{}.lua"))
        .env("LUA_PATH", scenarios.join("?.lua"));
    let said = succeed(checker.prepare(&mut suite));
    assert!(said.contains(" passed, 0 failed, 0 left out"), "{said}");
}

/// The checker watches Lua's own files, too.
fn finds_a_mistake(checker: Checker, program: &Path, what: &str) {
    let (output, said) = finish(checker.command(program).arg("mistake"));
    assert_eq!(output.status.code(), Some(9), "{said}");
    assert!(said.contains(what) && said.contains("lua_gettop"), "{said}");
}

#[test]
fn lua_is_clean_under_address_sanitizer() {
    let what = "the Lua guest under AddressSanitizer";
    if is_missing(what) {
        return;
    }
    let checker = Checker::AddressSanitizer;
    let program = program(checker);
    finds_a_mistake(checker, &program, "heap-use-after-free");
    play_all_but(&[], checker, &program);
}

#[test]
fn lua_is_clean_under_memcheck() {
    let what = "the Lua guest under memcheck";
    if is_missing(what) || Checker::Memcheck.is_missing(what) {
        return;
    }
    let checker = Checker::Memcheck;
    let program = program(checker);
    finds_a_mistake(checker, &program, "Invalid read");
    play_all_but(&NOT_FOR_MEMCHECK, checker, &program);
}
