//! The library under test, and programs in C that are linked with it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// Builds `libbaton_lua_library.a`, and returns its path. A test cannot link a static library, so
/// cargo does not build it for the tests.
fn built() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .parent()
        .expect("it is in the target directory");
    let built = Command::new(env!("CARGO"))
        .args(["build", "--offline", "--quiet", "-p", "baton-lua-library"])
        .arg("--target-dir")
        .arg(target)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status();
    assert!(built.is_ok_and(|status| status.success()), "the library");
    target.join("debug/libbaton_lua_library.a")
}

/// A program in C beside the tests, whose argument chooses what it does.
pub(crate) struct Program {
    name: &'static str,
    compiled: OnceLock<PathBuf>,
}

impl Program {
    /// The program `tests/NAME.c`.
    pub(crate) const fn new(name: &'static str) -> Program {
        Program {
            name,
            compiled: OnceLock::new(),
        }
    }

    /// Compiles it, and links it with the library.
    fn compile(&self) -> PathBuf {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}_of_lua", self.name));
        let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
        let compiled = Command::new(compiler)
            .args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Wpedantic"])
            .args(["-Werror", "-rdynamic", "-I"])
            .arg(here.join("../lua/include"))
            .arg("-I")
            .arg(env!("BATON_LUA_INCLUDE"))
            .arg(here.join(format!("tests/{}.c", self.name)))
            .arg(built())
            .args(["-lpthread", "-ldl", "-lm", "-o"])
            .arg(&program)
            .output()
            .expect("there is a C compiler, which the build needs too");
        let said = String::from_utf8_lossy(&compiled.stderr);
        assert!(compiled.status.success(), "{said}");
        program
    }

    fn run(&self, case: &str) -> Output {
        Command::new(self.compiled.get_or_init(|| self.compile()))
            .arg(case)
            .output()
            .expect("the program starts")
    }

    /// Runs a case that succeeds.
    #[track_caller]
    pub(crate) fn succeeds(&self, case: &str) {
        let output = self.run(case);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{case}: {}: {said}", output.status);
        assert_eq!(output.stdout, b"done\n");
    }

    /// Runs a case that fails with a message.
    #[track_caller]
    pub(crate) fn ends_with(&self, case: &str, message: &str) {
        let output = self.run(case);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{case} succeeds");
        assert!(said.contains(message), "{case}: {said}");
    }
}
