// Finds Lua's sources, and has the flags for compiling them. Shared by the build scripts of the
// guest and of the bench's stock host, and by the tests that check the guest's memory.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Flags for every file of Lua. They are the same for Baton's Lua and for the stock Lua that it is
/// measured against.
///
/// Functions start at a cache line. Without that, the linker decides where the loop of Lua's
/// interpreter starts. Then some programs take 15 % more time from one build to the next.
pub(crate) const LUA_FLAGS: &[&str] = &[
    "-O2",
    "-fno-common",
    "-fno-plt",
    "-falign-functions=64",
    "-DLUA_USE_LINUX",
    "-DLUA_COMPAT_5_3",
];

/// How the directory of the crate `lua-src` begins, in the version that the manifest wants.
const LUA_SRC: &str = "lua-src-551.";

/// The directory of the sources of Lua 5.4 inside the crate `lua-src`.
pub(crate) fn lua_source_directory() -> PathBuf {
    let crate_directory = directory_in_metadata()
        .or_else(|complaint| directory_in_registries().ok_or(complaint))
        .unwrap_or_else(|complaint| panic!("cannot find the crate lua-src: {complaint}"));
    entries_of(&crate_directory)
        .find(|path| name_of(path).starts_with("lua-5.4"))
        .expect("the crate lua-src holds Lua 5.4")
}

/// The directory of the crate `lua-src`, from cargo.
fn directory_in_metadata() -> Result<PathBuf, String> {
    let text = cargo_metadata()?;
    text.split('"')
        .find(|word| word.ends_with("Cargo.toml") && word.contains("lua-src-"))
        .and_then(|manifest| Some(Path::new(manifest).parent()?.to_path_buf()))
        .ok_or_else(|| "it is no dependency".to_owned())
}

/// The same for builds in which `cargo metadata` fails. It fails without a network, and if this
/// package is built alone while packages beside it are in no registry yet. Cargo has unpacked all
/// sources by then.
fn directory_in_registries() -> Option<PathBuf> {
    let own = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR")?);
    let cargo_home = std::env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let registries = cargo_home
        .into_iter()
        .flat_map(|home| entries_of(&home.join("registry/src")));
    own.parent()
        .map(Path::to_path_buf)
        .into_iter()
        .chain(registries)
        .flat_map(|registry| entries_of(&registry))
        .filter(|path| name_of(path).starts_with(LUA_SRC))
        .max()
}

fn entries_of(directory: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    std::fs::read_dir(directory)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
}

fn name_of(path: &Path) -> String {
    path.file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}

/// The output of `cargo metadata`. It needs the crates of all platforms and tests, but a fresh
/// machine has fetched only those of its own build. So a second try fetches them.
fn cargo_metadata() -> Result<String, String> {
    let cargo = std::env::var_os("CARGO").expect("cargo sets CARGO");
    let mut complaint = String::new();
    for reach in [&["--offline"][..], &[]] {
        let output = Command::new(&cargo)
            .args(["metadata", "--format-version", "1", "--locked"])
            .args(reach)
            .output()
            .expect("cargo metadata runs");
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    }
    Err(format!("cargo metadata failed: {complaint}"))
}
