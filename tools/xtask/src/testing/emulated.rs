//! `cargo xtask test --target TRIPLE`: the tests of another architecture, under qemu-user.
//!
//! Debian's cross compiler compiles the C files and links, here and for the tests that compile C.
//! Cargo and the compilers run as they are. Only the test programs, and the programs for the target
//! that they start, run under the emulator (see [`binfmt`]). Programs of this machine that tests
//! start run as they are, too.
//!
//! All test programs are built first, by one command. Cargo would choose other features of
//! dependencies for each package, and build most of them several times. Then the programs run, as
//! many at a time as there are processors: many tests wait.
//!
//! What an emulator cannot do is in [`left_out`]. A run fails if that list and the tests that were
//! left out differ in number.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use super::counts::{HEADS, TestCounts};
use super::{SkippedList, binfmt, foreign_root, left_out};
use crate::Outcome;
use crate::cargo::{Steps, cargo};
use crate::deb::output;
use crate::dist::target::{TARGETS, Target};
use crate::dist::zig::add_target;
use crate::packages::{self, FOR_ALL_TESTS, FOR_EMULATED_TESTS, FOR_TESTS};
use crate::readers;
use crate::side_by_side::{self, Ended};
use crate::test_programs::{self, TestProgram};
use crate::workspace;

/// An environment variable for the interpreter's tests. It says that they are slow.
const EMULATED: &str = "BATON_TESTS_ARE_EMULATED";

/// Test programs of one package.
#[derive(Debug)]
struct EmulatedSuite {
    name: &'static str,
    package: &'static str,
    /// The directory of the package, in the repository.
    directory: &'static str,
    /// The names of the test programs; all if there are none.
    programs: &'static [&'static str],
    /// The same in a quick run.
    quick: &'static [&'static str],
    /// The tests that a quick run leaves out: parts of their names.
    quick_skips: &'static [&'static str],
    /// The size of a page in the emulator, in bytes, if it is not that of the machine.
    page: Option<&'static str>,
}

impl EmulatedSuite {
    const fn all(
        name: &'static str,
        package: &'static str,
        directory: &'static str,
    ) -> EmulatedSuite {
        EmulatedSuite {
            name,
            package,
            directory,
            programs: &[],
            quick: &[],
            quick_skips: &[],
            page: None,
        }
    }

    /// Whether the program is one of the suite's.
    fn has(&self, program: &TestProgram, is_quick: bool) -> bool {
        let wanted = if is_quick { self.quick } else { self.programs };
        program.directory.ends_with(self.directory)
            && (wanted.is_empty() || wanted.contains(&program.target.as_str()))
    }

    /// The names of the programs in `tests` that a quick run needs.
    fn quick_names(&self) -> Vec<String> {
        if self.quick.is_empty() {
            test_programs::names_in(&workspace::root().join(self.directory))
        } else {
            self.quick.iter().copied().map(str::to_owned).collect()
        }
    }

    /// Whether a quick run runs all its tests.
    fn is_whole_in_quick_run(&self) -> bool {
        self.quick == self.programs && self.quick_skips.is_empty()
    }
}

/// Those that take longest come first, so that no processor is idle at the end.
const SUITES: [EmulatedSuite; 5] = [
    EmulatedSuite {
        // These compare pure functions on random input, which no processor changes. They take most
        // of the time.
        quick_skips: &["::twins::"],
        ..EmulatedSuite::all("core", "baton-core", "runtime/core")
    },
    EmulatedSuite::all("ffi", "baton-ffi", "bindings/ffi"),
    EmulatedSuite::all("sys", "baton-sys", "runtime/sys"),
    EmulatedSuite {
        programs: &["stacks"],
        quick: &["stacks"],
        page: Some("65536"),
        ..EmulatedSuite::all("large pages", "baton-sys", "runtime/sys")
    },
    EmulatedSuite {
        quick: &["tour"],
        ..EmulatedSuite::all("interpreter", "baton", "tools/baton")
    },
];

/// A program, as a part of a suite.
type ProgramRun<'a> = (&'static EmulatedSuite, &'a TestProgram);

/// The results of a suite.
struct SuiteResult {
    suite: &'static EmulatedSuite,
    counts: TestCounts,
    /// The sum over its programs.
    took: Duration,
}

/// How a run differs from a whole one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EmulatedRun<'a> {
    /// Whether it takes only the tour of the interpreter's tests, and leaves out some long ones.
    pub(super) is_quick: bool,
    /// Whether a test program that fails runs once more.
    pub(super) is_tried_again: bool,
    pub(super) for_runners: &'a [String],
}

/// Runs the suites.
pub(super) fn run(triple: &str, wish: EmulatedRun<'_>) -> Outcome {
    let target = emulated(triple)?;
    if !wish.is_quick && output(Command::new("id").arg("-u"))?.trim() != "0" {
        return Err(format!(
            "test --target {triple}: the interpreter's tests start servers as other users: run it \
             as root, or with --quick"
        ));
    }
    install(triple, wish.is_quick)?;
    add_target(triple)?;
    let root = root_for(target, wish.is_quick)?;
    let emulator = output(Command::new("which").arg(target.emulator[0]))?;
    let skipped = SkippedList::new()?;
    let mut steps = Steps::of("test");
    let mut programs = Vec::new();
    steps.check(&format!("build for {}", target.architecture), || {
        programs = test_programs::build(&mut build(target, wish.is_quick))?;
        Ok(())
    });
    if programs.is_empty() {
        return steps.finish();
    }
    let runs: Vec<ProgramRun<'_>> = SUITES
        .iter()
        .flat_map(|suite| programs.iter().map(move |program| (suite, program)))
        .filter(|(suite, program)| suite.has(program, wish.is_quick))
        .collect();
    let mut results = Vec::new();
    steps.check_again(&format!("tests on {}", target.architecture), || {
        let command = |(suite, program): &ProgramRun<'_>| {
            let mut tests = program.command();
            tests
                .args(arguments(suite, &program.target, wish))
                .args(wish.for_runners)
                .env(super::SKIPPED_LIST, &skipped.file)
                .env(super::READERS, workspace::target_directory("readers"))
                .env(EMULATED, "1")
                // The C library for the programs, where the emulator looks for it.
                .env("QEMU_LD_PREFIX", &root);
            if let Some(page) = suite.page {
                tests.env("QEMU_PAGESIZE", page);
            }
            binfmt::with_emulator(target, emulator.trim(), for_target(&mut tests, target))
        };
        let (ended, failed_at_first) = run_programs(&runs, command, wish.is_tried_again)?;
        results = sums(&runs, &ended);
        let mut problems = failures(&runs, &ended);
        let is_whole = |suite: &EmulatedSuite| {
            wish.for_runners.is_empty() && (!wish.is_quick || suite.is_whole_in_quick_run())
        };
        for result in results.iter().filter(|result| is_whole(result.suite)) {
            problems.extend(difference(result));
        }
        match problems.as_slice() {
            [] => Ok(failed_at_first),
            _ => Err(problems.join("; ")),
        }
    });
    if !wish.is_quick && wish.for_runners.is_empty() {
        let mut examples = cargo_test(target);
        examples.arg("--doc");
        steps.run(
            &format!("examples of the documentation on {}", target.architecture),
            &mut binfmt::with_emulator(
                target,
                emulator.trim(),
                examples.env("QEMU_LD_PREFIX", &root),
            ),
        );
    }
    print_table(target, &results);
    for (line, count) in &skipped.lines() {
        println!("    not tested ({count} times): {line}");
    }
    steps.finish()
}

/// Installs the packages that the tests need.
fn install(triple: &str, is_quick: bool) -> Outcome {
    let mut wanted = FOR_EMULATED_TESTS.to_vec();
    if !is_quick {
        wanted.extend([FOR_TESTS, FOR_ALL_TESTS, readers::PACKAGES].concat());
    }
    let missing = packages::install_missing(&wanted);
    match missing.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "test --target {triple}: {}",
            packages::remedy(&missing)
        )),
    }
}

/// The directory in which the emulator looks for what a program opens. In a whole run, it has
/// compiled modules. The programs that read what Baton writes are installed, too.
fn root_for(target: &Target, is_quick: bool) -> Result<PathBuf, String> {
    if is_quick {
        return Ok(target.emulator.last().copied().unwrap_or("/").into());
    }
    readers::install()?;
    foreign_root::with_modules(target)
}

/// Runs all programs. Those that fail run once more by themselves, if that is wanted.
/// Returns the results, and the names of the programs that failed at first.
fn run_programs(
    runs: &[ProgramRun<'_>],
    command: impl Fn(&ProgramRun<'_>) -> Command,
    is_tried_again: bool,
) -> Result<(Vec<Ended>, Vec<String>), String> {
    let named = |run: &ProgramRun<'_>| (name(run), command(run));
    let at_once = std::thread::available_parallelism().map_or(1, usize::from);
    let mut ended = side_by_side::run_all(runs.iter().map(named).collect(), at_once)?;
    let mut failed_at_first = Vec::new();
    for (run, ended) in runs.iter().zip(&mut ended) {
        if is_tried_again && !ended.status.success() {
            failed_at_first.push(name(run));
            *ended = side_by_side::run_all(vec![named(run)], 1)?.remove(0);
        }
    }
    Ok((ended, failed_at_first))
}

fn name((suite, program): &ProgramRun<'_>) -> String {
    format!("{}: {}", suite.name, program.target)
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

/// The `cargo test` command for the test programs of all suites.
fn build(target: &Target, is_quick: bool) -> Command {
    let mut tests = cargo_test(target);
    if is_quick {
        let names: BTreeSet<_> = SUITES.iter().flat_map(EmulatedSuite::quick_names).collect();
        tests.arg("--lib");
        for name in names {
            tests.arg("--test").arg(name);
        }
    }
    tests
}

/// A `cargo test` command for the packages of all suites.
fn cargo_test(target: &Target) -> Command {
    let mut tests = cargo(&["test", "--target", target.triple]);
    tests.args(["--config", "profile.dev.package.'*'.opt-level=0"]);
    let packages: BTreeSet<_> = SUITES.iter().map(|suite| suite.package).collect();
    tests.args(packages.iter().flat_map(|package| ["-p", package]));
    let compiler = target.cross_compiler.unwrap_or("cc");
    let linker = target.triple.to_uppercase().replace('-', "_");
    for_target(&mut tests, target)
        .env(format!("CARGO_TARGET_{linker}_LINKER"), compiler)
        .env("CARGO_TARGET_DIR", workspace::target_directory("emulated"))
        // Optimized programs run several times faster, which matters in an emulator. They keep
        // their assertions. Other people's crates take longer to optimize than they run.
        .env("CARGO_PROFILE_DEV_OPT_LEVEL", "1")
        .env("CARGO_PROFILE_DEV_DEBUG", "none")
        .env("CARGO_INCREMENTAL", "0");
    tests
}

/// Sets what building and running for the target needs.
fn for_target<'a>(command: &'a mut Command, target: &Target) -> &'a mut Command {
    command
        // For the C files of build scripts, and for tests that compile C.
        .env("CC", target.cross_compiler.unwrap_or("cc"))
        .env("HOST_CC", "cc")
}

/// The arguments of one of a suite's test programs.
fn arguments(suite: &EmulatedSuite, program: &str, wish: EmulatedRun<'_>) -> Vec<&'static str> {
    let parts = suite.quick_skips.iter().filter(|_| wish.is_quick).copied();
    let names = left_out::of_program(suite.name, program).map(|test| test.test);
    let skips = names.chain(parts.clone()).flat_map(|test| ["--skip", test]);
    // Whole names, so that a test is not left out because its name contains that of another.
    let has_whole_names = parts.count() == 0 && wish.for_runners.is_empty();
    skips.chain(has_whole_names.then_some("--exact")).collect()
}

/// The sums of each suite, in the order of [`SUITES`].
fn sums(runs: &[ProgramRun<'_>], ended: &[Ended]) -> Vec<SuiteResult> {
    let mut results: Vec<SuiteResult> = Vec::new();
    for ((suite, _), ended) in runs.iter().zip(ended) {
        if results
            .last()
            .is_none_or(|last| last.suite.name != suite.name)
        {
            results.push(SuiteResult {
                suite,
                counts: TestCounts::default(),
                took: Duration::ZERO,
            });
        }
        if let Some(last) = results.last_mut() {
            last.counts += TestCounts::of(&ended.output);
            last.took += ended.took;
        }
    }
    results
}

/// The programs that have failed, with the reasons.
fn failures(runs: &[ProgramRun<'_>], ended: &[Ended]) -> Vec<String> {
    let pairs = runs.iter().zip(ended);
    pairs
        .filter(|(_, ended)| !ended.status.success())
        .map(|(run, ended)| format!("{}: {}", name(run), ended.status))
        .collect()
}

/// A message if not all listed tests of a suite were left out.
fn difference(SuiteResult { suite, counts, .. }: &SuiteResult) -> Option<String> {
    let (left_out, listed) = (counts.left_out, left_out::of(suite.name).count());
    (left_out != listed).then(|| {
        format!(
            "{left_out} tests of {} were left out, but left_out.rs lists {listed}: remove the \
             names that no test has, and give whole names",
            suite.name
        )
    })
}

/// Prints how many tests of each suite passed, failed and were left out, and why.
fn print_table(target: &Target, results: &[SuiteResult]) {
    println!(
        "\n==> test: on {} under {}",
        target.architecture, target.emulator[0]
    );
    println!("    {:<12}{HEADS}  seconds", "suite");
    for SuiteResult {
        suite,
        counts,
        took,
    } in results
    {
        println!("    {:<12}{counts} {:>8.0}", suite.name, took.as_secs_f64());
    }
    for SuiteResult { suite, counts, .. } in results {
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

    fn arm() -> &'static Target {
        Target::of("aarch64").expect("it is listed")
    }

    #[test]
    fn the_build_compiles_and_finds_libraries_for_the_target() {
        let tests = build(arm(), true);
        let words: Vec<_> = tests
            .get_args()
            .map(|word| word.display().to_string())
            .collect();
        let line = words.join(" ");
        assert!(
            line.contains("--target aarch64-unknown-linux-gnu "),
            "{line}"
        );
        assert!(line.contains(" -p baton -p baton-core"), "{line}");
        assert!(line.contains(" --test processes ") && line.contains(" --test tour"));
        assert!(!line.contains(" --test modules"), "{line}");
        let value = |wanted: &str| {
            let mut variables = tests.get_envs();
            let found = variables.find(|(name, _)| *name == wanted)?;
            found.1.map(|value| value.display().to_string())
        };
        let linker = value("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER");
        assert_eq!(linker.as_deref(), Some("aarch64-linux-gnu-gcc"));
    }

    fn program(directory: &str, target: &str) -> TestProgram {
        TestProgram {
            target: target.to_owned(),
            executable: "/out/program".into(),
            directory: workspace::root().join(directory),
        }
    }

    #[test]
    fn a_suite_has_its_packages_programs_or_those_that_it_names() {
        let of = |name: &str| SUITES.iter().find(|suite| suite.name == name);
        let (core, interpreter) = (of("core").expect("one"), of("interpreter").expect("one"));
        assert!(core.has(&program("runtime/core", "tracing"), true));
        assert!(!core.has(&program("tools/baton", "tracing"), true));
        assert!(interpreter.has(&program("tools/baton", "tracing"), false));
        assert!(!interpreter.has(&program("tools/baton", "tracing"), true));
        assert!(interpreter.has(&program("tools/baton", "tour"), true));
    }

    #[test]
    fn a_program_that_fails_runs_again_if_that_is_wanted() {
        let program = program("runtime/core", "a");
        let runs = [(&SUITES[0], &program)];
        let tries = std::cell::Cell::new(0);
        let fails_at_first = |_: &ProgramRun<'_>| {
            tries.set(tries.get() + 1);
            Command::new(if tries.get() == 1 { "false" } else { "true" })
        };
        let (ended, failed) = run_programs(&runs, fails_at_first, true).expect("both exist");
        assert!(ended[0].status.success());
        assert_eq!(failed, ["core: a"]);
        tries.set(0);
        let (ended, failed) = run_programs(&runs, fails_at_first, false).expect("both exist");
        assert!(!ended[0].status.success());
        assert_eq!(failed, [""; 0]);
    }

    #[test]
    fn results_are_added_up_for_each_suite() {
        use std::os::unix::process::ExitStatusExt;
        let ended = |code: i32, result: &str| Ended {
            status: std::process::ExitStatus::from_raw(code << 8),
            output: format!("test result: {result}"),
            took: Duration::from_secs(2),
        };
        let (one, other) = (program("runtime/core", "a"), program("runtime/core", "b"));
        let runs = [(&SUITES[0], &one), (&SUITES[0], &other), (&SUITES[1], &one)];
        let all = [
            ended(
                0,
                "ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out",
            ),
            ended(
                1,
                "FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 1 filtered out",
            ),
            ended(
                0,
                "ok. 7 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out",
            ),
        ];
        let results = sums(&runs, &all);
        let passed: Vec<_> = results.iter().map(|result| result.counts.passed).collect();
        assert_eq!(passed, [4, 7]);
        assert_eq!(results[0].took, Duration::from_secs(4));
        assert_eq!(failures(&runs, &all), ["core: b: exit status: 1"]);
        assert!(difference(&results[0]).is_some_and(|why| why.contains("lists 0")));
        assert_eq!(difference(&results[1]), None);
    }
}
