//! The repository's own commands, run as `cargo xtask <command>`.
//!
//! Each command is one module: [`testing`] sets up what the tests need and runs them, [`ci`] is what continuous
//! integration checks besides, [`tidy`] holds the sources to the rules that no compiler knows, [`generate`] writes the
//! manual page and the completions, [`deb`] makes a Debian package, [`peers`] installs what
//! the benches compare with, [`stress`] repeats the concurrent tests until one fails or all have passed, [`soak`] puts the
//! interpreter under a load for long, [`races`] has ThreadSanitizer watch the runtime's tests, and [`mutants`] puts faults into the scheduler for the tests
//! to find.

#![forbid(unsafe_code)]

mod cargo;
mod ci;
mod deb;
mod generate;
mod mutants;
mod packages;
mod peers;
mod races;
mod soak;
mod stress;
mod testing;
mod tidy;
mod workspace;

use std::process::ExitCode;

/// What a command ends with when it could not do its work: one message for the user, complete with the remedy.
type Outcome = Result<(), String>;

const USAGE: &str = "\
usage: cargo xtask <command>

  test [-- ARGS]                      set up what the tests need and run all of them; ARGS go to the test runners
  ci                                  fmt, clippy, tidy, doc, loom, cargo-deny and typos
  tidy                                rules on the sources that no compiler checks
  generate                            the manual page and the shells' completions, from the text of baton --help
  deb [--try]                         a Debian package of the interpreter; --try installs it in a clean system
  mutants [--only TEXT]               deliberate faults in the scheduler: a test must notice each
  peers                               install what the benches compare with
  stress [--runs N] [--pinned|--load] [--release] [--at-once N] [--keep-going] [--only NAMES]
                                      repeat the concurrent tests N times (200), pinned to one CPU and under load
  races                               the runtime's tests under ThreadSanitizer
  soak foreign [--seconds N] [--seed N] [--release]
                                      random foreign calls for N seconds (600): nothing may be lost
  soak net [--seconds N]              sockets that go wrong in every way, for N seconds (600): nothing may be left behind
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(arguments: &[String]) -> Outcome {
    let Some((command, rest)) = arguments.split_first() else {
        return Err(format!("no command given\n\n{USAGE}"));
    };
    match command.as_str() {
        "test" => testing::run(rest),
        "ci" => without_arguments(command, rest).and_then(|()| ci::run()),
        "deb" => deb::run(rest),
        "generate" => without_arguments(command, rest).and_then(|()| generate::run()),
        "tidy" => without_arguments(command, rest).and_then(|()| tidy::run()),
        "mutants" => mutants::run(rest),
        "peers" => without_arguments(command, rest).and_then(|()| peers::run()),
        "races" => without_arguments(command, rest).and_then(|()| races::run()),
        "soak" => soak::run(rest),
        "stress" => stress::run(rest),
        stress::LOAD_COMMAND => stress::burn_until_stdin_ends(),
        "help" | "--help" | "-h" => {
            print!("{USAGE}");
            Ok(())
        }
        unknown => Err(format!("unknown command '{unknown}'\n\n{USAGE}")),
    }
}

fn without_arguments(command: &str, rest: &[String]) -> Outcome {
    match rest.first() {
        None => Ok(()),
        Some(extra) => Err(format!("'{command}' takes no arguments, but got '{extra}'")),
    }
}
