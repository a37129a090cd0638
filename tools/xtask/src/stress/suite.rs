//! Selects the test programs for `cargo xtask stress`, and builds them once.

use crate::cargo::cargo;
use crate::test_programs::{self, TestProgram};

/// A test program that is stressed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct StressedProgram {
    /// The crate and the target, as users see them.
    pub(super) name: String,
    pub(super) built: TestProgram,
}

/// The tests of foreign calls that use native threads.
const OF_FOREIGN_CALLS: [&str; 2] = ["callback_queue", "timed"];

/// Builds the concurrent tests. They are the interpreter's test files whose name starts with
/// `concurrency`, and the tests of the runtime and of foreign calls that use native threads.
pub(super) fn build(release: bool) -> Result<Vec<StressedProgram>, String> {
    let mut command = cargo(&["test", "-p", "baton-core", "-p", "baton-ffi", "-p", "baton"]);
    if release {
        command.arg("--release");
    }
    let built = test_programs::build(&mut command).map_err(|why| format!("stress: {why}"))?;
    let programs: Vec<StressedProgram> = built.into_iter().filter_map(stressed).collect();
    if programs
        .iter()
        .any(|program| program.name.starts_with("baton: "))
    {
        Ok(programs)
    } else {
        Err("stress: found no concurrency*.rs under tools/baton/tests".to_owned())
    }
}

/// The program with its name; `None` if `stress` does not run it.
fn stressed(program: TestProgram) -> Option<StressedProgram> {
    let target = program.target.as_str();
    let package = match program.directory.file_name()?.to_str()? {
        "baton" if target.starts_with("concurrency") => "baton",
        "core" if !explores_by_itself(target) => "baton-core",
        "ffi" if OF_FOREIGN_CALLS.contains(&target) => "baton-ffi",
        _ => return None,
    };
    Some(StressedProgram {
        name: format!("{package}: {target}"),
        built: program,
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

    fn of(directory: &str, target: &str) -> Option<StressedProgram> {
        stressed(TestProgram {
            target: target.to_owned(),
            executable: "/out/program".into(),
            directory: format!("/src/{directory}").into(),
        })
    }

    #[test]
    fn the_interpreters_concurrency_tests_and_the_runtimes_tests_are_stressed() {
        let program = of("tools/baton", "concurrency_channels").expect("a stressed program");
        assert_eq!(program.name, "baton: concurrency_channels");
        assert!(of("runtime/core", "scheduler").is_some());
        assert!(of("bindings/ffi", "timed").is_some());
    }

    #[test]
    fn loom_tests_and_other_tests_are_not() {
        assert_eq!(of("runtime/core", "loom_inbox"), None);
        assert_eq!(of("bindings/ffi", "layout"), None);
        assert_eq!(of("tools/baton", "command_line"), None);
    }
}
