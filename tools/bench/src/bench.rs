//! The tools that every experiment gets: interpreters, scripts and a temporary directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use tempfile::TempDir;

use crate::interpreters::Paths;
use crate::verdict::Verdict;

/// The interpreters, and a directory for scripts and named pipes. Dropping this value removes the
/// directory.
pub(crate) struct Bench {
    pub(crate) paths: Paths,
    directory: TempDir,
}

impl Bench {
    /// Makes the directory.
    pub(crate) fn new(paths: Paths) -> Result<Self> {
        let directory = tempfile::Builder::new()
            .prefix("baton-bench-")
            .tempdir()
            .context("cannot make a directory for the scripts")?;
        Ok(Self { paths, directory })
    }

    /// Writes an embedded script to a file, and returns its path.
    pub(crate) fn script(&self, name: &str, source: &str) -> Result<PathBuf> {
        let path = self.directory.path().join(name).with_extension("lua");
        fs::write(&path, source).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }

    /// Makes a named pipe in the temporary directory.
    pub(crate) fn named_pipe(&self, name: &str) -> Result<PathBuf> {
        let path = self.directory.path().join(name);
        mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR).context("cannot make a named pipe")?;
        Ok(path)
    }

    /// The temporary directory.
    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }
}

/// A progress bar of `steps` steps. It is hidden if standard error is not a terminal.
pub(crate) fn progress(steps: usize) -> ProgressBar {
    let bar = ProgressBar::new(steps as u64);
    if let Ok(style) =
        ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed} (left {eta}) {msg}")
    {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(500));
    bar
}

/// Measures each item, one after the other. `what` is the goal of an item, in its verdict if the
/// measurement fails.
pub(crate) fn in_turn<T, M>(
    items: Vec<T>,
    what: impl Fn(&T) -> String,
    mut measure: impl FnMut(&mut T) -> Result<M>,
) -> (Vec<(T, M)>, Vec<Verdict>) {
    let (mut measured, mut failed) = (Vec::new(), Vec::new());
    let bar = progress(items.len());
    for mut item in items {
        let what = what(&item);
        bar.set_message(what.clone());
        match measure(&mut item) {
            Ok(found) => measured.push((item, found)),
            Err(error) => failed.push(Verdict::unmet(&what, format!("{error:#}"))),
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    (measured, failed)
}
