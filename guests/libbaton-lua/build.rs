//! Tells the tests where Lua's public headers are.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let include = std::env::var("DEP_BATON_LUA_INCLUDE").expect("baton-lua says where lua.h is");
    println!("cargo::rustc-env=BATON_LUA_INCLUDE={include}");
}
