//! Selects the test programs for `cargo xtask stress`, and builds them once.

use std::path::PathBuf;
use std::process::Stdio;

use serde_json::Value;

use crate::cargo::cargo;

/// A built test program.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TestProgram {
    /// The crate and the target, as users see them.
    pub(super) name: String,
    pub(super) executable: PathBuf,
    /// The directory of its crate, where cargo would run it.
    pub(super) directory: PathBuf,
}

/// The tests of foreign calls that use native threads.
const OF_FOREIGN_CALLS: [&str; 2] = ["callback_queue", "timed"];

/// Builds the concurrent tests. They are the interpreter's test files whose name starts with
/// `concurrency`, and the tests of the runtime and of foreign calls that use native threads.
pub(super) fn build(release: bool) -> Result<Vec<TestProgram>, String> {
    let mut command = cargo(&[
        "test",
        "--no-run",
        "--message-format=json-render-diagnostics",
    ]);
    command.args(["-p", "baton-core", "-p", "baton-ffi", "-p", "baton"]);
    if release {
        command.arg("--release");
    }
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .map_err(|why| format!("cannot start cargo: {why}"))?;
    if !output.status.success() {
        return Err(format!("stress: the tests do not build: {}", output.status));
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    let mut programs: Vec<TestProgram> = messages.lines().filter_map(concurrent_test).collect();
    programs.sort_by(|one, other| one.name.cmp(&other.name));
    if programs
        .iter()
        .any(|program| program.name.starts_with("baton: "))
    {
        Ok(programs)
    } else {
        Err("stress: found no concurrency*.rs under tools/baton/tests".to_owned())
    }
}

/// The test program that a message of cargo announces; `None` if `stress` does not run it.
fn concurrent_test(message: &str) -> Option<TestProgram> {
    let message: Value = serde_json::from_str(message).ok()?;
    if !message["profile"]["test"].as_bool()? {
        return None;
    }
    let executable = PathBuf::from(message["executable"].as_str()?);
    let directory = PathBuf::from(message["manifest_path"].as_str()?)
        .parent()?
        .to_path_buf();
    let target = message["target"]["name"].as_str()?;
    let package = match directory.file_name()?.to_str()? {
        "baton" if target.starts_with("concurrency") => "baton",
        "core" if !explores_by_itself(target) => "baton-core",
        "ffi" if OF_FOREIGN_CALLS.contains(&target) => "baton-ffi",
        _ => return None,
    };
    Some(TestProgram {
        name: format!("{package}: {target}"),
        executable,
        directory,
    })
}

/// Whether repeating a test shows nothing new. The loom tests and the store-buffer model try every
/// order of events themselves. The tests of the scheduler and of the spin policies use no threads.
fn explores_by_itself(target: &str) -> bool {
    target.starts_with("loom_") || ["store_buffer", "baton_core", "spin"].contains(&target)
}

#[cfg(test)]
mod checks {
    use super::*;

    fn announced(directory: &str, target: &str, is_test: bool) -> Option<TestProgram> {
        let message = serde_json::json!({
            "reason": "compiler-artifact",
            "manifest_path": format!("/src/{directory}/Cargo.toml"),
            "target": { "name": target },
            "profile": { "test": is_test },
            "executable": "/out/program",
        });
        concurrent_test(&message.to_string())
    }

    #[test]
    fn the_interpreters_concurrency_tests_and_the_runtimes_tests_are_stressed() {
        let program =
            announced("tools/baton", "concurrency_channels", true).expect("a stressed program");
        assert_eq!(program.name, "baton: concurrency_channels");
        assert_eq!(program.directory, PathBuf::from("/src/tools/baton"));
        assert!(announced("runtime/core", "scheduler", true).is_some());
        assert!(announced("bindings/ffi", "timed", true).is_some());
    }

    #[test]
    fn loom_tests_other_tests_and_plain_programs_are_not() {
        assert_eq!(announced("runtime/core", "loom_inbox", true), None);
        assert_eq!(announced("bindings/ffi", "layout", true), None);
        assert_eq!(announced("tools/baton", "command_line", true), None);
        assert_eq!(announced("tools/baton", "baton", false), None);
        assert_eq!(concurrent_test("not a message"), None);
    }
}
