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
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

const STANDALONE: &str = "c/stock_host.c";

/// The C functions, and the sources that bind or call them.
const CALLS: &str = "c/calls.c";
const CALLS_HEADER: &str = "c/calls.h";
const CALLS_MODULE: &str = "c/calls_module.c";
const CALLS_HOST: &str = "c/calls_host.c";
const SLOW: &str = "c/slow.c";
/// A library for LD_PRELOAD.
const SQUEAK_WAIT: &str = "c/squeak_wait.c";

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
        SQUEAK_WAIT,
    ] {
        println!("cargo::rerun-if-changed={source}");
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR for build scripts"));
    let sources = lua_source::lua_source_directory();

    let compiler = compiler();
    let stock = out.join("stock-lua");
    let includes = ["-I".into(), sources.clone().into_os_string()];
    let mut words: Vec<OsString> = includes.clone().into();
    words.push(STANDALONE.into());
    words.extend(c_files(&sources).into_iter().map(PathBuf::into_os_string));
    words.extend(LINKING.map(OsString::from));
    compile(&compiler, &stock, &words);
    let calls = out.join("calls");
    fs::create_dir_all(&calls)
        .unwrap_or_else(|error| panic!("cannot make {}: {error}", calls.display()));
    build_calls(&compiler, &includes, &calls);

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
fn build_calls(compiler: &cc::Tool, includes: &[OsString], directory: &Path) {
    for (name, source) in [
        ("calls.so", CALLS_MODULE),
        // The library has nothing of Lua.
        ("libcalls.so", ""),
        ("slow.so", SLOW),
        ("libslow.so", SLOW),
    ] {
        let mut words = includes.to_vec();
        let sources = [CALLS, source]
            .into_iter()
            .filter(|source| !source.is_empty());
        words.extend(
            ["-shared", "-fPIC"]
                .into_iter()
                .chain(sources)
                .map(OsString::from),
        );
        compile(compiler, &directory.join(name), &words);
    }
    let preloaded = ["-shared", "-fPIC", SQUEAK_WAIT, "-ldl"].map(OsString::from);
    compile(compiler, &directory.join("squeak_wait.so"), &preloaded);
    let host = [CALLS, CALLS_HOST, "-pthread"].map(OsString::from);
    compile(compiler, &directory.join("calls-host"), &host);
}

/// Compiles and links a program or a library.
fn compile(compiler: &cc::Tool, output: &Path, words: &[OsString]) {
    let mut command = compiler.to_command();
    command.args(words).arg("-o").arg(output);
    let status = command
        .status()
        .unwrap_or_else(|error| panic!("cannot run the C compiler {command:?}: {error}"));
    assert!(
        status.success(),
        "{} was not built: {command:?}",
        output.display()
    );
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
