//! The tools that every experiment gets: interpreters, scripts and a temporary directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use tempfile::TempDir;

use crate::interpreters::Paths;

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
