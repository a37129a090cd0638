//! The history file: one input per line, oldest first, with backslashes and line ends escaped.
//! Several programs may append to it concurrently: each adds a line in one write.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// How many inputs are kept. The file is cut back to this number when it holds twice as many.
pub(crate) const MOST_ENTRIES: usize = 10_000;

/// Where the history is, and whether it can be written.
pub(crate) struct History {
    path: Option<PathBuf>,
}

impl History {
    /// Returns the file that `BATON_HISTORY` names; none if that is empty. Without the variable, or
    /// if the environment is to be ignored, it is `baton/history` in `$XDG_STATE_HOME`, or else in
    /// `~/.local/state` (XDG Base Directory Specification 0.8).
    pub(crate) fn locate(
        ignore_environment: bool,
        variable: impl Fn(&str) -> Option<PathBuf>,
    ) -> Self {
        let named = variable("BATON_HISTORY").filter(|_| !ignore_environment);
        let path = named.or_else(|| {
            let state = variable("XDG_STATE_HOME").filter(|path| path.is_absolute());
            let state = state.or_else(|| Some(variable("HOME")?.join(".local/state")))?;
            Some(state.join("baton/history"))
        });
        Self {
            path: path.filter(|path| !path.as_os_str().is_empty()),
        }
    }

    /// No file.
    pub(crate) fn none() -> Self {
        Self { path: None }
    }

    /// Returns all entries, oldest first; none if there is no file yet.
    ///
    /// # Errors
    /// The error of reading the file, or of cutting it back.
    pub(crate) fn load(&self) -> io::Result<Vec<String>> {
        let Some(path) = &self.path else {
            return Ok(Vec::new());
        };
        let bytes = match fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            read => read?,
        };
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
        let kept = &lines[lines.len().saturating_sub(MOST_ENTRIES)..];
        if lines.len() > 2 * MOST_ENTRIES {
            replace(path, kept)?;
        }
        Ok(kept.iter().map(|line| unescape(line)).collect())
    }

    /// Appends an entry to the file. Makes its directory if that is missing.
    ///
    /// # Errors
    /// The error of making or writing the file.
    pub(crate) fn append(&self, entry: &str) -> io::Result<()> {
        let Some(path) = &self.path else {
            return Ok(());
        };
        if let Some(directory) = path.parent() {
            fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(directory)?;
        }
        private()
            .append(true)
            .open(path)?
            .write_all(escape(entry).as_bytes())
    }

    /// The file's name, for messages.
    pub(crate) fn name(&self) -> String {
        self.path
            .as_deref()
            .unwrap_or(Path::new("none"))
            .display()
            .to_string()
    }
}

/// Inputs may be secret, so other users cannot read the file.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create(true).mode(0o600);
    options
}

/// Writes the entries to a new file, which then replaces the old one in one step.
fn replace(path: &Path, lines: &[&str]) -> io::Result<()> {
    let beside = path.with_extension(format!("{}.new", std::process::id()));
    let mut text = lines.join("\n");
    text.push('\n');
    private()
        .write(true)
        .truncate(true)
        .open(&beside)?
        .write_all(text.as_bytes())?;
    fs::rename(&beside, path)
}

fn escape(entry: &str) -> String {
    let mut line = entry.replace('\\', "\\\\").replace('\n', "\\n");
    line.push('\n');
    line
}

fn unescape(line: &str) -> String {
    let mut entry = String::with_capacity(line.len());
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some('n') => entry.push('\n'),
                Some(escaped) => entry.push(escaped),
                None => entry.push('\\'),
            },
            _ => entry.push(character),
        }
    }
    entry
}
