//! Compiles the command line, which is C, against the guest's Lua headers; and modules that a test
//! program links.

use std::env;
use std::path::{Path, PathBuf};

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
            "c/messages.c",
            "c/completion.c",
            "c/terminal.c",
        ])
        .include(&include)
        // The command line's functions count as Lua's own (guests/lua/c/seam/frames.c).
        .define("lua_pushcclosure", "baton_stock_pushcclosure")
        .define(
            "BATON_VERSION",
            format!("\"{}\"", env!("CARGO_PKG_VERSION")).as_str(),
        )
        .warnings(true)
        .extra_warnings(true)
        .compile("baton_standalone");
    compile_linked_modules(&include);
    compile_copying_host(&include);
    // Compiled Lua modules resolve the C API from the executable, and nothing else.
    println!("cargo::rustc-link-arg-bins=-rdynamic");
    let exports = env::var("DEP_BATON_LUA_EXPORTS").expect("baton-lua says what to export");
    if env::var_os("CARGO_CFG_TARGET_OS").is_none_or(|system| system != "macos") {
        println!("cargo::rerun-if-changed={exports}");
        println!("cargo::rustc-link-arg-bins=-Wl,--version-script={exports}");
    }
}

/// For `tests/linked_modules.rs`, which names the library.
fn compile_linked_modules(include: &Path) {
    println!("cargo::rerun-if-changed=tests/linked");
    println!("cargo::rerun-if-changed=tests/modules");
    cc::Build::new()
        .files([
            "tests/linked/host.c",
            "tests/modules/blocker.c",
            "tests/modules/latch.c",
        ])
        .include(include)
        .warnings(true)
        .cargo_metadata(false)
        .compile("baton_linked_modules");
}

/// For `tests/copying.rs`. Its functions count as the guest's own.
fn compile_copying_host(include: &Path) {
    cc::Build::new()
        .file("tests/linked/copying.c")
        .include(include)
        .define("lua_pushcclosure", "baton_stock_pushcclosure")
        .warnings(true)
        .extra_warnings(true)
        .cargo_metadata(false)
        .compile("baton_copying_host");
}
