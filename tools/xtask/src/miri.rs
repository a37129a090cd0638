//! `cargo xtask miri`: runs the tests of code without system calls in Miri, which finds undefined
//! behaviour.
//!
//! Miri interprets the program, about a thousand times slower than it runs. Long tests are shorter
//! there (`cfg!(miri)`). It has no epoll, no `dlopen`, no assembly and no code in C, so it cannot
//! run the executor, nor calls of C functions. It comes with the nightly compiler only.

use std::process::{Command, Stdio};

use crate::Outcome;
use crate::cargo::Steps;
use crate::workspace;

/// Tests that Miri can run.
struct Selection {
    what: &'static str,
    package: &'static str,
    /// A cargo option that selects the test program.
    target: &'static str,
    /// The modules whose tests run, or nothing for all tests of the program.
    modules: &'static [&'static str],
}

const SELECTIONS: [Selection; 6] = [
    Selection {
        what: "the scheduler",
        package: "baton-core",
        target: "--lib",
        modules: &["sched::"],
    },
    Selection {
        what: "the spin policies",
        package: "baton-core",
        target: "--lib",
        modules: &["spin::"],
    },
    Selection {
        what: "the promises of the spin policies",
        package: "baton-core",
        target: "--test=spin",
        modules: &[],
    },
    Selection {
        what: "the inbox and the owner's wait",
        package: "baton-sys",
        target: "--lib",
        modules: &["inbox::", "parking::"],
    },
    Selection {
        what: "C's types and the parser",
        package: "baton-ffi",
        target: "--lib",
        modules: &["parse::", "types::", "library::script::"],
    },
    Selection {
        what: "C declarations",
        package: "baton-ffi",
        target: "--test=declarations",
        modules: &[],
    },
];

pub(crate) fn run() -> Outcome {
    if !is_installed() {
        return Err(
            "miri: it is not installed; get it by: rustup toolchain install nightly --component \
             miri,rust-src"
                .to_owned(),
        );
    }
    let mut steps = Steps::of("miri");
    for selection in &SELECTIONS {
        steps.run(selection.what, &mut command(selection));
    }
    steps.finish()
}

fn is_installed() -> bool {
    let mut asked = nightly(&["miri", "--version"]);
    let asked = asked.stdout(Stdio::null()).stderr(Stdio::null()).status();
    asked.is_ok_and(|status| status.success())
}

/// Cargo of the nightly compiler, in the workspace's root.
fn nightly(arguments: &[&str]) -> Command {
    let mut command = Command::new("rustup");
    command
        .args(["run", "nightly", "cargo"])
        .args(arguments)
        .current_dir(workspace::root())
        .stdin(Stdio::null());
    command
}

fn command(selection: &Selection) -> Command {
    let mut tests = nightly(&["miri", "test", "-p", selection.package]);
    tests
        .arg(selection.target)
        .arg("--")
        .args(selection.modules)
        .env("CARGO_TARGET_DIR", workspace::target_directory("miri"));
    tests
}

#[cfg(test)]
mod checks {
    use super::*;

    /// A filter that selects nothing would pass.
    #[test]
    fn the_modules_of_each_selection_exist() {
        for selection in &SELECTIONS {
            let directory = match selection.package {
                "baton-core" => "runtime/core/src",
                "baton-sys" => "runtime/sys/src",
                _ => "bindings/ffi/src",
            };
            for module in selection.modules {
                let path = module.trim_end_matches("::").replace("::", "/");
                let path = workspace::root().join(directory).join(path);
                let exists = path.is_dir() || path.with_extension("rs").is_file();
                assert!(exists, "{module} in {directory}");
            }
        }
    }
}
