//! Cargo, and other programs, as steps of a command: each is shown, timed, and summed up at the end.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::workspace;

/// The cargo that runs us, started in the workspace's root and with nothing on its standard input.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(program);
    command
        .args(arguments)
        .current_dir(workspace::root())
        .stdin(Stdio::null());
    command
}

/// A cargo whose compiler flags differ, with build output of its own.
pub(crate) fn cargo_with_flags(arguments: &[&str], flags: &str, target: &str) -> Command {
    let mut command = cargo(arguments);
    let directory: PathBuf = workspace::target_directory(target);
    command
        .env("RUSTFLAGS", joined_flags(flags))
        .env("CARGO_TARGET_DIR", directory);
    command
}

/// The user's own compiler flags and ours: setting the variable alone would drop the former.
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

/// The steps of one command so far.
pub(crate) struct Steps {
    command: &'static str,
    done: Vec<(String, Duration, Ending)>,
}

impl Steps {
    /// No steps yet, of the command with this name.
    pub(crate) fn of(command: &'static str) -> Self {
        Self {
            command,
            done: Vec::new(),
        }
    }

    /// Runs a program to its end, with its output going where ours goes. A failure does not keep later steps from
    /// running: one run shows all there is to mend.
    pub(crate) fn run(&mut self, name: &str, command: &mut Command) {
        self.check(name, || {
            println!("    {}", shown(command));
            match command.status() {
                Ok(status) if status.success() => Ok(()),
                Ok(status) => Err(status.to_string()),
                Err(why) => Err(format!("cannot start {}: {why}", command.get_program().display())),
            }
        });
    }

    /// Runs a check of our own.
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

    /// Records that a step could not be run here, and why. Where nothing may be skipped this is a failure.
    pub(crate) fn skip(&mut self, name: &str, why: &str) {
        let ending = if nothing_may_be_skipped() {
            Ending::Failed(format!("{why} (and with CI=true nothing may be skipped)"))
        } else {
            Ending::Skipped(why.to_owned())
        };
        self.done.push((name.to_owned(), Duration::ZERO, ending));
    }

    /// Prints how long each step took and how it ended; an error if one failed.
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

/// Whether we run under continuous integration, where a skipped check would pass for a good one.
pub(crate) fn nothing_may_be_skipped() -> bool {
    std::env::var("CI").is_ok_and(|value| value == "true" || value == "1")
}

/// A command as a user would type it, with the environment that differs from the user's own.
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
