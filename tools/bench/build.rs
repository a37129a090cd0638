//! Builds the stock interpreter that `baton` is measured against: Lua's sources from the crate `lua-src`, untouched,
//! behind the small standalone in `c/stock_host.c`. The result is an executable in `OUT_DIR`, never linked to us.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Optimisation of the library and of the standalone; Lua's own makefile asks for the same.
const OPTIMISATION: &str = "2";

/// What is compiled in. The crate `lua-src` sets exactly these for Lua 5.4 on Linux; our standalone repeats them.
const FLAGS: [&str; 3] = ["-DLUA_USE_LINUX", "-DLUA_COMPAT_5_3", "-fno-common"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=c/stock_host.c");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR for build scripts"));

    let lua = lua_src::Build::new()
        .opt_level(OPTIMISATION)
        .debug(false)
        .build(lua_src::Lua54);
    let mut compiler = cc::Build::new();
    compiler
        .cargo_metadata(false)
        .opt_level_str(OPTIMISATION)
        .debug(false)
        .warnings(false)
        .include(lua.include_dir());
    for flag in FLAGS {
        compiler.flag(flag);
    }
    let compiler = compiler.get_compiler();

    let stock = out.join("stock-lua");
    link(compiler.to_command(), &stock, lua.lib_dir(), lua.libs());
    println!("cargo::rustc-env=BATON_BENCH_STOCK={}", stock.display());
    println!(
        "cargo::rustc-env=BATON_BENCH_FLAGS={}",
        flag_line(compiler.args())
    );
}

/// Compiles the standalone and links it with Lua's library, exporting the C API as the original does.
fn link(mut command: Command, executable: &Path, lib_dir: &Path, libs: &[String]) {
    command.arg("c/stock_host.c").arg("-o").arg(executable);
    command.arg("-L").arg(lib_dir);
    command.args(libs.iter().map(|lib| format!("-l{lib}")));
    command.args(["-Wl,-E", "-lm", "-ldl"]);
    let status = command
        .status()
        .unwrap_or_else(|error| panic!("cannot run the C compiler {command:?}: {error}"));
    assert!(
        status.success(),
        "the stock interpreter did not link: {command:?}"
    );
}

/// The compiler's arguments without the include path, which is of no interest to a reader of the results.
fn flag_line(arguments: &[impl AsRef<OsStr>]) -> String {
    let mut words = Vec::new();
    let mut arguments = arguments.iter().map(|word| word.as_ref().to_string_lossy());
    while let Some(word) = arguments.next() {
        if word == "-I" {
            arguments.next();
        } else if !word.starts_with("-I") {
            words.push(word.into_owned());
        }
    }
    words.join(" ")
}
