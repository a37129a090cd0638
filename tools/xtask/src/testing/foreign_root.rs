//! Debian's Lua modules for the emulated architecture, in a directory of their own.
//!
//! Installed, they would change the system, and some would replace those of its own architecture.
//! So apt-get only downloads them, with all that they depend on. It keeps its lists in the same
//! place. The emulator looks in the directory first for each file that a program opens
//! (`QEMU_LD_PREFIX`).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Outcome;
use crate::deb::output;
use crate::dist::target::Target;
use crate::packages;
use crate::workspace;

/// The directory of a root with the modules and the C library. It is made once.
pub(super) fn with_modules(target: &Target) -> Result<PathBuf, String> {
    let place = workspace::target_directory("emulated").join("debian");
    let (root, done) = (place.join("root"), place.join("packages"));
    let wanted = packages::for_another_architecture();
    if fs::read_to_string(&done).is_ok_and(|names| names == wanted.join("\n")) {
        return Ok(root);
    }
    if place.exists() {
        fs::remove_dir_all(&place)
            .map_err(|why| format!("cannot empty {}: {why}", place.display()))?;
    }
    let state = place.join("apt");
    make(&root)?;
    make(&state.join("lists/partial"))?;
    make(&state.join("cache/archives/partial"))?;
    write(&state.join("status"), "")?;
    output(apt(target, &state).arg("update"))?;
    let mut download = apt(target, &state);
    download.args([
        "install",
        "--download-only",
        "--yes",
        "--no-install-recommends",
    ]);
    output(download.args(&wanted))?;
    unpack(&state.join("cache/archives"), &root)?;
    fs::remove_dir_all(&state)
        .map_err(|why| format!("cannot remove {}: {why}", state.display()))?;
    write(&done, &wanted.join("\n"))?;
    Ok(root)
}

/// An `apt-get` command for another architecture, whose state is in a directory. It takes no
/// package for installed.
fn apt(target: &Target, state: &Path) -> Command {
    let mut apt = Command::new("apt-get");
    for (option, value) in [
        ("Dir::State", state.to_path_buf()),
        ("Dir::State::Lists", state.join("lists")),
        ("Dir::State::status", state.join("status")),
        ("Dir::Cache", state.join("cache")),
    ] {
        apt.arg("-o").arg(format!("{option}={}", value.display()));
    }
    for option in ["APT::Architecture", "APT::Architectures"] {
        apt.arg("-o").arg(format!("{option}={}", target.debian));
    }
    // Otherwise it would download as another user, who cannot write here.
    apt.args(["-o", "APT::Sandbox::User=", "-qq"]);
    apt
}

/// Unpacks all packages in a directory.
fn unpack(archives: &Path, root: &Path) -> Outcome {
    let entries = fs::read_dir(archives)
        .map_err(|why| format!("cannot read {}: {why}", archives.display()))?;
    let packages = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|kind| kind == "deb"));
    for package in packages {
        output(Command::new("dpkg-deb").arg("-x").arg(package).arg(root))?;
    }
    Ok(())
}

fn make(directory: &Path) -> Outcome {
    fs::create_dir_all(directory)
        .map_err(|why| format!("cannot make {}: {why}", directory.display()))
}

fn write(file: &Path, text: &str) -> Outcome {
    fs::write(file, text).map_err(|why| format!("cannot write {}: {why}", file.display()))
}

#[cfg(test)]
mod checks {
    use super::*;

    #[test]
    fn packages_are_downloaded_for_the_target_only() {
        let target = Target::of("aarch64").expect("it is listed");
        let apt = apt(target, Path::new("/state"));
        let words: Vec<_> = apt
            .get_args()
            .map(|word| word.display().to_string())
            .collect();
        for wanted in [
            "Dir::State::status=/state/status",
            "APT::Architecture=arm64",
            "APT::Architectures=arm64",
        ] {
            assert!(words.iter().any(|word| word == wanted), "{words:?}");
        }
    }
}
