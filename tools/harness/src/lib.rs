//! What the tests of several crates share. It is a development dependency only, and uses no other
//! crate of ours.

#![forbid(unsafe_code)]

mod archive;
mod checker;
pub mod installed;
mod program;
mod screen;
pub mod skip;

pub use archive::Archive;
pub use checker::Checker;
pub use program::Program;
pub use screen::Screen;

use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Where a test program belongs: [`place!`] makes one.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// The directory of its crate.
    pub of_crate: &'static str,
    /// A directory for its files, in the target directory.
    pub scratch: &'static str,
}

impl Place {
    /// The directory for files.
    pub fn scratch(&self) -> &'static Path {
        Path::new(self.scratch)
    }
}

/// The [`Place`] of the test program that uses this.
#[macro_export]
macro_rules! place {
    () => {
        $crate::Place {
            of_crate: env!("CARGO_MANIFEST_DIR"),
            scratch: env!("CARGO_TARGET_TMPDIR"),
        }
    };
}

/// A command of cargo's, as a user would start it. Cargo tells a program that it runs of the
/// program's own package. Some build scripts, as ring's, run again if that has changed.
pub fn cargo() -> Command {
    let mut command = Command::new(env!("CARGO"));
    for name in std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()) {
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            command.env_remove(name);
        }
    }
    command
}

/// This repository.
pub fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Runs a command without input to its end. Returns its result, and all that it says.
#[track_caller]
pub fn finish(command: &mut Command) -> (Output, String) {
    let output = command.stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|why| panic!("{command:?}: {why}"));
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let said = text(&output.stdout) + &text(&output.stderr);
    (output, said)
}

/// Runs a command without input, which must succeed. Returns what it prints.
#[track_caller]
pub fn succeed(command: &mut Command) -> String {
    let (output, said) = finish(command);
    assert!(
        output.status.success(),
        "{command:?}: {}: {said}",
        output.status
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}
