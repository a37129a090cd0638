//! Compiles the thread-local words of the gate and tells dependants where `gate.h` is.

fn main() {
    println!("cargo::rerun-if-changed=c/gate.c");
    println!("cargo::rerun-if-changed=c/gate.h");
    println!("cargo::rerun-if-env-changed=CFLAGS");
    let manifest = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    println!("cargo::metadata=include={manifest}/c");
    let mut build = cc::Build::new();
    build.file("c/gate.c").opt_level(2).warnings(true);
    if std::env::var_os("CARGO_CFG_DEBUG_ASSERTIONS").is_some() {
        build.define("BATON_CHECKS", None);
    }
    if std::env::var_os("CARGO_CFG_BATON_SHARED").is_some() {
        build.define("BATON_SHARED", None);
    }
    build.compile("baton_gate");
}
