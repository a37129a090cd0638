//! The programs of examples/embedding, built with the installed library.

#![allow(dead_code, reason = "each test program uses a part of it")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use baton_harness::skip::is_missing;
use baton_harness::{Checker, Screen, installed, place, repository, succeed};

/// The directory of the debug build, installed once.
pub(crate) fn prefix() -> &'static Path {
    static PREFIX: OnceLock<PathBuf> = OnceLock::new();
    PREFIX.get_or_init(|| installed::prefix(place!(), &["--lua"]))
}

/// The directory of the shared library, for a checker. memcheck would read all of its debug
/// information, which takes minutes, so it gets a copy without that.
fn libraries(checker: Option<Checker>) -> PathBuf {
    let installed = prefix().join("lib");
    if checker != Some(Checker::Memcheck) {
        return installed;
    }
    let stripped = Path::new(env!("CARGO_TARGET_TMPDIR")).join("for-memcheck");
    fs::create_dir_all(&stripped).expect("a directory for the library");
    let mut strip = Command::new("strip");
    strip.arg("--strip-debug").arg("-o");
    strip.arg(stripped.join("libbaton-lua.so.0"));
    succeed(strip.arg(installed.join("libbaton-lua.so.0")));
    stripped
}

/// A program of the examples, in a directory of its own.
pub(crate) struct Example {
    directory: PathBuf,
    name: &'static str,
    checker: Option<Checker>,
}

impl Example {
    /// Builds it. If a library for it or the checker is missing, returns none, and reports that
    /// `what` was not tested.
    pub(crate) fn make(
        name: &'static str,
        checker: Option<Checker>,
        what: &str,
    ) -> Option<Example> {
        let (probe, packages): (&[&str], &str) = match name {
            "uv" => (
                &["pkg-config", "libuv", "--exists"],
                "pkg-config and libuv1-dev",
            ),
            "window" => (
                &["pkg-config", "sdl2", "--exists"],
                "pkg-config and libsdl2-dev",
            ),
            _ => (&["pkg-config", "--version"], "pkg-config"),
        };
        if is_missing(probe, packages, what)
            || checker.is_some_and(|checker| checker.is_missing(what))
        {
            return None;
        }
        let suffix = checker.map_or("plain", Checker::name);
        let directory =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("embedding-{name}-{suffix}"));
        fs::create_dir_all(&directory).expect("a directory for the program");
        for file in ["Makefile", "scripts.lua", "frames.c", "uv.c", "window.c"] {
            let from = repository().join("examples/embedding").join(file);
            fs::copy(from, directory.join(file)).expect("the file is there");
        }
        let mut make = Command::new("make");
        make.args(["-B", name])
            .current_dir(&directory)
            .env("PKG_CONFIG_PATH", installed::descriptions(prefix()));
        if let Some(checker) = checker {
            let flags = checker.flags().join(" ");
            make.arg(format!("CFLAGS=-O1 -g -Wall -Wextra -Wpedantic {flags}"));
        }
        succeed(&mut make);
        Some(Example {
            directory,
            name,
            checker,
        })
    }

    /// Runs it for so many seconds. Returns the numbers of what it prints.
    #[track_caller]
    pub(crate) fn numbers(&self, seconds: &str, screen: Option<&Screen>) -> Vec<f64> {
        let program = self.directory.join(self.name);
        let mut command = match self.checker {
            Some(checker) => checker.command(&program),
            None => Command::new(program),
        };
        command
            .args(["scripts.lua", seconds])
            .current_dir(&self.directory)
            .env("LD_LIBRARY_PATH", libraries(self.checker));
        if let Some(screen) = screen {
            command.env("DISPLAY", screen.display());
        }
        let said = succeed(&mut command);
        let words = said.split(|letter: char| !letter.is_ascii_digit() && letter != '.');
        words.filter_map(|word| word.parse().ok()).collect()
    }
}
