//! The list of what is in a program (SBOM), in CycloneDX's format.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::target::Target;
use super::zig::lua_headers;
use crate::checker::Checker;
use crate::deb::output;
use crate::own_modules;
use crate::workspace;

const CYCLONEDX: Checker = Checker {
    package: "cargo-cyclonedx",
    version: "0.5.9",
    program: "cargo-cyclonedx",
};

/// The name of the file that cargo-cyclonedx writes beside each manifest of the workspace.
const BESIDE_MANIFESTS: &str = "baton-bill-of-materials";

/// Writes the list for one target. It has all crates that are linked into the program and its
/// modules, and Lua.
pub(crate) fn write(target: &Target, to: &Path, time: &str) -> Result<PathBuf, String> {
    let root = workspace::root();
    let listed = list(target, time);
    let file = format!("{BESIDE_MANIFESTS}.json");
    let read = |crate_directory: &str| fs::read_to_string(root.join(crate_directory).join(&file));
    let text = read("tools/baton");
    let of_modules: Vec<_> = own_modules::ALL
        .iter()
        .map(|own| read(&format!("guests/{}", own.name)))
        .collect();
    for written in workspace::files(&root)? {
        if written
            .file_name()
            .is_some_and(|name| name == file.as_str())
        {
            fs::remove_file(&written)
                .map_err(|why| format!("cannot remove {}: {why}", written.display()))?;
        }
    }
    listed?;
    let parse = |text: std::io::Result<String>| {
        let text = text.map_err(|why| format!("cargo-cyclonedx wrote no list: {why}"))?;
        let text = text.replace(
            &format!("path+file://{}", root.display()),
            "path+file:///baton",
        );
        serde_json::from_str::<Value>(&text).map_err(|why| format!("cargo-cyclonedx: {why}"))
    };
    let mut list = parse(text)?;
    for module in of_modules {
        merge(&mut list, parse(module)?);
    }
    let components = list["components"]
        .as_array_mut()
        .ok_or("cargo-cyclonedx listed no components")?;
    components.push(lua()?);
    let path = to.join(format!("{}.cdx.json", target.archive_name()));
    fs::write(&path, format!("{list:#}\n"))
        .map_err(|why| format!("cannot write {}: {why}", path.display()))?;
    Ok(path)
}

/// Adds a module's list to the program's: the module, what is linked into it, and who needs what.
fn merge(list: &mut Value, module: Value) {
    let add = |to: &mut Value, values: Vec<Value>, key: &str| {
        let Some(to) = to.as_array_mut() else { return };
        for value in values {
            if !to.iter().any(|other| other[key] == value[key]) {
                to.push(value);
            }
        }
    };
    let values = |key: &str| module[key].as_array().cloned().unwrap_or_default();
    let components = [
        vec![module["metadata"]["component"].clone()],
        values("components"),
    ];
    add(&mut list["components"], components.concat(), "bom-ref");
    add(&mut list["dependencies"], values("dependencies"), "ref");
}

fn list(target: &Target, time: &str) -> Result<String, String> {
    let mut command = Command::new(CYCLONEDX.installed()?);
    command
        .args(["cyclonedx", "--quiet", "--manifest-path"])
        .arg(workspace::root().join("tools/baton/Cargo.toml"))
        .args([
            "--format",
            "json",
            "--spec-version",
            "1.5",
            "--no-build-deps",
        ])
        .args([
            "--target",
            target.triple,
            "--override-filename",
            BESIDE_MANIFESTS,
        ])
        .env("SOURCE_DATE_EPOCH", time);
    output(&mut command)
}

/// Lua, which is not a crate of its own.
fn lua() -> Result<Value, String> {
    let directory = lua_headers()?;
    let name = directory.file_name().unwrap_or_default().to_string_lossy();
    let version = name.trim_start_matches("lua-");
    Ok(json!({
        "type": "library",
        "bom-ref": format!("pkg:generic/lua@{version}"),
        "name": "lua",
        "version": version,
        "scope": "required",
        "licenses": [{"expression": "MIT"}],
        "purl": format!("pkg:generic/lua@{version}"),
    }))
}

#[cfg(test)]
mod checks {
    use super::*;

    #[test]
    fn a_modules_list_is_added_without_what_the_program_has() {
        let mut list = json!({
            "components": [{"bom-ref": "libc"}],
            "dependencies": [{"ref": "libc"}, {"ref": "baton"}],
        });
        let module = json!({
            "metadata": {"component": {"bom-ref": "cluster"}},
            "components": [{"bom-ref": "libc"}, {"bom-ref": "tokio"}],
            "dependencies": [{"ref": "libc"}, {"ref": "tokio"}],
        });
        merge(&mut list, module);
        let expected = json!({
            "components": [{"bom-ref": "libc"}, {"bom-ref": "cluster"}, {"bom-ref": "tokio"}],
            "dependencies": [{"ref": "libc"}, {"ref": "baton"}, {"ref": "tokio"}],
        });
        assert_eq!(list, expected);
    }
}
