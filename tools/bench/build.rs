//! Builds the stock interpreter that `baton` is measured against: Lua's sources, untouched, with the flags of the
//! guest, behind the small standalone in `c/stock_host.c`. The result is an executable in `OUT_DIR`, not linked to us.

#[path = "../../guests/lua/build/lua_source.rs"]
#[allow(
    unreachable_pub,
    reason = "two build scripts share the file, each as a module of its own"
)]
mod lua_source;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

const STANDALONE: &str = "c/stock_host.c";

/// As the original standalone is linked: compiled modules find the C API in the executable.
const LINKING: [&str; 3] = ["-Wl,-E", "-lm", "-ldl"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=../../guests/lua/build/lua_source.rs");
    println!("cargo::rerun-if-changed={STANDALONE}");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR for build scripts"));
    let sources = lua_source::lua_source_directory();

    let compiler = compiler();
    let stock = out.join("stock-lua");
    let mut command = compiler.to_command();
    command.arg("-I").arg(&sources).arg(STANDALONE);
    command.args(c_files(&sources)).arg("-o").arg(&stock).args(LINKING);
    let status = command
        .status()
        .unwrap_or_else(|error| panic!("cannot run the C compiler {command:?}: {error}"));
    assert!(status.success(), "the stock interpreter did not compile: {command:?}");

    let flags: Vec<_> = compiler.args().iter().map(|flag| flag.to_string_lossy()).collect();
    println!("cargo::rustc-env=BATON_BENCH_STOCK={}", stock.display());
    println!("cargo::rustc-env=BATON_BENCH_FLAGS={}", flags.join(" "));
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
