//! The sources of a program that is built for its cost, with all crates that the build needs.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::empty;
use crate::cargo::cargo;
use crate::deb::output;
use crate::workspace;

/// The version that is built. Its lock file is in its package.
const RIPGREP: &str = "15.1.0";

/// A program's sources.
pub(super) struct Sources {
    /// The program's name and version.
    pub(super) name: String,
    /// The directory with its manifest.
    pub(super) directory: PathBuf,
    /// The file's name of the program.
    pub(super) program: &'static str,
    /// The names and versions of the crates that the build takes from the registry.
    pub(super) crates: BTreeSet<String>,
    /// What these have in bytes, as they are downloaded.
    pub(super) downloaded: u64,
}

impl Sources {
    /// Ours, as of the last commit, in a clone.
    pub(super) fn of_baton(below: &Path) -> Result<Sources, String> {
        let directory = below.join("baton");
        empty(&directory)?;
        let mut git = Command::new("git");
        git.args(["clone", "--quiet"]).arg(workspace::root());
        output(git.arg(&directory))?;
        let version = env!("CARGO_PKG_VERSION");
        Self::fetched(format!("baton {version}"), directory, "baton")
    }

    /// Ripgrep's, from the registry.
    pub(super) fn of_ripgrep(below: &Path) -> Result<Sources, String> {
        let asking = below.join("asking");
        empty(&asking.join("src"))?;
        // Cargo downloads a package only for one that depends on it, even if it has no library.
        let manifest = format!(
            "[package]\nname = \"asking\"\nedition = \"2024\"\n\n[workspace]\n\n[dependencies]\n\
             ripgrep = \"={RIPGREP}\"\n"
        );
        write(&asking.join("Cargo.toml"), &manifest)?;
        write(&asking.join("src/lib.rs"), "")?;
        output(cargo(&["fetch", "--quiet"]).current_dir(&asking))?;
        let name = format!("ripgrep-{RIPGREP}");
        let mut unpacked = registry("src")?.into_iter().map(|of| of.join(&name));
        let unpacked = unpacked
            .find(|directory| directory.is_dir())
            .ok_or_else(|| format!("cargo has downloaded no {name}"))?;
        let directory = below.join("ripgrep");
        empty(&directory)?;
        let mut copy = Command::new("cp");
        copy.arg("-R").arg(unpacked.join("."));
        output(copy.arg(&directory))?;
        // Otherwise it would have to be a member of our workspace.
        let manifest = directory.join("Cargo.toml");
        let text = fs::read_to_string(&manifest)
            .map_err(|why| format!("cannot read {}: {why}", manifest.display()))?;
        write(&manifest, &format!("{text}\n[workspace]\n"))?;
        Self::fetched(format!("ripgrep {RIPGREP}"), directory, "rg")
    }

    /// Downloads what the build needs.
    fn fetched(name: String, directory: PathBuf, program: &'static str) -> Result<Sources, String> {
        output(cargo(&["fetch", "--quiet", "--locked"]).current_dir(&directory))?;
        let mut tree = cargo(&["tree", "--locked", "--offline", "--prefix", "none"]);
        tree.args(["-e", "normal,build"]);
        let crates = crates_in(&output(tree.current_dir(&directory))?);
        let downloaded = size_of(&crates)?;
        Ok(Sources {
            name,
            directory,
            program,
            crates,
            downloaded,
        })
    }
}

/// The crates of a tree that come from the registry, as `name-version`. Others have a path.
fn crates_in(tree: &str) -> BTreeSet<String> {
    let of_others = tree.lines().filter(|line| !line.contains("(/"));
    of_others
        .filter_map(|line| {
            let (name, rest) = line.split_once(" v")?;
            Some(format!("{name}-{}", rest.split(' ').next()?))
        })
        .collect()
}

/// The size of these crates in cargo's cache.
fn size_of(crates: &BTreeSet<String>) -> Result<u64, String> {
    let registries = registry("cache")?;
    let size = |name: &String| {
        let mut files = registries.iter().map(|of| of.join(format!("{name}.crate")));
        let file = files.find_map(|file| fs::metadata(file).ok());
        file.map(|file| file.len())
    };
    Ok(crates.iter().filter_map(size).sum())
}

/// A part of what cargo has downloaded: a directory for each registry.
fn registry(part: &str) -> Result<Vec<PathBuf>, String> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let part = home
        .ok_or("neither CARGO_HOME nor HOME is set")?
        .join("registry")
        .join(part);
    let registries =
        fs::read_dir(&part).map_err(|why| format!("cannot list {}: {why}", part.display()))?;
    Ok(registries.flatten().map(|entry| entry.path()).collect())
}

fn write(file: &Path, text: &str) -> Result<(), String> {
    fs::write(file, text).map_err(|why| format!("cannot write {}: {why}", file.display()))
}

#[cfg(test)]
mod checks {
    use super::*;

    #[test]
    fn crates_of_the_registry_count_once_for_each_version() {
        let tree = "baton v0.1.0 (/baton/tools/baton)\nsyn v2.0.1\nsyn v3.0.9\n\
                    serde_derive v1.0.2 (proc-macro)\nsyn v3.0.9 (*)\n";
        let expected = ["serde_derive-1.0.2", "syn-2.0.1", "syn-3.0.9"];
        assert!(crates_in(tree).iter().eq(expected), "{:?}", crates_in(tree));
    }
}
