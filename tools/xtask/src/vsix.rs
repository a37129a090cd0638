//! `cargo xtask vsix`: packs the extension for VS Code.
//!
//! The extension's files, the definitions for the Lua language server and the licenses are copied
//! into a directory, and packed there by `vsce` from npm, in a pinned version.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Outcome;
use crate::readers::PACKER;
use crate::workspace;

/// The extension's own files.
const FILES: [&str; 4] = ["package.json", "extension.js", "README.md", ".vscodeignore"];

pub(crate) fn run() -> Outcome {
    let packer = PACKER.install_in_target()?;
    let packed = pack(&packer, &workspace::target_directory("vsix"))?;
    println!("{}", packed.display());
    Ok(())
}

/// Packs the extension in a directory, which is made anew. Returns the package.
fn pack(packer: &Path, directory: &Path) -> Result<PathBuf, String> {
    let failed = |what: &str| {
        let what = format!("cannot copy {what} to {}", directory.display());
        move |why: std::io::Error| format!("{what}: {why}")
    };
    if directory.exists() {
        fs::remove_dir_all(directory).map_err(failed("anything"))?;
    }
    let stage = directory.join("extension");
    fs::create_dir_all(&stage).map_err(failed("anything"))?;
    let root = workspace::root();
    for file in FILES {
        fs::copy(root.join("editor/vscode").join(file), stage.join(file)).map_err(failed(file))?;
    }
    for file in ["LICENSE-APACHE", "LICENSE-MIT"] {
        fs::copy(root.join(file), stage.join(file)).map_err(failed(file))?;
    }
    let library = root.join("editor/lua-language-server/library");
    copy_all(&library, &stage.join("library")).map_err(failed("the definitions"))?;
    let package = directory.join("baton.vsix");
    let status = Command::new("node")
        .arg(packer.join("node_modules/@vscode/vsce/vsce"))
        .args(["package", "--no-dependencies", "--skip-license"])
        .args(["--allow-missing-repository", "--out"])
        .arg(&package)
        .current_dir(&stage)
        .status()
        .map_err(|why| format!("cannot start node: {why}"))?;
    match status.success() {
        true => Ok(package),
        false => Err(format!("vsce has not packed the extension: {status}")),
    }
}

/// Copies a directory with all that is in it.
fn copy_all(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => copy_all(&entry.path(), &to)?,
            false => _ = fs::copy(entry.path(), to)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod checks {
    use super::*;

    #[test]
    fn the_extension_has_the_version_of_the_interpreter() {
        let root = workspace::root();
        let read = |file: &str| fs::read_to_string(root.join(file)).expect(file);
        let manifest: serde_json::Value =
            serde_json::from_str(&read("editor/vscode/package.json")).expect("it is JSON");
        let version = manifest["version"].as_str().expect("a version");
        assert!(read("Cargo.toml").contains(&format!("\nversion = \"{version}\"\n")));
    }

    #[test]
    fn the_package_has_the_extension_and_the_definitions() {
        let packer = workspace::target_directory("readers").join("packer");
        let is_there = packer.join("node_modules/@vscode/vsce/vsce").exists();
        if !is_there {
            assert!(std::env::var_os("CI").is_none(), "run cargo xtask readers");
            eprintln!("SKIPPED: the extension was not packed: run cargo xtask readers");
            return;
        }
        let directory = std::env::temp_dir().join(format!("baton-vsix-{}", std::process::id()));
        let package = pack(&packer, &directory).expect("it is packed");
        let listed = Command::new("python3")
            .args(["-m", "zipfile", "-l"])
            .arg(&package)
            .output()
            .expect("python3 starts");
        fs::remove_dir_all(&directory).expect("the trial's directory");
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        let mut names: Vec<&str> = listed
            .lines()
            .skip(1)
            .filter_map(|line| line.split_whitespace().next())
            .filter(|name| name.starts_with("extension/"))
            .collect();
        names.sort_unstable();
        assert_eq!(
            names,
            [
                "extension/LICENSE-APACHE",
                "extension/LICENSE-MIT",
                "extension/extension.js",
                "extension/library/baton/cluster.lua",
                "extension/library/baton/ffi.lua",
                "extension/library/baton/http.lua",
                "extension/library/baton/inspect.lua",
                "extension/library/baton/json.lua",
                "extension/library/baton/log.lua",
                "extension/library/baton/net.lua",
                "extension/library/baton/process.lua",
                "extension/library/baton/vm.lua",
                "extension/library/baton/web.lua",
                "extension/package.json",
                "extension/readme.md",
            ],
            "{listed}"
        );
    }
}
