//! Builds test programs by cargo and lists them, for commands that run them without cargo.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

/// A built test program.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TestProgram {
    /// The name of cargo's target: of a file in `tests`, or of a library.
    pub(crate) target: String,
    pub(crate) executable: PathBuf,
    /// The directory of its crate, where cargo would run it.
    pub(crate) directory: PathBuf,
}

impl TestProgram {
    /// A command that runs it as cargo would.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.executable);
        command
            .current_dir(&self.directory)
            .env("CARGO_MANIFEST_DIR", &self.directory)
            .stdin(Stdio::null());
        command
    }
}

/// Builds with a `cargo test` command, which needs no arguments for that. Returns the test
/// programs, in alphabetical order.
pub(crate) fn build(tests: &mut Command) -> Result<Vec<TestProgram>, String> {
    let output = tests
        .args(["--no-run", "--message-format=json-render-diagnostics"])
        .stderr(Stdio::inherit())
        .output()
        .map_err(|why| format!("cannot start cargo: {why}"))?;
    if !output.status.success() {
        return Err(format!("the tests do not build: {}", output.status));
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    let mut programs: Vec<TestProgram> = messages.lines().filter_map(announced).collect();
    programs.sort_by(|one, other| {
        (&one.directory, &one.target).cmp(&(&other.directory, &other.target))
    });
    Ok(programs)
}

/// The test program that a message of cargo announces.
pub(crate) fn announced(message: &str) -> Option<TestProgram> {
    let message: Value = serde_json::from_str(message).ok()?;
    if !message["profile"]["test"].as_bool()? {
        return None;
    }
    Some(TestProgram {
        target: message["target"]["name"].as_str()?.to_owned(),
        executable: PathBuf::from(message["executable"].as_str()?),
        directory: Path::new(message["manifest_path"].as_str()?)
            .parent()?
            .to_path_buf(),
    })
}

/// The names of a crate's test programs, which are files in `tests` and directories there with a
/// `main.rs`, in alphabetical order.
pub(crate) fn names_in(directory_of_crate: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory_of_crate.join("tests"));
    let mut names: Vec<String> = entries
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| {
            path.extension().is_some_and(|kind| kind == "rs") || path.join("main.rs").exists()
        })
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .collect();
    names.sort();
    names
}

#[cfg(test)]
mod checks {
    use super::*;

    fn message(is_test: bool) -> String {
        serde_json::json!({
            "reason": "compiler-artifact",
            "manifest_path": "/src/runtime/core/Cargo.toml",
            "target": { "name": "processes" },
            "profile": { "test": is_test },
            "executable": "/out/processes-1",
        })
        .to_string()
    }

    #[test]
    fn a_test_program_is_announced_and_runs_in_the_directory_of_its_crate() {
        let program = announced(&message(true)).expect("it is a test");
        assert_eq!(program.target, "processes");
        let command = program.command();
        assert_eq!(command.get_program(), "/out/processes-1");
        assert_eq!(
            command.get_current_dir(),
            Some("/src/runtime/core".as_ref())
        );
    }

    #[test]
    fn other_programs_and_other_lines_announce_none() {
        assert_eq!(announced(&message(false)), None);
        assert_eq!(announced("not a message"), None);
    }

    #[test]
    fn test_programs_are_files_and_directories_with_a_main_file() {
        let names = names_in(&crate::workspace::root().join("bindings/ffi"));
        assert!(names.contains(&"calls".to_owned()), "{names:?}");
        assert!(names.contains(&"timed".to_owned()), "{names:?}");
        assert!(!names.contains(&"generator".to_owned()), "{names:?}");
    }
}
