//! Compiles the half in C, against the headers of Lua, of the runtime, and of the guest.

#[path = "../lua/build/lua_source.rs"]
mod lua_source;
#[path = "../lua/build/module_interface.rs"]
mod module_interface;

use std::path::Path;

const FILES: [&str; 4] = ["c/module.c", "c/tls.c", "c/websocket.c", "c/http2.c"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=c");
    let [runtime, guest] = ["../../bindings/capi/include", "../lua/include"].map(Path::new);
    let built_for = module_interface::built_for(runtime, guest);
    println!("cargo::rustc-env=BATON_MODULE_BUILT_FOR={built_for}");
    let mut build = cc::Build::new();
    build
        .files(FILES)
        .include(lua_source::lua_source_directory())
        .includes([runtime, guest])
        .warnings(true)
        .extra_warnings(true)
        .flag("-Werror=implicit-function-declaration");
    for flag in lua_source::LUA_FLAGS {
        build.flag(flag);
    }
    let is_for_macos = std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "macos");
    if is_for_macos {
        build.flag("-ULUA_USE_LINUX").define("LUA_USE_MACOSX", None);
        // The program that loads the file has Lua and the runtime.
        println!("cargo::rustc-cdylib-link-arg=-undefined");
        println!("cargo::rustc-cdylib-link-arg=dynamic_lookup");
    }
    build.compile("baton_web_c");
}
