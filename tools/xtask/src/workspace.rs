//! The location of the workspace, and the files that belong to it.

use std::fs;
use std::path::{Path, PathBuf};

/// Directories without sources: build output and version control.
const NOT_SOURCES: [&str; 3] = [".git", "target", "node_modules"];

/// The workspace's root directory.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_path_buf()
}

/// A directory for build output with other compiler flags, which must not share the main directory.
///
/// It is under `CARGO_TARGET_DIR`, if that is set, so that all output of a run is in one place.
pub(crate) fn target_directory(name: &str) -> PathBuf {
    let main = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    root().join(main).join(name)
}

/// The directory for everything that we publish: the archive and the Debian package. The directory
/// `dist` is that of cargo's profile.
pub(crate) fn directory_to_publish() -> Result<PathBuf, String> {
    let directory = target_directory("packages");
    fs::create_dir_all(&directory)
        .map_err(|why| format!("cannot make {}: {why}", directory.display()))?;
    Ok(directory)
}

/// The path of a file in the workspace, with forward slashes, as messages show it.
pub(crate) fn shown(root: &Path, path: &Path) -> String {
    path.strip_prefix(root)
        .unwrap_or(path)
        .to_string_lossy()
        .replace('\\', "/")
}

/// Removes build output: a file, or a directory with all that it has.
pub(crate) fn remove(path: &Path) {
    // What cannot be removed takes room, and nothing worse.
    let _ = match path.is_dir() {
        true => fs::remove_dir_all(path),
        false => fs::remove_file(path),
    };
}

/// cargo's profile for what is published: fat link-time optimization.
pub(crate) const DIST: &str = "dist";

/// The interpreter as it is published, after cargo has built it with the profile [`DIST`].
pub(crate) fn published_program() -> PathBuf {
    target_directory(DIST).join("baton")
}

/// All files under `directory` except build output and version control, in a stable order.
pub(crate) fn files(directory: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    let mut pending = vec![directory.to_path_buf()];
    while let Some(next) = pending.pop() {
        let entries =
            fs::read_dir(&next).map_err(|why| format!("cannot list {}: {why}", next.display()))?;
        for entry in entries {
            let entry = entry.map_err(|why| format!("cannot list {}: {why}", next.display()))?;
            let kind = entry
                .file_type()
                .map_err(|why| format!("{}: {why}", entry.path().display()))?;
            if kind.is_dir() {
                let skipped = NOT_SOURCES.iter().any(|name| entry.file_name() == *name);
                if !skipped {
                    pending.push(entry.path());
                }
            } else if kind.is_file() {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    Ok(found)
}
