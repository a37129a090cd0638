//! Compiles the command line, which is C, against the guest's Lua headers.

use std::env;
use std::path::PathBuf;

fn main() {
    println!("cargo::rerun-if-changed=c");
    let include = env::var_os("DEP_BATON_LUA_INCLUDE")
        .map(PathBuf::from)
        .expect("baton-lua says where Lua's headers are");
    println!("cargo::rustc-env=BATON_LUA_INCLUDE={}", include.display());
    cc::Build::new()
        .files([
            "c/standalone.c",
            "c/command_line.c",
            "c/interactive.c",
            "c/completion.c",
            "c/terminal.c",
        ])
        .include(include)
        .define(
            "BATON_VERSION",
            format!("\"{}\"", env!("CARGO_PKG_VERSION")).as_str(),
        )
        .warnings(true)
        .extra_warnings(true)
        .compile("baton_standalone");
    // Compiled Lua modules resolve the C API from the executable.
    println!("cargo::rustc-link-arg-bins=-rdynamic");
}
