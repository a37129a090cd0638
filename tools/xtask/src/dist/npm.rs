//! The packages for npm: one per system with the program, and one that starts the one that fits.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::VERSION;
use super::target::{TARGETS, Target};
use crate::deb::output;
use crate::deb::tree::Tree;
use crate::own_modules;
use crate::workspace;

/// Starts the program of the other package.
const LAUNCHER: &str = include_str!("launcher.js");

/// Makes the package with the program for one system.
pub(crate) fn pack_program(
    target: &Target,
    program: &Path,
    licences: &str,
    to: &Path,
) -> Result<PathBuf, String> {
    let mut manifest = manifest(&package_of(target));
    manifest["os"] = json!(["linux"]);
    manifest["cpu"] = json!([target.node]);
    manifest["libc"] = json!(["glibc"]);
    let tree = Tree::new(to.join(format!("npm-{}", target.architecture)))?;
    tree.copy_program(program, "bin/baton")?;
    own_modules::copy(program, &tree, "lib")?;
    tree.write("LICENSES-OF-OTHERS", licences)?;
    pack(&tree, &manifest, to)
}

/// Makes the package that users name.
pub(crate) fn pack_launcher(to: &Path) -> Result<PathBuf, String> {
    let mut manifest = manifest("baton-lua");
    let programs = TARGETS
        .iter()
        .map(|target| (package_of(target), json!(VERSION)));
    manifest["optionalDependencies"] = Value::Object(programs.collect());
    manifest["bin"] = json!({"baton": "bin/baton.js"});
    let tree = Tree::new(to.join("npm-launcher"))?;
    tree.write("bin/baton.js", LAUNCHER)?;
    pack(&tree, &manifest, to)
}

pub(crate) fn package_of(target: &Target) -> String {
    format!("baton-lua-linux-{}", target.node)
}

fn manifest(name: &str) -> Value {
    json!({
        "name": name,
        "version": VERSION,
        "description": "A Lua 5.4 interpreter with preemptive processes",
        "license": "MIT OR Apache-2.0",
        "files": ["bin", "lib", "LICENSE*"],
    })
}

/// Packs with npm, which gives all files the same time.
fn pack(tree: &Tree, manifest: &Value, to: &Path) -> Result<PathBuf, String> {
    let root = workspace::root();
    for file in ["LICENSE-MIT", "LICENSE-APACHE"] {
        tree.copy(&root.join(file), file)?;
    }
    tree.write("package.json", &format!("{manifest:#}\n"))?;
    let mut npm = Command::new("npm");
    npm.args(["pack", "--silent", "--offline", "--pack-destination"]);
    let said = output(npm.arg(to).current_dir(tree.root()))?;
    let name = said.lines().last().ok_or("npm pack named no file")?;
    fs::remove_dir_all(tree.root())
        .map_err(|why| format!("cannot remove {}: {why}", tree.root().display()))?;
    Ok(to.join(name))
}
