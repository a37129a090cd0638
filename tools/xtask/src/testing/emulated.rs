//! `cargo xtask test --target TRIPLE`: the tests of another architecture, under qemu-user.
//!
//! Debian's cross compiler compiles the C files and links, here and for the tests that compile C.
//! Cargo and the compilers run as they are. Only the test programs, and the programs for the target
//! that they start, run under the emulator (see [`binfmt`]). Programs of this machine that tests
//! start run as they are, too.
//!
//! What an emulator cannot do is in [`left_out`]. A run fails if that list and the tests that were
//! left out differ in number.

use std::process::Command;

use super::counts::{HEADS, TestCounts};
use super::{SkippedList, binfmt, left_out};
use crate::Outcome;
use crate::cargo::{Steps, cargo};
use crate::deb::output;
use crate::dist::target::{TARGETS, Target};
use crate::dist::zig::add_target;
use crate::packages::{self, FOR_EMULATED_TESTS};
use crate::workspace;

/// Tests of one package.
struct EmulatedSuite {
    name: &'static str,
    package: &'static str,
    /// The test programs: arguments of cargo's. Without any, all.
    programs: &'static [&'static str],
    /// The same in a quick run.
    quick: &'static [&'static str],
    /// The tests that a quick run leaves out: parts of their names.
    quick_skips: &'static [&'static str],
    /// The size of a page in the emulator, in bytes, if it is not that of the machine.
    page: Option<&'static str>,
}

impl EmulatedSuite {
    const fn all(name: &'static str, package: &'static str) -> EmulatedSuite {
        EmulatedSuite {
            name,
            package,
            programs: &[],
            quick: &[],
            quick_skips: &[],
            page: None,
        }
    }
}

const SUITES: [EmulatedSuite; 5] = [
    EmulatedSuite::all("sys", "baton-sys"),
    EmulatedSuite {
        programs: &["--test", "stacks"],
        quick: &["--test", "stacks"],
        page: Some("65536"),
        ..EmulatedSuite::all("large pages", "baton-sys")
    },
    EmulatedSuite {
        // These compare pure functions on random input, which no processor changes. They take most
        // of the time.
        quick_skips: &["::twins::"],
        ..EmulatedSuite::all("core", "baton-core")
    },
    EmulatedSuite::all("ffi", "baton-ffi"),
    EmulatedSuite {
        quick: &["--test", "tour"],
        ..EmulatedSuite::all("interpreter", "baton")
    },
];

/// Runs the suites. A quick run takes only the tour of the interpreter's tests, and leaves out some
/// long ones.
pub(super) fn run(triple: &str, is_quick: bool, for_runners: &[String]) -> Outcome {
    let target = emulated(triple)?;
    let missing = packages::install_missing(FOR_EMULATED_TESTS);
    if !missing.is_empty() {
        return Err(format!(
            "test --target {triple}: {}",
            packages::remedy(&missing)
        ));
    }
    add_target(triple)?;
    let emulator = output(Command::new("which").arg(target.emulator[0]))?;
    let skipped = SkippedList::new()?;
    let mut steps = Steps::of("test");
    let mut all_counts = Vec::new();
    for suite in &SUITES {
        let mut tests = command(suite, target, is_quick, for_runners);
        tests.env(super::SKIPPED_LIST, &skipped.file);
        let mut tests = binfmt::with_emulator(target, emulator.trim(), &tests);
        steps.check(
            &format!("{} on {}", suite.name, target.architecture),
            || {
                let (counts, status) = TestCounts::of(&mut tests)
                    .map_err(|why| format!("cannot start unshare: {why}"))?;
                let is_complete = for_runners.is_empty()
                    && (!is_quick || suite.quick == suite.programs && suite.quick_skips.is_empty());
                let listed = left_out::of(suite.name).count();
                let left_out = counts.left_out;
                all_counts.push((suite, counts));
                if !status.success() {
                    return Err(status.to_string());
                }
                if is_complete && left_out != listed {
                    return Err(format!(
                        "{left_out} tests of {} were left out, but left_out.rs lists {listed}: \
                     remove the names that no test has, and give whole names",
                        suite.package
                    ));
                }
                Ok(())
            },
        );
    }
    print_table(target, &all_counts);
    for (line, count) in &skipped.lines() {
        println!("    not tested ({count} times): {line}");
    }
    steps.finish()
}

/// The target with this name, if it is one to emulate here.
fn emulated(triple: &str) -> Result<&'static Target, String> {
    let found = TARGETS.iter().find(|target| target.triple == triple);
    match found {
        Some(target) if target.is_native() => {
            Err(format!("{triple} is this machine's: run cargo xtask test"))
        }
        Some(target) if target.cross_compiler.is_some() => Ok(target),
        _ => Err(format!(
            "test --target: expected aarch64-unknown-linux-gnu, got '{triple}'"
        )),
    }
}

/// The command that builds and runs a suite's tests.
fn command(
    suite: &EmulatedSuite,
    target: &Target,
    is_quick: bool,
    for_runners: &[String],
) -> Command {
    let mut tests = cargo(&["test", "--no-fail-fast", "--target", target.triple]);
    tests.args(["-p", suite.package]);
    tests.args(if is_quick {
        suite.quick
    } else {
        suite.programs
    });
    tests.arg("--");
    for test in left_out::of(suite.name) {
        tests.args(["--skip", test.test]);
    }
    for part in suite.quick_skips.iter().filter(|_| is_quick) {
        tests.args(["--skip", part]);
    }
    tests.args(for_runners);
    let compiler = target.cross_compiler.unwrap_or("cc");
    let linker = target.triple.to_uppercase().replace('-', "_");
    if let Some(page) = suite.page {
        tests.env("QEMU_PAGESIZE", page);
    }
    tests
        .env(format!("CARGO_TARGET_{linker}_LINKER"), compiler)
        // For the C files of build scripts, and for tests that compile C.
        .env("CC", compiler)
        .env("HOST_CC", "cc")
        // The C library for the programs, where an emulator looks for it.
        .env("QEMU_LD_PREFIX", target.emulator.last().unwrap_or(&"/"))
        .env("CARGO_TARGET_DIR", workspace::target_directory("emulated"))
        // Optimized programs run several times faster, which matters in an emulator. They keep
        // their assertions.
        .env("CARGO_PROFILE_DEV_OPT_LEVEL", "1")
        .env("CARGO_PROFILE_DEV_DEBUG", "line-tables-only")
        .env("CARGO_INCREMENTAL", "0");
    tests
}

/// Prints how many tests of each suite passed, failed and were left out, and why.
fn print_table(target: &Target, all_counts: &[(&EmulatedSuite, TestCounts)]) {
    println!(
        "\n==> test: on {} under {}",
        target.architecture, target.emulator[0]
    );
    println!("    {:<12}{HEADS}", "suite");
    for (suite, counts) in all_counts {
        println!("    {:<12}{counts}", suite.name);
    }
    for (suite, counts) in all_counts {
        for name in &counts.failures {
            println!("    failed in {}: {name}", suite.name);
        }
        for test in left_out::of(suite.name) {
            println!(
                "    left out of {}: {}: {}",
                suite.name, test.test, test.why
            );
        }
    }
}

#[cfg(test)]
mod checks {
    use super::*;

    #[test]
    fn only_a_target_with_a_cross_compiler_is_emulated() {
        assert!(emulated("x86_64-unknown-freebsd").is_err_and(|why| why.contains("expected")));
        for target in &TARGETS {
            let is_possible = !target.is_native() && target.cross_compiler.is_some();
            assert_eq!(
                emulated(target.triple).is_ok(),
                is_possible,
                "{}",
                target.triple
            );
        }
    }

    #[test]
    fn the_command_compiles_and_finds_libraries_for_the_target() {
        let target = Target::of("aarch64").expect("it is listed");
        let tests = command(&SUITES[4], target, true, &["name".to_owned()]);
        let words: Vec<_> = tests
            .get_args()
            .map(|word| word.display().to_string())
            .collect();
        let line = words.join(" ");
        assert!(line.contains("--target aarch64-unknown-linux-gnu -p baton --test tour --"));
        assert!(line.ends_with(" name"), "{line}");
        let value = |wanted: &str| {
            let mut variables = tests.get_envs();
            let found = variables.find(|(name, _)| *name == wanted)?;
            found.1.map(|value| value.display().to_string())
        };
        let linker = value("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER");
        assert_eq!(linker.as_deref(), Some("aarch64-linux-gnu-gcc"));
        assert_eq!(
            value("QEMU_LD_PREFIX").as_deref(),
            Some("/usr/aarch64-linux-gnu")
        );
    }
}
