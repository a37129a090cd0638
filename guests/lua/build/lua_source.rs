// Where Lua's sources are and how they are compiled: shared by the build scripts of the guest and
// of the bench's stock host.

use std::path::PathBuf;
use std::process::Command;

/// Flags for every file of Lua, the same for Baton's Lua and for the stock one that it is measured
/// against.
pub(crate) const LUA_FLAGS: &[&str] = &[
    "-O2",
    "-fno-common",
    "-fno-plt",
    "-DLUA_USE_LINUX",
    "-DLUA_COMPAT_5_3",
];

/// The directory of the sources of Lua 5.4 inside the crate `lua-src`.
pub(crate) fn lua_source_directory() -> PathBuf {
    let text = cargo_metadata();
    let crate_directory = text
        .split('"')
        .find(|word| word.ends_with("Cargo.toml") && word.contains("lua-src-"))
        .map(|manifest| {
            PathBuf::from(manifest)
                .parent()
                .map(PathBuf::from)
                .unwrap_or_default()
        })
        .expect("the crate lua-src is a dependency");
    std::fs::read_dir(&crate_directory)
        .expect("the crate's directory is readable")
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .find(|path| {
            path.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("lua-5.4"))
        })
        .expect("the crate lua-src holds Lua 5.4")
}

/// What `cargo metadata` says. A fresh machine has fetched only the crates that its own build
/// needs, and metadata wants those of every platform and of the tests too: where they are missing,
/// the second try fetches them.
fn cargo_metadata() -> String {
    let cargo = std::env::var_os("CARGO").expect("cargo sets CARGO");
    let mut complaint = String::new();
    for reach in [&["--offline"][..], &[]] {
        let output = Command::new(&cargo)
            .args(["metadata", "--format-version", "1", "--locked"])
            .args(reach)
            .output()
            .expect("cargo metadata runs");
        if output.status.success() {
            return String::from_utf8_lossy(&output.stdout).into_owned();
        }
        complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    }
    panic!("cargo metadata, which tells where the crate lua-src is, failed: {complaint}");
}
