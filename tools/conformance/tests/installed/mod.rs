//! An installed library, and copies of guests that are built with it outside of the repository.

#![allow(dead_code, reason = "each test program uses a part of it")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use baton_harness::{Checker, finish, installed, place, repository, skip, succeed};

/// Whether pkg-config is missing. If so, reports that `what` was not tested.
pub(crate) fn is_missing(what: &str) -> bool {
    skip::is_missing(&["pkg-config", "--version"], "pkg-config", what)
}

/// The directory of the debug build, installed once for a test program.
fn prefix() -> &'static Path {
    static PREFIX: OnceLock<PathBuf> = OnceLock::new();
    PREFIX.get_or_init(|| installed::prefix(place!(), &[]))
}

/// Which library a guest is linked with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Linked {
    Shared,
    Static,
}

/// A copy of the directory of a guest, outside of the repository.
pub(crate) struct Copy(PathBuf);

impl Drop for Copy {
    fn drop(&mut self) {
        // What is left harms nobody.
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Copy {
    pub(crate) fn of(guest: &str) -> Copy {
        static COPIES: AtomicUsize = AtomicUsize::new(0);
        // Relaxed: the numbers must only differ.
        let number = COPIES.fetch_add(1, Ordering::Relaxed);
        let name = format!("baton-{guest}-{}-{number}", std::process::id());
        let copy = Copy(std::env::temp_dir().join(name));
        let from = repository().join("guests").join(guest);
        for directory in [Path::new(""), Path::new("scenarios")] {
            let to = copy.0.join(directory);
            fs::create_dir_all(&to).expect("a directory for the guest");
            for entry in fs::read_dir(from.join(directory)).expect("the guest is there") {
                let entry = entry.expect("its directory can be read");
                if entry.path().is_file() {
                    fs::copy(entry.path(), to.join(entry.file_name())).expect("a file is copied");
                }
            }
        }
        copy
    }

    pub(crate) fn read(&self, file: &str) -> String {
        fs::read_to_string(self.0.join(file)).expect("the file is there")
    }

    pub(crate) fn write(&self, file: &str, text: &str) {
        fs::write(self.0.join(file), text).expect("the file is written");
    }

    /// Runs make, with nothing of this repository but what is installed.
    pub(crate) fn make(&self, linked: Linked, arguments: &[&str]) {
        let mut make = Command::new("make");
        make.args(arguments).current_dir(&self.0);
        if linked == Linked::Static {
            make.arg("PKG_CONFIG=pkg-config --static");
        } else {
            make.env("LD_LIBRARY_PATH", prefix().join("lib"));
        }
        succeed(with_installed(&mut make));
    }

    /// Runs a command in the directory. Returns what it says.
    pub(crate) fn run(&self, command: &mut Command) -> String {
        succeed(command.current_dir(&self.0))
    }

    /// Plays with the template. Returns the status, and all that is said.
    pub(crate) fn play(&self, options: &[&str]) -> (Option<i32>, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_baton-conformance"));
        command.args(options).args(["./guest", "scenarios/{}.tiny"]);
        said(command.current_dir(&self.0))
    }

    /// Plays scenarios with a guest that is checked meanwhile. All must pass.
    pub(crate) fn play_with(
        &self,
        checker: Checker,
        scenarios: &[&str],
        program: &str,
        ending: &str,
    ) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_baton-conformance"));
        command.args(["--limit", "150"]);
        for scenario in scenarios {
            command.args(["--only", scenario]);
        }
        command
            .args(checker.runner())
            .arg(format!("./{program}"))
            .arg(format!("scenarios/{{}}.{ending}"));
        self.run(checker.prepare(&mut command));
    }

    pub(crate) fn needs_the_shared_library(&self, program: &str) -> bool {
        self.run(Command::new("readelf").args(["--dynamic", program]))
            .contains("libbaton.so.0")
    }
}

/// Runs the suite. Returns the status, and all that is said.
pub(crate) fn play(arguments: &[&str]) -> (Option<i32>, String) {
    said(Command::new(env!("CARGO_BIN_EXE_baton-conformance")).args(arguments))
}

fn said(command: &mut Command) -> (Option<i32>, String) {
    let (output, said) = finish(command);
    (output.status.code(), said)
}

/// Makes pkg-config and the shell find what is installed.
fn with_installed(command: &mut Command) -> &mut Command {
    let programs = prefix().join("bin");
    let path = std::env::var("PATH").unwrap_or_default();
    command
        .env("PKG_CONFIG_PATH", installed::descriptions(prefix()))
        .env("PATH", format!("{}:{path}", programs.display()))
}
