// What a module of Baton's own and the program that loads it must have in common. Shared by the
// build scripts of the guest and of the modules.

use std::path::Path;

/// The headers that a module is compiled with: those of the runtime, and those of the guest.
const OF_RUNTIME: [&str; 4] = [
    "baton.h",
    "baton/guest.h",
    "baton/inline.h",
    "baton/shared.h",
];
const OF_GUEST: [&str; 2] = ["baton_module.h", "baton_net.h"];

/// The version of Baton, and a number that changes with each change of the headers: `0.1.0
/// (interface 1f2e3d4c)`.
pub(crate) fn built_for(runtime: &Path, guest: &Path) -> String {
    let of_runtime = OF_RUNTIME.iter().map(|name| runtime.join(name));
    let mut hash = 0xcbf2_9ce4_8422_2325_u64; // FNV-1a
    let of_guest = OF_GUEST.iter().map(|name| guest.join(name));
    for path in of_runtime.chain(of_guest) {
        println!("cargo::rerun-if-changed={}", path.display());
        let text = std::fs::read(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
        for byte in text {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
    let version = std::env::var("CARGO_PKG_VERSION").expect("cargo sets CARGO_PKG_VERSION");
    format!("{version} (interface {:08x})", hash >> 32)
}
