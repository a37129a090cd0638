//! Builds the stock interpreter that `baton` is compared with. It consists of Lua's unmodified
//! sources, with the compiler flags of the Lua guest, and the small main program in
//! `c/stock_host.c`. The executable is in `OUT_DIR`.
//!
//! Also builds the C functions that the experiments call, as a library, as a module for Lua, and in
//! a loop of C.

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

/// The C functions, and the sources that bind or call them.
const CALLS: &str = "c/calls.c";
const CALLS_HEADER: &str = "c/calls.h";
const CALLS_MODULE: &str = "c/calls_module.c";
const CALLS_HOST: &str = "c/calls_host.c";
const SLOW: &str = "c/slow.c";

/// The linker flags of the original main program. Compiled modules find the C API in the
/// executable.
const LINKING: [&str; 3] = ["-Wl,-E", "-lm", "-ldl"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=../../guests/lua/build/lua_source.rs");
    for source in [
        STANDALONE,
        CALLS,
        CALLS_HEADER,
        CALLS_MODULE,
        CALLS_HOST,
        SLOW,
    ] {
        println!("cargo::rerun-if-changed={source}");
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR for build scripts"));
    let sources = lua_source::lua_source_directory();

    let compiler = compiler();
    let stock = out.join("stock-lua");
    let mut command = compiler.to_command();
    command.arg("-I").arg(&sources).arg(STANDALONE);
    command
        .args(c_files(&sources))
        .arg("-o")
        .arg(&stock)
        .args(LINKING);
    run(&mut command, "the stock interpreter");
    let calls = out.join("calls");
    fs::create_dir_all(&calls)
        .unwrap_or_else(|error| panic!("cannot make {}: {error}", calls.display()));
    build_calls(&compiler, &sources, &calls);

    let flags: Vec<_> = compiler
        .args()
        .iter()
        .map(|flag| flag.to_string_lossy())
        .collect();
    println!("cargo::rustc-env=BATON_BENCH_STOCK={}", stock.display());
    println!("cargo::rustc-env=BATON_BENCH_FLAGS={}", flags.join(" "));
    println!("cargo::rustc-env=BATON_BENCH_CALLS={}", calls.display());
}

/// Builds `calls.so`, the module, `libcalls.so`, the library for foreign function interfaces, and
/// `calls-host`, the loop in C. Also builds `slow.so` and `libslow.so`. They are one library that
/// loads slowly, as a module and for foreign function interfaces.
fn build_calls(compiler: &cc::Tool, lua: &Path, directory: &Path) {
    let shared = ["-shared", "-fPIC"];
    let mut module = compiler.to_command();
    module
        .args(shared)
        .arg("-I")
        .arg(lua)
        .args([CALLS, CALLS_MODULE]);
    run(
        module.arg("-o").arg(directory.join("calls.so")),
        "the module of calls",
    );
    let mut library = compiler.to_command();
    library
        .args(shared)
        .arg(CALLS)
        .arg("-o")
        .arg(directory.join("libcalls.so"));
    run(&mut library, "the library of calls");
    for name in ["slow.so", "libslow.so"] {
        let mut slow = compiler.to_command();
        slow.args(shared).arg("-I").arg(lua).args([CALLS, SLOW]);
        run(
            slow.arg("-o").arg(directory.join(name)),
            "the library that loads slowly",
        );
    }
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

/// The C compiler with the flags of the guest's Lua. The flags of this build's profile, such as
/// those for frame pointers, are left out, because they would make the peer slower.
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
    let entries = fs::read_dir(directory)
        .unwrap_or_else(|error| panic!("cannot read {}: {error}", directory.display()));
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "c"));
    files.sort();
    files
}
