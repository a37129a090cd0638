//! Tells other crates where `baton.h` is.

fn main() {
    println!("cargo::rerun-if-changed=include");
    let manifest = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    println!("cargo::metadata=include={manifest}/include");
}
