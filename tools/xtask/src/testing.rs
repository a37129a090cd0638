//! `cargo xtask test`: installs what the tests need, and runs the tests.
//!
//! The usual run is for everyone who has changed something. It needs few packages and one build
//! with assertions, and runs all tests except those of the benches. `--all` makes four builds,
//! because each finds other problems. They are a debug build, a release, one that forces the
//! fallbacks for older kernels, and one that forces those for systems other than Linux. The last
//! two have their own directories for build output. Of the interpreter's tests, all but the first
//! run only those that are about what they change. `--again` runs failed test programs once more.
//! `--target` runs the tests of another architecture under an emulator ([`emulated`]).

mod binfmt;
mod counts;
mod emulated;
mod foreign_root;
mod left_out;
mod room;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Outcome;
use crate::cargo::{Steps, cargo, cargo_with_flags_for_ours, nothing_may_be_skipped};
use crate::packages::{self, FOR_ALL_TESTS, FOR_BUILDS, FOR_TESTS, Package};
use crate::{deb, dist, readers, workspace};
use emulated::EmulatedRun;

/// The fallbacks for older kernels: the compare-and-swap VM lock and the timer descriptor. Linux
/// with membarrier and epoll_pwait2 does not need them.
const OLD_KERNELS: &str = "--cfg baton_cas --cfg baton_timerfd";

/// The fallbacks for macOS and the BSDs. These lack membarrier, guards by madvise, epoll, and
/// Linux's information about threads and processors.
const OTHER_SYSTEMS: &str = "--cfg baton_cas --cfg baton_mprotect_guards --cfg baton_portable";

/// An environment variable for the tests. It names a file to which a test appends a line for each
/// thing that it could not test.
const SKIPPED_LIST: &str = "BATON_SKIPPED_LIST";

/// An environment variable for the interpreter's tests. It names the program to test, instead of
/// the one that was built with the tests.
const RELEASE: &str = "BATON_RELEASE_UNDER_TEST";

/// An environment variable for the interpreter's tests: the directory of the programs that read
/// what Baton writes. Builds with other flags have no such directory beside them.
const READERS: &str = "BATON_READERS";

/// The arguments of cargo that build the interpreter as it is published.
const RELEASE_BUILD: [&str; 5] = ["build", "--profile", workspace::DIST, "-p", "baton"];

/// The first words of each command that runs tests.
const TESTS: [&str; 2] = ["test", "--no-fail-fast"];

/// The interpreter's tests that run on the fallbacks, too: those of waits, locks, signals, stacks
/// and threads. `*` stands for anything.
const ON_FALLBACKS: [&str; 9] = [
    "attach",
    "concurrency_*",
    "forking",
    "memory",
    "out_of_memory",
    "recursion",
    "signal_handlers",
    "traps",
    "vms",
];

/// The interpreter's tests that run on the release, too: those of what optimizations can change,
/// which are switches, locks, signals, C calls, memory and Lua itself. The others start the same
/// programs for their commands, files and messages.
const ON_RELEASE: [&str; 21] = [
    "allocation_profile",
    "attach",
    "behaviour",
    "concurrency_*",
    "copying",
    "deadlocks",
    "ffi",
    "forking",
    "linked_modules",
    "memory",
    "modules",
    "moving",
    "out_of_memory",
    "profiling",
    "recursion",
    "sharing",
    "signal_handlers",
    "stock",
    "tour",
    "traps",
    "vms",
];

/// The steps that the usual run leaves out, for its last lines.
const ONLY_IN_ALL: &str = "the tests of the benches; the tests again as a release, with the \
                           fallbacks for old kernels, and with those for \
                           other systems; the Debian packages and the archive of files, made and \
                           tried";

/// The extent of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    Usual,
    All,
}

/// A run for another architecture.
#[derive(Debug, PartialEq, Eq)]
struct Elsewhere<'a> {
    /// rustc's name of the target.
    triple: &'a str,
    /// Whether it takes few of the interpreter's tests.
    is_quick: bool,
}

/// What the user asked for.
#[derive(Debug, PartialEq, Eq)]
struct Wish<'a> {
    extent: Extent,
    /// Whether a test program that fails runs once more.
    is_tried_again: bool,
    /// Set if the tests are to run for another architecture. Then the extent does not matter.
    elsewhere: Option<Elsewhere<'a>>,
    for_runners: &'a [String],
}

/// The steps of a run and whether failed test programs run again in them.
struct Run {
    steps: Steps,
    is_tried_again: bool,
}

impl Run {
    fn tests(&mut self, name: &str, command: &mut Command) {
        if self.is_tried_again {
            self.steps.run_tests_again(name, command);
        } else {
            self.steps.run(name, command);
        }
    }
}

/// Runs the tests. Arguments after `--` go to the test programs.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    let Wish {
        extent,
        is_tried_again,
        elsewhere,
        for_runners,
    } = parse(arguments)?;
    if let Some(Elsewhere { triple, is_quick }) = elsewhere {
        let run = EmulatedRun {
            is_quick,
            is_tried_again,
            for_runners,
        };
        return emulated::run(triple, run);
    }
    let mut run = Run {
        steps: Steps::of("test"),
        is_tried_again,
    };
    let missing = match extent {
        Extent::Usual => packages::install_missing(FOR_TESTS),
        Extent::All => install_beside_builds(&mut run.steps),
    };
    packages::warn_of_missing(&missing);
    if nothing_may_be_skipped() && !missing.is_empty() {
        return Err("with CI=true no package may be missing; see the list above".to_owned());
    }
    let skipped = SkippedList::new()?;
    let prepared = |command: Command| prepared(command, extent, &skipped, for_runners);
    match extent {
        Extent::Usual => {
            let usual = [
                "test",
                "--workspace",
                "--exclude",
                "baton-bench",
                "--no-fail-fast",
            ];
            run.tests("all but the benches, debug", &mut prepared(cargo(&usual)));
        }
        Extent::All => run_all(&mut run, prepared),
    }
    let outcome = run.steps.finish();
    if outcome.is_ok() {
        room::remove_scratch();
    }
    say_what_was_left(extent, &missing, &skipped);
    outcome
}

fn parse(arguments: &[String]) -> Result<Wish<'_>, String> {
    let end = arguments.iter().position(|word| word == "--");
    let (options, for_runners) = match end {
        Some(at) => (&arguments[..at], &arguments[at + 1..]),
        None => (arguments, &[][..]),
    };
    let mut wish = Wish {
        extent: Extent::Usual,
        is_tried_again: false,
        elsewhere: None,
        for_runners,
    };
    let words: Vec<&str> = options.iter().map(String::as_str).collect();
    if let ["--target", triple, rest @ ..] = words.as_slice() {
        wish.elsewhere = Some(Elsewhere {
            triple,
            is_quick: rest.contains(&"--quick"),
        });
    }
    let is_elsewhere = wish.elsewhere.is_some();
    for option in words.into_iter().skip(if is_elsewhere { 2 } else { 0 }) {
        match option {
            "--all" if !is_elsewhere => wish.extent = Extent::All,
            "--quick" if is_elsewhere => {}
            "--again" => wish.is_tried_again = true,
            other => {
                return Err(format!(
                    "test: expected '--all', '--again', '--target TRIPLE [--quick] [--again]', or \
                     '--' before the test runners' arguments, got '{other}'"
                ));
            }
        }
    }
    Ok(wish)
}

/// Builds what the first tests of `--all` need. Packages are installed at the same time, which
/// mostly waits for servers. Returns the packages that are missing.
fn install_beside_builds(steps: &mut Steps) -> Vec<Package> {
    let mut missing = packages::install_missing(FOR_BUILDS);
    let wanted = [FOR_TESTS, FOR_ALL_TESTS, readers::PACKAGES].concat();
    let debug = ["test", "--workspace", "--no-run"];
    steps.run_lanes(vec![
        Box::new(|steps| steps.run("build, debug", &mut cargo(&debug))),
        // The linker's optimization of the whole program uses one processor.
        Box::new(|steps| steps.run("build, release", &mut cargo(&RELEASE_BUILD))),
        Box::new(|steps| {
            steps.check("packages", || {
                missing = packages::install_missing(&wanted);
                Ok(())
            });
            if let Err(why) = readers::install() {
                steps.skip("readers of profiles, traces, metrics and heaps", &why);
            }
        }),
    ]);
    missing
}

fn run_all(run: &mut Run, prepared: impl Fn(Command) -> Command) {
    run.tests(
        "all, debug",
        &mut prepared(cargo(&[&TESTS[..], &["--workspace"]].concat())),
    );
    release(run, &prepared);
    run.steps.run_lanes(vec![
        Box::new(dist::step),
        Box::new(|steps| {
            deb::step(steps);
            deb::step_of_libraries(steps);
        }),
    ]);
    for (step, flags, directory) in [
        ("fallbacks for old kernels", OLD_KERNELS, "fallbacks"),
        ("fallbacks for other systems", OTHER_SYSTEMS, "portable"),
    ] {
        let before = room::Before::now();
        let of_runtime = [&TESTS[..], &["-p", "baton-sys", "-p", "baton-core"]].concat();
        // With the whole workspace, dependencies have the same features as in the debug build.
        let mut of_interpreter = [&TESTS[..], &["--workspace"]].concat();
        of_interpreter.extend(ON_FALLBACKS.iter().flat_map(|name| ["--test", name]));
        for (step, words) in [
            (step.to_owned(), of_runtime),
            (format!("interpreter, {step}"), of_interpreter),
        ] {
            match cargo_with_flags_for_ours(&words, flags, directory) {
                Ok(command) => run.tests(&step, &mut prepared(command)),
                Err(why) => run.steps.check(&step, || Err(why)),
            }
        }
        before.restore(&workspace::target_directory(directory));
    }
}

/// Tests the release of the interpreter with test programs of the debug build. Also runs the
/// runtime's own tests with optimizations, except those that take longer to build than to run.
fn release(run: &mut Run, prepared: impl Fn(Command) -> Command) {
    // With the whole workspace, cargo takes what the debug build has built. For one package, it
    // would choose other features, and build most of it again.
    let mut of_interpreter = [&TESTS[..], &["--workspace"]].concat();
    of_interpreter.extend(ON_RELEASE.iter().flat_map(|name| ["--test", name]));
    let mut interpreter = prepared(cargo(&of_interpreter));
    interpreter.env(RELEASE, workspace::published_program());
    run.tests("interpreter, release", &mut interpreter);
    let own = workspace::target_directory("release");
    let is_the_users = own.exists();
    let of_runtime = [&TESTS[..], &["--release", "-p", "baton-core"]].concat();
    run.tests("runtime, release", &mut prepared(cargo(&of_runtime)));
    if !is_the_users {
        workspace::remove(&own);
    }
}

fn prepared(
    mut command: Command,
    extent: Extent,
    skipped: &SkippedList,
    for_runners: &[String],
) -> Command {
    command
        .env(SKIPPED_LIST, &skipped.file)
        .env(READERS, workspace::target_directory("readers"));
    if extent == Extent::Usual {
        // With `CI` set, these tests would fail for any missing package. The usual run has already
        // checked its own packages.
        command.env_remove("CI");
    }
    if !for_runners.is_empty() {
        command.arg("--").args(for_runners);
    }
    command
}

/// Prints the last lines of a run: how large the build is, what the run did not test, and how to
/// test that too.
fn say_what_was_left(extent: Extent, missing: &[Package], skipped: &SkippedList) {
    println!("\n==> test: {}", room::line());
    let lines = skipped.lines();
    if extent == Extent::All && missing.is_empty() && lines.is_empty() {
        println!("\n==> test: nothing was left out");
        return;
    }
    println!("\n==> test: what was not run");
    for (line, count) in &lines {
        match count {
            1 => println!("    {line}"),
            _ => println!("    {line} ({count} times)"),
        }
    }
    if !missing.is_empty() {
        println!(
            "    what needs missing packages: {}",
            packages::remedy(missing)
        );
    }
    if extent == Extent::Usual {
        println!("    what only `cargo xtask test --all` runs: {ONLY_IN_ALL}");
    }
}

/// The file in which tests list what they skip.
struct SkippedList {
    file: PathBuf,
}

impl SkippedList {
    /// An empty list.
    fn new() -> Result<Self, String> {
        Self::at(workspace::target_directory("skipped-tests.txt"))
    }

    fn at(file: PathBuf) -> Result<Self, String> {
        let directory = file.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(directory)
            .and_then(|()| fs::write(&file, ""))
            .map_err(|why| format!("cannot write {}: {why}", file.display()))?;
        Ok(Self { file })
    }

    /// The listed lines in alphabetical order, each with its count.
    fn lines(&self) -> BTreeMap<String, usize> {
        let mut lines = BTreeMap::new();
        // If the list is gone, there is nothing to report.
        for line in fs::read_to_string(&self.file).unwrap_or_default().lines() {
            *lines.entry(line.to_owned()).or_default() += 1;
        }
        lines
    }
}

#[cfg(test)]
mod checks {
    use super::*;
    use crate::test_programs::names_in;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    fn list(trial: &str) -> SkippedList {
        let file = std::env::temp_dir().join(format!(
            "baton-xtask-skipped-{trial}-{}",
            std::process::id()
        ));
        SkippedList::at(file).expect("a file for the trial")
    }

    fn arguments_of(command: &Command) -> Vec<String> {
        command
            .get_args()
            .map(|word| word.display().to_string())
            .collect()
    }

    #[test]
    fn the_test_runners_arguments_follow_a_double_dash() {
        for (line, extent, is_tried_again, for_runners) in [
            ("-- name", Extent::Usual, false, "name"),
            ("--all -- --all", Extent::All, false, "--all"),
            ("--all --again", Extent::All, true, ""),
        ] {
            let expected = Wish {
                extent,
                is_tried_again,
                elsewhere: None,
                for_runners: &words(for_runners),
            };
            assert_eq!(parse(&words(line)), Ok(expected));
        }
        let list = list("arguments");
        let command = prepared(Command::new("cargo"), Extent::All, &list, &words("name"));
        fs::remove_file(&list.file).expect("the trial's file");
        assert_eq!(arguments_of(&command), ["--", "name"]);
    }

    #[test]
    fn an_argument_before_the_double_dash_is_refused() {
        for (line, word) in [
            ("name", "name"),
            ("--all name", "name"),
            ("--target", "--target"),
            ("--target x --all", "--all"),
            ("--quick", "--quick"),
        ] {
            let refused = format!(
                "test: expected '--all', '--again', '--target TRIPLE [--quick] [--again]', or '--' \
                 before the test runners' arguments, got '{word}'"
            );
            assert_eq!(parse(&words(line)), Err(refused));
        }
    }

    #[test]
    fn another_architecture_is_chosen_by_its_name() {
        for (line, is_quick, is_tried_again) in [
            ("--target x -- name", false, false),
            ("--target x --quick", true, false),
            ("--target x --again --quick", true, true),
        ] {
            let line = words(line);
            let wish = parse(&line).expect("it is understood");
            assert_eq!(wish.is_tried_again, is_tried_again);
            assert_eq!(
                wish.elsewhere,
                Some(Elsewhere {
                    triple: "x",
                    is_quick
                })
            );
        }
    }

    #[test]
    fn in_the_usual_run_tests_may_skip_what_only_all_installs() {
        let list = list("extent");
        let is_removed = |extent| {
            let command = prepared(Command::new("cargo"), extent, &list, &[]);
            command
                .get_envs()
                .any(|(name, value)| name == "CI" && value.is_none())
        };
        assert!(is_removed(Extent::Usual) && !is_removed(Extent::All));
        fs::remove_file(&list.file).expect("the trial's file");
    }

    #[test]
    fn the_tests_that_run_more_than_once_exist() {
        let names = names_in(&workspace::root().join("tools/baton"));
        for wanted in ON_FALLBACKS.into_iter().chain(ON_RELEASE) {
            let start = wanted.trim_end_matches('*');
            let is_there = |name: &String| match wanted.ends_with('*') {
                true => name.starts_with(start),
                false => name == wanted,
            };
            assert!(names.iter().any(is_there), "{wanted}");
        }
        assert!(!names.iter().any(|name| name == "harness"), "{names:?}");
    }

    #[test]
    fn skipped_tests_are_counted() {
        let list = list("count");
        fs::write(&list.file, "b\na\nb\n").expect("the trial's file");
        let lines: Vec<(String, usize)> = list.lines().into_iter().collect();
        fs::remove_file(&list.file).expect("the trial's file");
        assert_eq!(lines, [("a".to_owned(), 1), ("b".to_owned(), 2)]);
    }
}
