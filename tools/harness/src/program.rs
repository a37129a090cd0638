//! A program in C beside the tests of a library.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::{Archive, Checker, finish, succeed};

/// A program in C beside the tests, whose argument chooses what it does.
#[derive(Debug)]
pub struct Program {
    name: &'static str,
    library: &'static Archive,
    checker: Option<Checker>,
    compiled: OnceLock<PathBuf>,
}

impl Program {
    /// The program `tests/NAME.c`.
    pub const fn new(name: &'static str, library: &'static Archive) -> Program {
        Program::with(name, library, None)
    }

    /// The same program, checked while it runs.
    pub const fn checked(
        name: &'static str,
        library: &'static Archive,
        checker: Checker,
    ) -> Program {
        Program::with(name, library, Some(checker))
    }

    const fn with(
        name: &'static str,
        library: &'static Archive,
        checker: Option<Checker>,
    ) -> Program {
        Program {
            name,
            library,
            checker,
            compiled: OnceLock::new(),
        }
    }

    /// Compiles it, and links it with the library.
    fn compile(&self) -> PathBuf {
        let place = self.library.place;
        let of_crate = Path::new(place.of_crate);
        let suffix = self.checker.map_or("in_c", Checker::name);
        // The directory for files is that of all crates, which may have programs of the same name.
        let of = of_crate.file_name().unwrap_or_default().display();
        let program = place.scratch().join(format!("{of}_{}_{suffix}", self.name));
        let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
        let mut compile = Command::new(compiler);
        compile
            .args(["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Wpedantic"])
            .args(["-Werror", "-rdynamic"])
            .args(self.checker.map_or(&[][..], Checker::flags));
        for directory in self.library.includes {
            compile.arg("-I").arg(of_crate.join(directory));
        }
        compile
            .arg(of_crate.join(format!("tests/{}.c", self.name)))
            .arg(self.library.built())
            .args(["-lpthread", "-ldl", "-lm", "-o"])
            .arg(&program);
        succeed(&mut compile);
        program
    }

    fn command(&self, case: &str) -> Command {
        let program = self.compiled.get_or_init(|| self.compile());
        let mut command = match self.checker {
            Some(checker) => checker.command(program),
            None => Command::new(program),
        };
        command.arg(case);
        command
    }

    /// Runs a case that succeeds. Returns all that it says.
    #[track_caller]
    pub fn succeeds(&self, case: &str) -> String {
        let (output, said) = finish(&mut self.command(case));
        assert!(output.status.success(), "{case}: {}: {said}", output.status);
        assert_eq!(output.stdout, b"done\n");
        said
    }

    /// Runs a case that fails. Returns all that it says.
    #[track_caller]
    pub fn ends(&self, case: &str) -> String {
        let (output, said) = finish(&mut self.command(case));
        assert!(!output.status.success(), "{case} succeeds");
        said
    }

    /// Runs a case that fails with a message.
    #[track_caller]
    pub fn ends_with(&self, case: &str, message: &str) {
        let said = self.ends(case);
        assert!(said.contains(message), "{case}: {said}");
    }
}
