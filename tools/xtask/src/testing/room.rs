//! The room that builds take on the disk: what a step has built for itself is removed after the
//! step, and what tests have written after a run without failures. The last lines of a run say how
//! large the build's folder is.

use std::collections::HashSet;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::workspace;

/// The folders of the debug build to which builds with other flags add files of their own.
const SHARED: [&str; 3] = ["deps", "build", "examples"];

/// What is in the debug build's folder before a build with other flags, which shares the crates of
/// others with it.
pub(super) struct Before {
    folder: PathBuf,
    entries: HashSet<PathBuf>,
}

impl Before {
    pub(super) fn now() -> Before {
        Self::of(workspace::target_directory("debug"))
    }

    fn of(folder: PathBuf) -> Before {
        let entries = entries(&folder).collect();
        Before { folder, entries }
    }

    /// Removes what was built since, and the programs in `own`, the directory of that build. The
    /// next build of the same kind makes them again.
    pub(super) fn restore(self, own: &Path) {
        for entry in entries(&self.folder).filter(|entry| !self.entries.contains(entry)) {
            workspace::remove(&entry);
        }
        workspace::remove(own);
    }
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let of = |name| {
        fs::read_dir(folder.join(name))
            .into_iter()
            .flatten()
            .flatten()
    };
    let entries: Vec<PathBuf> = SHARED
        .into_iter()
        .flat_map(of)
        .map(|entry| entry.path())
        .collect();
    entries.into_iter()
}

/// Removes what tests have written and built for themselves: after failures, somebody may want to
/// look at it.
pub(super) fn remove_scratch() {
    workspace::remove(&workspace::target_directory("tmp"));
}

/// The line about the size of the folder of all build output.
pub(super) fn line() -> String {
    let folder = workspace::target_directory("");
    let gigabytes = size(&folder) as f64 / 1e9;
    format!("{} has {gigabytes:.1} GB", folder.display())
}

/// The bytes that a directory takes on the disk. A file with several names counts once.
fn size(directory: &Path) -> u64 {
    let mut seen = HashSet::new();
    let mut pending = vec![directory.to_owned()];
    let mut sum = 0;
    while let Some(next) = pending.pop() {
        for entry in fs::read_dir(next).into_iter().flatten().flatten() {
            // It may have been removed meanwhile.
            let Ok(about) = entry.metadata() else {
                continue;
            };
            if about.is_dir() {
                pending.push(entry.path());
            }
            sum += bytes_of_new(&about, &mut seen);
        }
    }
    sum
}

/// The bytes of a file whose other names were not seen before.
fn bytes_of_new(about: &Metadata, seen: &mut HashSet<(u64, u64)>) -> u64 {
    match about.nlink() > 1 && !seen.insert((about.dev(), about.ino())) {
        true => 0,
        false => about.blocks() * 512,
    }
}

#[cfg(test)]
mod checks {
    use super::*;

    fn trial(name: &str) -> PathBuf {
        let name = format!("baton-xtask-room-{name}-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        fs::create_dir_all(directory.join("debug/deps")).expect("a directory");
        directory
    }

    #[test]
    fn what_a_build_with_other_flags_has_added_is_removed() {
        let trial = trial("added");
        let deps = trial.join("debug/deps");
        let write = |path: &Path| fs::write(path, "text").expect("a file");
        write(&deps.join("libc.rlib"));
        let before = Before::of(trial.join("debug"));
        write(&deps.join("vms-1"));
        fs::create_dir_all(trial.join("debug/build/baton-1/out")).expect("a directory");
        let own = trial.join("portable");
        fs::create_dir_all(&own).expect("a directory");
        write(&own.join("baton"));
        before.restore(&own);
        let left: Vec<PathBuf> = entries(&trial.join("debug")).collect();
        let is_own_left = own.exists();
        fs::remove_dir_all(&trial).expect("the trial's directory");
        assert_eq!(left, [deps.join("libc.rlib")]);
        assert!(!is_own_left);
    }

    #[test]
    fn a_file_with_two_names_counts_once() {
        let trial = trial("size");
        let file = trial.join("program");
        fs::write(&file, vec![1; 100_000]).expect("a file");
        let once = size(&trial);
        fs::hard_link(&file, trial.join("debug/program")).expect("a second name");
        let twice = size(&trial);
        fs::remove_dir_all(&trial).expect("the trial's directory");
        assert!(once >= 100_000 && once == twice, "{once} and {twice}");
    }
}
