//! Builds the stock interpreter that `baton` is measured against: Lua's sources, untouched, with the flags of the
//! guest, behind the small standalone in `c/stock_host.c`. The result is an executable in `OUT_DIR`, not linked to us.
//!
//! And the C functions that experiments call from every system: as a library, as a module for Lua, and in a loop of C.

#[path = "../../guests/lua/build/lua_source.rs"]
#[allow(
    unreachable_pub,
    reason = "two build scripts share the file, each as a module of its own"
)]
mod lua_source;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const STANDALONE: &str = "c/stock_host.c";

/// The functions to be called, and what binds or calls them.
const CALLS: &str = "c/calls.c";
const CALLS_HEADER: &str = "c/calls.h";
const CALLS_MODULE: &str = "c/calls_module.c";
const CALLS_HOST: &str = "c/calls_host.c";

/// As the original standalone is linked: compiled modules find the C API in the executable.
const LINKING: [&str; 3] = ["-Wl,-E", "-lm", "-ldl"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=../../guests/lua/build/lua_source.rs");
    for source in [STANDALONE, CALLS, CALLS_HEADER, CALLS_MODULE, CALLS_HOST] {
        println!("cargo::rerun-if-changed={source}");
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR for build scripts"));
    let sources = lua_source::lua_source_directory();

    let compiler = compiler();
    let stock = out.join("stock-lua");
    let mut command = compiler.to_command();
    command.arg("-I").arg(&sources).arg(STANDALONE);
    command.args(c_files(&sources)).arg("-o").arg(&stock).args(LINKING);
    run(&mut command, "the stock interpreter");
    let calls = out.join("calls");
    fs::create_dir_all(&calls).unwrap_or_else(|error| panic!("cannot make {}: {error}", calls.display()));
    build_calls(&compiler, &sources, &calls);

    let flags: Vec<_> = compiler.args().iter().map(|flag| flag.to_string_lossy()).collect();
    println!("cargo::rustc-env=BATON_BENCH_STOCK={}", stock.display());
    println!("cargo::rustc-env=BATON_BENCH_FLAGS={}", flags.join(" "));
    println!("cargo::rustc-env=BATON_BENCH_CALLS={}", calls.display());
}

/// `calls.so` is the module, `libcalls.so` what a foreign function interface loads, `calls-host` the loop in C.
fn build_calls(compiler: &cc::Tool, lua: &Path, directory: &Path) {
    let shared = ["-shared", "-fPIC"];
    let mut module = compiler.to_command();
    module.args(shared).arg("-I").arg(lua).args([CALLS, CALLS_MODULE]);
    run(module.arg("-o").arg(directory.join("calls.so")), "the module of calls");
    let mut library = compiler.to_command();
    library
        .args(shared)
        .arg(CALLS)
        .arg("-o")
        .arg(directory.join("libcalls.so"));
    run(&mut library, "the library of calls");
    let mut host = compiler.to_command();
    host.args([CALLS, CALLS_HOST, "-pthread", "-o"]);
    run(host.arg(directory.join("calls-host")), "the loop of calls");
}

fn run(command: &mut Command, what: &str) {
    let status = command
        .status()
        .unwrap_or_else(|error| panic!("cannot run the C compiler {command:?}: {error}"));
    assert!(status.success(), "{what} did not compile: {command:?}");
}

/// The C compiler with the flags of the guest's Lua. What the profile of this build would add, such as frame
/// pointers, is left out: a peer must not be slower than its makers meant it to be.
fn compiler() -> cc::Tool {
    let mut build = cc::Build::new();
    build
        .cargo_metadata(false)
        .opt_level(2)
        .debug(false)
        .force_frame_pointer(false)
        .warnings(false);
    for flag in lua_source::LUA_FLAGS {
        build.flag(flag);
    }
    build.get_compiler()
}

fn c_files(directory: &Path) -> Vec<PathBuf> {
    let entries =
        fs::read_dir(directory).unwrap_or_else(|error| panic!("cannot read {}: {error}", directory.display()));
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "c"));
    files.sort();
    files
}
