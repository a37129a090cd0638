//! Runs cargo and other programs as the steps of an xtask command. Each step is printed and timed,
//! and a summary follows at the end.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

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
    command
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
    Failed(String),
    Skipped(String),
}

/// The steps of one command that have run so far.
pub(crate) struct Steps {
    command: &'static str,
    done: Vec<(String, Duration, Ending)>,
}

impl Steps {
    /// An empty list of steps for the command with this name.
    pub(crate) fn of(command: &'static str) -> Self {
        Self {
            command,
            done: Vec::new(),
        }
    }

    /// Runs a program to its end and shows its output. After a failure, later steps still run, so
    /// that one run shows all problems.
    pub(crate) fn run(&mut self, name: &str, command: &mut Command) {
        self.check(name, || {
            println!("    {}", shown(command));
            match command.status() {
                Ok(status) if status.success() => Ok(()),
                Ok(status) => Err(status.to_string()),
                Err(why) => Err(format!(
                    "cannot start {}: {why}",
                    command.get_program().display()
                )),
            }
        });
    }

    /// Runs a check that is a function of this program.
    pub(crate) fn check(&mut self, name: &str, check: impl FnOnce() -> Result<(), String>) {
        println!("\n==> {} {name}", self.command);
        let started = Instant::now();
        let ending = match check() {
            Ok(()) => Ending::Passed,
            Err(why) => {
                println!("    FAILED: {why}");
                Ending::Failed(why)
            }
        };
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
        let mut total = Duration::ZERO;
        for (name, took, ending) in &self.done {
            total += *took;
            let said = match ending {
                Ending::Passed => "passed".to_owned(),
                Ending::Skipped(why) => format!("SKIPPED: {why}"),
                Ending::Failed(why) => {
                    failed += 1;
                    format!("FAILED: {why}")
                }
            };
            println!("{:8.1} s  {name}: {said}", took.as_secs_f64());
        }
        println!("{:8.1} s  in all", total.as_secs_f64());
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
    fn a_command_is_shown_as_one_would_type_it() {
        let mut command = Command::new("/usr/bin/env");
        command.arg("-i").env("LOOM_MAX_PREEMPTIONS", "2");
        assert_eq!(shown(&command), "LOOM_MAX_PREEMPTIONS=\"2\" env -i");
    }
}
