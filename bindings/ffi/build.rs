//! Compiles the direct calls, and tells other crates where their header is.

use std::path::PathBuf;

fn main() {
    println!("cargo::rerun-if-changed=c");
    let manifest = PathBuf::from(
        std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR"),
    );
    cc::Build::new()
        .file("c/direct.c")
        .include("c")
        .warnings(true)
        .extra_warnings(true)
        .compile("baton_ffi_direct");
    println!("cargo::metadata=include={}", manifest.join("c").display());
}
