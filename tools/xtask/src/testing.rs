//! `cargo xtask test`: what the tests need, and then all of them.
//!
//! Four builds, as each finds what the others cannot: debug for assertions, release for the timings that programs
//! really run with, one in which the fallbacks for older kernels are forced, and one with those for systems that are not Linux. The last two
//! have build output of their own.

use std::process::Command;

use crate::Outcome;
use crate::cargo::{Steps, cargo, cargo_with_flags, nothing_may_be_skipped};
use crate::deb;
use crate::packages::{self, Package};

/// The compare-and-swap VM lock and the timer descriptor, which Linux with membarrier and epoll_pwait2 does not need.
const OLD_KERNELS: &str = "--cfg baton_cas --cfg baton_timerfd";

/// What macOS and the BSDs do without: membarrier, guards by madvise, epoll, and what the kernel tells of threads and processors.
const OTHER_SYSTEMS: &str = "--cfg baton_cas --cfg baton_mprotect_guards --cfg baton_portable";

/// Set for the tests: the names of the packages that are missing, separated by spaces; empty if none is.
const MISSING_PACKAGES: &str = "BATON_MISSING_PACKAGES";

/// Runs all tests; what follows `--` goes to the test runners.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    let for_runners = match arguments.split_first() {
        None => &[],
        Some((first, rest)) if first == "--" => rest,
        Some((other, _)) => {
            return Err(format!(
                "test: expected '--' before the test runners' arguments, got '{other}'"
            ));
        }
    };
    let missing = packages::install_missing(packages::FOR_TESTS);
    packages::warn_of_missing(&missing);
    if nothing_may_be_skipped() && !missing.is_empty() {
        return Err("with CI=true no package may be missing; see the list above".to_owned());
    }

    let mut steps = Steps::of("test");
    let prepared = |command: Command| prepared(command, &missing, for_runners);
    steps.run(
        "all, debug",
        &mut prepared(cargo(&["test", "--workspace", "--no-fail-fast"])),
    );
    let concurrent = ["test", "--release", "--no-fail-fast", "-p", "baton-core", "-p", "baton"];
    steps.run("concurrency, release", &mut prepared(cargo(&concurrent)));
    deb::step(&mut steps);
    let lower_layers = [
        "test",
        "--no-fail-fast",
        "-p",
        "baton-sys",
        "-p",
        "baton-core",
        "-p",
        "baton",
    ];
    for (step, flags, directory) in [
        ("fallbacks for old kernels", OLD_KERNELS, "fallbacks"),
        ("fallbacks for other systems", OTHER_SYSTEMS, "portable"),
    ] {
        steps.run(step, &mut prepared(cargo_with_flags(&lower_layers, flags, directory)));
    }
    packages::warn_of_missing(&missing);
    steps.finish()
}

fn prepared(mut command: Command, missing: &[Package], for_runners: &[String]) -> Command {
    let names: Vec<&str> = missing.iter().map(|package| package.name).collect();
    command.env(MISSING_PACKAGES, names.join(" "));
    if !for_runners.is_empty() {
        command.arg("--").args(for_runners);
    }
    command
}

#[cfg(test)]
mod checks {
    use super::*;

    fn arguments_of(command: &Command) -> Vec<String> {
        command.get_args().map(|word| word.display().to_string()).collect()
    }

    #[test]
    fn the_test_runners_arguments_follow_a_double_dash() {
        let command = prepared(Command::new("cargo"), &[], &["name".to_owned()]);
        assert_eq!(arguments_of(&command), ["--", "name"]);
    }

    #[test]
    fn the_tests_are_told_which_packages_are_missing() {
        let missing = &packages::FOR_TESTS[..2];
        let command = prepared(Command::new("cargo"), missing, &[]);
        let told = command.get_envs().find(|(name, _)| *name == MISSING_PACKAGES);
        assert_eq!(told.and_then(|(_, value)| value), Some("lua5.4 liblua5.4-dev".as_ref()));
    }

    #[test]
    fn an_argument_before_the_double_dash_is_refused() {
        let refused = run(&["name".to_owned()]);
        assert_eq!(
            refused,
            Err("test: expected '--' before the test runners' arguments, got 'name'".to_owned())
        );
    }
}
