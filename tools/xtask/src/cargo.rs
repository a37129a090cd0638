//! Runs cargo and other programs as the steps of an xtask command. Each step is printed and timed,
//! and a summary follows at the end.

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::side_by_side::Ended;
use crate::workspace;

/// A command that runs the same cargo as this program, in the workspace's root, without standard
/// input.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(program);
    command
        .args(arguments)
        .current_dir(workspace::root())
        .stdin(Stdio::null());
    for name in std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()) {
        if is_of_this_program(&name) {
            command.env_remove(name);
        }
    }
    command
}

/// Whether this environment variable tells a program of its own package, as cargo does when it runs
/// one. Build scripts look at such variables: ring's runs again if they have changed, and then
/// everything that uses ring is built again.
fn is_of_this_program(name: &str) -> bool {
    name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
}

/// A cargo command with other compiler flags, and with its own directory for build output.
pub(crate) fn cargo_with_flags(arguments: &[&str], flags: &str, target: &str) -> Command {
    let mut command = cargo(arguments);
    let directory: PathBuf = workspace::target_directory(target);
    command
        .env("RUSTFLAGS", joined_flags(flags))
        .env("CARGO_TARGET_DIR", directory);
    command
}

/// A cargo command that gives further compiler flags to the crates of this workspace only. All
/// other crates are those of the usual build, so they are not built again. Programs go to a
/// directory of their own, `name`.
///
/// The flags are `--cfg NAME` only. Build scripts see them as those that cargo knows.
pub(crate) fn cargo_with_flags_for_ours(
    arguments: &[&str],
    flags: &str,
    name: &str,
) -> Result<Command, String> {
    let directory = workspace::target_directory(name);
    let mut command = cargo(arguments);
    for name in flags.split_whitespace().filter(|word| *word != "--cfg") {
        command.env(format!("CARGO_CFG_{}", name.to_uppercase()), "");
    }
    command
        .env("RUSTC_WORKSPACE_WRAPPER", compiler_with(flags, &directory)?)
        .env("CARGO_BUILD_BUILD_DIR", workspace::target_directory(""))
        .env("CARGO_TARGET_DIR", directory);
    Ok(command)
}

/// A program in this directory that runs a compiler with further flags. Cargo keeps what it has
/// compiled apart by the program's path, and the path has the flags: others never find it.
fn compiler_with(flags: &str, directory: &Path) -> Result<PathBuf, String> {
    let program = directory.join(flags.replace("--cfg ", "").replace(' ', "+"));
    let script = format!("#!/bin/sh\nexec \"$@\" {flags}\n");
    fs::create_dir_all(directory)
        .and_then(|()| fs::write(&program, script))
        .and_then(|()| fs::set_permissions(&program, fs::Permissions::from_mode(0o755)))
        .map_err(|why| format!("cannot write {}: {why}", program.display()))?;
    Ok(program)
}

/// The user's compiler flags followed by ours. Setting the variable to ours alone would drop the
/// user's.
fn joined_flags(ours: &str) -> String {
    match std::env::var("RUSTFLAGS") {
        Ok(users) if !users.is_empty() => format!("{users} {ours}"),
        _ => ours.to_owned(),
    }
}

/// How one step of a command ended.
enum Ending {
    Passed,
    /// Test programs failed, and passed when they ran again by themselves. Has their names.
    PassedAgain(Vec<String>),
    Failed(String),
    Skipped(String),
}

/// The steps of one command that have run so far.
pub(crate) struct Steps {
    command: &'static str,
    began: Instant,
    done: Vec<DoneStep>,
    /// Whether other steps run at the same time.
    is_in_lane: bool,
}

/// A step's name, how long it took, and how it ended.
type DoneStep = (String, Duration, Ending);

/// Steps that run one after another, beside those of other lanes.
pub(crate) type Lane<'a> = Box<dyn FnOnce(&mut Steps) + Send + 'a>;

impl Steps {
    /// An empty list of steps for the command with this name.
    pub(crate) fn of(command: &'static str) -> Self {
        Self {
            command,
            began: Instant::now(),
            done: Vec::new(),
            is_in_lane: false,
        }
    }

    /// Runs the lanes side by side, until the last one has ended. Only the order of steps in the
    /// same lane is known. So these must not need a directory, or another thing, that a step of
    /// another lane changes.
    ///
    /// The output of a program is printed when it has ended.
    pub(crate) fn run_lanes(&mut self, lanes: Vec<Lane<'_>>) {
        let command = self.command;
        let in_lane = |lane: Lane<'_>| {
            let mut steps = Steps::of(command);
            steps.is_in_lane = true;
            lane(&mut steps);
            steps.done
        };
        let panicked = |_| {
            let why = "one of this program's threads panicked".to_owned();
            vec![("a lane".to_owned(), Duration::ZERO, Ending::Failed(why))]
        };
        std::thread::scope(|scope| {
            let lanes: Vec<_> = lanes
                .into_iter()
                .map(|lane| scope.spawn(move || in_lane(lane)))
                .collect();
            for lane in lanes {
                self.done.extend(lane.join().unwrap_or_else(panicked));
            }
        });
    }

    /// Runs a program to its end and shows its output. After a failure, later steps still run, so
    /// that one run shows all problems.
    pub(crate) fn run(&mut self, name: &str, command: &mut Command) {
        let is_in_lane = self.is_in_lane;
        self.check(name, || {
            println!("    {}", shown(command));
            if !is_in_lane {
                let status = command.status();
                return ended_well(command, status);
            }
            let ended = Ended::of(command).map(|ended| {
                println!("\n    output of {name}:\n{}", ended.output);
                ended.status
            });
            ended_well(command, ended)
        });
    }

    /// Runs a `cargo test` command to its end. Test programs that fail run once more by themselves,
    /// because a machine that others share may stall in the middle of a test. The summary names
    /// those that passed only the second time.
    pub(crate) fn run_tests_again(&mut self, name: &str, command: &mut Command) {
        self.record(name, || {
            println!("    {}", shown(command));
            let (status, failed) = run_and_list_failed(command);
            let Err(why) = ended_well(command, status) else {
                return Ending::Passed;
            };
            if failed.is_empty() {
                return Ending::Failed(why);
            }
            for target in &failed {
                let mut again = command_for_one(command, target);
                println!("\n    again: {}", shown(&again));
                let status = again.status();
                if let Err(why) = ended_well(&again, status) {
                    return Ending::Failed(format!("{target} failed twice: {why}"));
                }
            }
            Ending::PassedAgain(failed)
        });
    }

    /// Runs a check that is a function of this program.
    pub(crate) fn check(&mut self, name: &str, check: impl FnOnce() -> Result<(), String>) {
        self.check_again(name, || check().map(|()| Vec::new()));
    }

    /// Runs a check that returns the names of test programs that failed, and then passed when they
    /// ran again.
    pub(crate) fn check_again(
        &mut self,
        name: &str,
        check: impl FnOnce() -> Result<Vec<String>, String>,
    ) {
        self.record(name, || match check() {
            Ok(failed) if failed.is_empty() => Ending::Passed,
            Ok(failed) => Ending::PassedAgain(failed),
            Err(why) => Ending::Failed(why),
        });
    }

    /// Runs a step, prints how long it took, and notes how it ended.
    fn record(&mut self, name: &str, step: impl FnOnce() -> Ending) {
        println!("\n==> {} {name}", self.command);
        let started = Instant::now();
        let ending = step();
        if let Ending::Failed(why) = &ending {
            println!("    FAILED: {why}");
        }
        let took = started.elapsed();
        println!("    {name}: {:.1} s", took.as_secs_f64());
        self.done.push((name.to_owned(), took, ending));
    }

    /// Records that a step could not run on this machine, and why. With `CI=true`, this is a
    /// failure.
    pub(crate) fn skip(&mut self, name: &str, why: &str) {
        let ending = if nothing_may_be_skipped() {
            Ending::Failed(format!("{why} (and with CI=true nothing may be skipped)"))
        } else {
            Ending::Skipped(why.to_owned())
        };
        self.done.push((name.to_owned(), Duration::ZERO, ending));
    }

    /// Prints the result and the duration of each step. Returns an error if one of them failed.
    pub(crate) fn finish(self) -> Result<(), String> {
        println!("\n==> {}: summary", self.command);
        let mut failed = 0;
        for (name, took, ending) in &self.done {
            let said = match ending {
                Ending::Passed => "passed".to_owned(),
                Ending::PassedAgain(targets) => format!(
                    "passed, but FAILED AT FIRST (see above): {}",
                    targets.join(", ")
                ),
                Ending::Skipped(why) => format!("SKIPPED: {why}"),
                Ending::Failed(why) => {
                    failed += 1;
                    format!("FAILED: {why}")
                }
            };
            println!("{:8.1} s  {name}: {said}", took.as_secs_f64());
        }
        println!("{:8.1} s  in all", self.began.elapsed().as_secs_f64());
        match failed {
            0 => Ok(()),
            _ => Err(format!(
                "{}: {failed} of {} steps failed",
                self.command,
                self.done.len()
            )),
        }
    }
}

/// Whether this is continuous integration (`CI=true`), where a skipped check must not look like a
/// passed one.
pub(crate) fn nothing_may_be_skipped() -> bool {
    std::env::var("CI").is_ok_and(|value| value == "true" || value == "1")
}

/// An error unless the command could be started and ended with success.
fn ended_well(command: &Command, status: std::io::Result<ExitStatus>) -> Result<(), String> {
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(status.to_string()),
        Err(why) => Err(format!(
            "cannot start {}: {why}",
            command.get_program().display()
        )),
    }
}

/// Runs a `cargo test` command and passes its standard error on. Also returns the test programs
/// that failed, as cargo lists them in its last lines: `-p baton --test stdlib`, for example.
fn run_and_list_failed(command: &mut Command) -> (std::io::Result<ExitStatus>, Vec<String>) {
    let mut child = match command.stderr(Stdio::piped()).spawn() {
        Ok(child) => child,
        Err(why) => return (Err(why), Vec::new()),
    };
    let mut lines = Vec::new();
    if let Some(stderr) = child.stderr.take() {
        for line in BufReader::new(stderr).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line).into_owned();
            eprintln!("{line}");
            lines.push(line);
        }
    }
    (child.wait(), failed_targets(&lines))
}

/// The test programs in the list that follows cargo's line "error: 2 targets failed:".
fn failed_targets(lines: &[String]) -> Vec<String> {
    let is_heading = |line: &String| {
        line.starts_with("error: ")
            && (line.ends_with(" target failed:") || line.ends_with(" targets failed:"))
    };
    let list = lines.iter().skip_while(|line| !is_heading(line)).skip(1);
    list.map_while(|line| line.trim().strip_prefix('`')?.strip_suffix('`'))
        .map(str::to_owned)
        .collect()
}

/// A `cargo test` command for one test program of those that `command` runs, with the same profile,
/// environment and arguments for the test runner.
fn command_for_one(command: &Command, target: &str) -> Command {
    let mut again = Command::new(command.get_program());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => again.env(name, value),
            None => again.env_remove(name),
        };
    }
    if let Some(directory) = command.get_current_dir() {
        again.current_dir(directory);
    }
    let arguments: Vec<_> = command.get_args().collect();
    let end = arguments.iter().position(|word| *word == "--");
    let (ours, for_runners) = arguments.split_at(end.unwrap_or(arguments.len()));
    again.arg("test").args(target.split(' '));
    if ours.contains(&"--release".as_ref()) {
        again.arg("--release");
    }
    again.args(for_runners).stdin(Stdio::null());
    again
}

/// A command as a user would type it, with the environment variables that it sets.
fn shown(command: &Command) -> String {
    let mut words = Vec::new();
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            words.push(format!("{}={:?}", name.display(), value));
        }
    }
    let program = std::path::Path::new(command.get_program());
    words.push(
        program
            .file_name()
            .unwrap_or(command.get_program())
            .display()
            .to_string(),
    );
    words.extend(command.get_args().map(|word| word.display().to_string()));
    words.join(" ")
}

#[cfg(test)]
mod checks {
    use super::*;

    #[test]
    fn a_failed_step_does_not_stop_later_ones_but_fails_the_command() {
        let mut steps = Steps::of("trial");
        let mut later_ran = false;
        steps.check("first", || Err("as planned".to_owned()));
        steps.check("second", || {
            later_ran = true;
            Ok(())
        });
        assert!(later_ran);
        assert_eq!(steps.finish(), Err("trial: 1 of 2 steps failed".to_owned()));
    }

    #[test]
    fn lanes_run_side_by_side_and_each_step_counts() {
        let (sender, receiver) = std::sync::mpsc::channel();
        let first: Lane<'_> = Box::new(move |steps| {
            steps.check("waits", || receiver.recv().map_err(|why| why.to_string()));
            steps.run("exits", Command::new("sh").args(["-c", "exit 3"]));
        });
        let second: Lane<'_> = Box::new(move |steps| {
            steps.check("sends", || sender.send(()).map_err(|why| why.to_string()));
        });
        let mut steps = Steps::of("trial");
        steps.run_lanes(vec![first, second]);
        let names: Vec<_> = steps.done.iter().map(|step| step.0.as_str()).collect();
        assert_eq!(names, ["waits", "exits", "sends"]);
        assert_eq!(steps.finish(), Err("trial: 1 of 3 steps failed".to_owned()));
    }

    #[test]
    fn cargo_does_not_learn_from_which_package_it_was_started() {
        let command = cargo(&["build"]);
        let is_removed = |wanted: &str| {
            let mut variables = command.get_envs();
            variables.any(|(name, value)| name == wanted && value.is_none())
        };
        assert!(is_removed("CARGO_PKG_NAME") && is_removed("CARGO_MANIFEST_DIR"));
        assert!(!is_removed("PATH"));
    }

    #[test]
    fn flags_for_ours_are_given_by_a_program_whose_path_has_them() {
        let directory = std::env::temp_dir().join(format!("baton-xtask-{}", std::process::id()));
        let program = compiler_with("--cfg a --cfg b", &directory).expect("a program");
        let mut echo = Command::new(&program);
        let said = Ended::of(echo.args(["echo", "-x"])).expect("it starts");
        std::fs::remove_dir_all(&directory).expect("the program's directory");
        assert_eq!(program, directory.join("a+b"));
        assert_eq!(said.output, "-x --cfg a --cfg b\n");
    }

    #[test]
    fn a_test_program_that_failed_runs_again_as_before() {
        let said = [
            "error: test failed, to rerun pass `-p baton --test stdlib`",
            "error: 2 targets failed:",
            "    `-p baton --test stdlib`",
            "    `-p baton-core --lib`",
        ];
        let targets = failed_targets(&said.map(str::to_owned));
        assert_eq!(targets, ["-p baton --test stdlib", "-p baton-core --lib"]);
        let mut command = cargo(&["test", "--release", "-p", "baton", "-p", "baton-core"]);
        command.env("A", "b").args(["--", "name"]);
        let again = shown(&command_for_one(&command, &targets[0]));
        let expected = "A=\"b\" cargo test -p baton --test stdlib --release -- name";
        assert!(again.ends_with(expected), "{again}");
    }

    #[test]
    fn a_build_that_fails_has_no_failed_test_programs() {
        let said = ["error: could not compile `baton` (lib) due to 1 previous error"];
        assert!(failed_targets(&said.map(str::to_owned)).is_empty());
    }

    /// A shell in place of cargo: `sh test ...` reads the file `test` in its directory. It fails
    /// when it is called for all test programs, and ends with `second` for a single one.
    fn failing_at_first(directory: &std::path::Path, second: &str) -> Command {
        let script = format!(
            "case \"$*\" in *--test*) exit {second};; esac\n\
             printf 'error: 1 target failed:\\n    `-p baton --test stdlib`\\n' >&2\n\
             exit 1\n"
        );
        std::fs::create_dir_all(directory).expect("a directory");
        std::fs::write(directory.join("test"), script).expect("a script");
        let mut command = Command::new("/bin/sh");
        command
            .args(["test", "--workspace"])
            .current_dir(directory)
            .stdin(Stdio::null());
        command
    }

    #[test]
    fn a_test_that_fails_twice_fails_and_one_that_passes_again_is_named() {
        for (second, is_passed) in [("0", true), ("1", false)] {
            let name = format!("baton-xtask-again-{second}-{}", std::process::id());
            let directory = std::env::temp_dir().join(name);
            let mut steps = Steps::of("trial");
            steps.run_tests_again("tests", &mut failing_at_first(&directory, second));
            std::fs::remove_dir_all(&directory).expect("the script's directory");
            let is_named = matches!(&steps.done[0].2, Ending::PassedAgain(names)
                if names == &["-p baton --test stdlib"]);
            assert_eq!(is_named, is_passed);
            assert_eq!(steps.finish().is_ok(), is_passed);
        }
    }

    #[test]
    fn a_command_is_shown_as_typed_in_a_shell() {
        let mut command = Command::new("/usr/bin/env");
        command.arg("-i").env("LOOM_MAX_PREEMPTIONS", "2");
        assert_eq!(shown(&command), "LOOM_MAX_PREEMPTIONS=\"2\" env -i");
    }
}
