//! A library as `cargo xtask install` installs it.

use std::path::{Path, PathBuf};

use crate::{Place, cargo, repository, succeed};

/// Installs the debug build of a library, and returns its prefix. `options` go to
/// `cargo xtask install`.
#[track_caller]
pub fn prefix(place: Place, options: &[&str]) -> PathBuf {
    let prefix = place.scratch().join("installed");
    // Tests are built by one program that holds no lock any more, so this cargo can build.
    let mut install = cargo();
    install
        .args(["run", "--offline", "--quiet", "-p", "xtask", "--"])
        .args(["install", "--debug", "--prefix"])
        .arg(&prefix)
        .args(options)
        .current_dir(repository());
    succeed(&mut install);
    prefix
}

/// Where the files for pkg-config are in a prefix.
pub fn descriptions(prefix: &Path) -> PathBuf {
    prefix.join("lib/pkgconfig")
}
