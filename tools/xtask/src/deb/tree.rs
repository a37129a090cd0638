//! The files of a package before it is packed. They are in a directory that stands for the root of
//! the system.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::output;
use crate::{Outcome, workspace};

/// File modes, set explicitly so that they do not depend on the user's umask.
const PROGRAM: u32 = 0o755;
const DOCUMENT: u32 = 0o644;

/// The directory of a package's files. File names are relative to its root.
pub(crate) struct Tree(PathBuf);

impl Tree {
    /// An empty tree at `root`. Existing files there are removed.
    pub(crate) fn new(root: PathBuf) -> Result<Self, String> {
        if root.exists() {
            fs::remove_dir_all(&root)
                .map_err(|why| format!("cannot remove {}: {why}", root.display()))?;
        }
        let tree = Self(root);
        tree.make_directory(Path::new(""))?;
        Ok(tree)
    }

    pub(crate) fn root(&self) -> &Path {
        &self.0
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Copies a program without the symbols that only debuggers need. The symbols that modules link
    /// to stay.
    pub(crate) fn install_program(&self, from: &Path, name: &str) -> Outcome {
        self.copy(from, name)?;
        let path = self.path(name);
        output(Command::new("strip").arg("--strip-unneeded").arg(&path))?;
        set_mode(&path, PROGRAM)
    }

    /// Copies a program as it is.
    pub(crate) fn copy_program(&self, from: &Path, name: &str) -> Outcome {
        self.copy(from, name)?;
        set_mode(&self.path(name), PROGRAM)
    }

    /// Copies one document.
    pub(crate) fn copy(&self, from: &Path, name: &str) -> Outcome {
        let bytes =
            fs::read(from).map_err(|why| format!("cannot read {}: {why}", from.display()))?;
        self.write_bytes(name, &bytes)
    }

    /// Copies all files below a directory.
    pub(crate) fn copy_directory(&self, from: &Path, name: &str) -> Outcome {
        for file in workspace::files(from)? {
            self.copy(&file, &format!("{name}/{}", workspace::shown(from, &file)))?;
        }
        Ok(())
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> Outcome {
        self.write_bytes(name, text.as_bytes())
    }

    /// Replaces a file by its compressed form. The result does not depend on the time.
    pub(crate) fn compress(&self, name: &str) -> Outcome {
        output(Command::new("gzip").arg("-9n").arg(self.path(name))).map(|_| ())
    }

    /// The checksums of all files, in the format of DEBIAN/md5sums.
    pub(crate) fn checksums(&self) -> Result<String, String> {
        let names: Vec<String> = self
            .files()?
            .iter()
            .map(|file| workspace::shown(&self.0, file))
            .collect();
        output(Command::new("md5sum").args(names).current_dir(&self.0))
    }

    /// The disk space of all files in KiB, with each file rounded up.
    pub(crate) fn kilobytes(&self) -> Result<u64, String> {
        let sizes = self.files()?.into_iter().map(|file| {
            let metadata =
                fs::metadata(&file).map_err(|why| format!("{}: {why}", file.display()))?;
            Ok(metadata.len().div_ceil(1024))
        });
        sizes.sum()
    }

    /// All files except those about the package itself.
    fn files(&self) -> Result<Vec<PathBuf>, String> {
        let mut files = workspace::files(&self.0)?;
        files.retain(|file| !file.starts_with(self.path("DEBIAN")));
        Ok(files)
    }

    fn write_bytes(&self, name: &str, bytes: &[u8]) -> Outcome {
        let name = Path::new(name);
        if let Some(directory) = name.parent() {
            self.make_directory(directory)?;
        }
        let path = self.0.join(name);
        fs::write(&path, bytes).map_err(|why| format!("cannot write {}: {why}", path.display()))?;
        set_mode(&path, DOCUMENT)
    }

    /// Makes a directory and its parents.
    pub(crate) fn make_directory(&self, name: &Path) -> Outcome {
        let mut directory = self.0.clone();
        for part in std::iter::once(None).chain(name.iter().map(Some)) {
            directory.extend(part);
            if !directory.is_dir() {
                fs::create_dir_all(&directory)
                    .map_err(|why| format!("cannot make {}: {why}", directory.display()))?;
                set_mode(&directory, PROGRAM)?;
            }
        }
        Ok(())
    }
}

fn set_mode(path: &Path, mode: u32) -> Outcome {
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
        .map_err(|why| format!("cannot set the mode of {}: {why}", path.display()))
}

#[cfg(test)]
mod checks {
    use super::*;

    #[test]
    fn a_tree_starts_empty_and_counts_added_files() {
        let root = std::env::temp_dir().join(format!("baton-xtask-tree-{}", std::process::id()));
        let trial = || -> Result<(String, u64, u32), String> {
            Tree::new(root.clone())?.write("usr/old", "left over")?;
            let tree = Tree::new(root.clone())?;
            tree.write("usr/share/new", "x")?;
            tree.write("DEBIAN/control", "not counted")?;
            let mode = fs::metadata(tree.path("usr/share"))
                .map_err(|why| why.to_string())?
                .permissions()
                .mode();
            Ok((tree.checksums()?, tree.kilobytes()?, mode & 0o777))
        };
        let found = trial();
        fs::remove_dir_all(&root).expect("the trial's directory to be removed");
        let sum = "9dd4e461268c8034f5c8564e155c67a6  usr/share/new\n".to_owned();
        assert_eq!(found, Ok((sum, 1, PROGRAM)));
    }
}
