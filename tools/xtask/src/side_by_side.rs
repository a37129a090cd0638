//! Runs test programs, several at the same time, and keeps what they print.

use std::io::{self, Read};
use std::process::{Command, ExitStatus};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A command that has ended.
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    /// What it and its children have printed, on both streams.
    pub(crate) output: String,
    pub(crate) took: Duration,
}

impl Ended {
    /// Runs a command to its end.
    pub(crate) fn of(command: &mut Command) -> io::Result<Ended> {
        let began = Instant::now();
        let (mut output, for_stdout) = io::pipe()?;
        let for_stderr = for_stdout.try_clone()?;
        let mut child = command.stdout(for_stdout).stderr(for_stderr).spawn()?;
        // The command still has the pipe's ends, which keep it open.
        command
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null());
        let mut bytes = Vec::new();
        output.read_to_end(&mut bytes)?;
        Ok(Ended {
            status: child.wait()?,
            output: String::from_utf8_lossy(&bytes).into_owned(),
            took: began.elapsed(),
        })
    }
}

/// Runs the named commands in this order, `at_once` at the same time. Prints the output of each
/// when it has ended. Returns the results in the order of the commands.
pub(crate) fn run_all(
    commands: Vec<(String, Command)>,
    at_once: usize,
) -> Result<Vec<Ended>, String> {
    let results: Vec<Mutex<Option<Ended>>> = commands.iter().map(|_| Mutex::new(None)).collect();
    let waiting = Mutex::new(commands.into_iter().zip(&results));
    let worker = || -> Result<(), String> {
        loop {
            let Some(((name, mut command), place)) = lock(&waiting).next() else {
                return Ok(());
            };
            let ended = Ended::of(&mut command)
                .map_err(|why| format!("cannot run the tests of {name}: {why}"))?;
            let seconds = ended.took.as_secs_f64();
            println!("     Ran {name} in {seconds:.1} s\n{}", ended.output);
            *lock(place) = Some(ended);
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..at_once).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().try_for_each(|worker| {
            let ended = worker.join();
            ended.unwrap_or_else(|_| Err("one of this program's threads panicked".to_owned()))
        })
    })?;
    Ok(results
        .into_iter()
        .filter_map(|result| result.into_inner().unwrap_or_else(PoisonError::into_inner))
        .collect())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod checks {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn both_streams_of_a_command_are_read_to_their_end() {
        let ended = Ended::of(&mut shell("echo one; echo two >&2; exit 3")).expect("it starts");
        assert_eq!(ended.output, "one\ntwo\n");
        assert_eq!(ended.status.code(), Some(3));
    }

    #[test]
    fn results_are_in_the_order_of_the_commands() {
        // The first ends only after the second has begun: they run at the same time.
        let directory = std::env::temp_dir().join(format!("baton-xtask-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory for the trial");
        let fifo = directory.join("fifo").display().to_string();
        let commands = vec![
            (
                "first".to_owned(),
                shell(&format!("mkfifo {fifo}; cat {fifo}")),
            ),
            (
                "second".to_owned(),
                shell(&format!(
                    "until test -p {fifo}; do :; done; echo 1 >{fifo}; echo 2"
                )),
            ),
        ];
        let ended = run_all(commands, 2).expect("both start");
        let outputs: Vec<_> = ended.iter().map(|ended| ended.output.as_str()).collect();
        assert_eq!(outputs, ["1\n", "2\n"]);
        std::fs::remove_dir_all(directory).expect("the trial's directory");
    }

    #[test]
    fn a_command_that_does_not_start_is_an_error() {
        let commands = vec![("none".to_owned(), Command::new("/nonexistent/program"))];
        assert!(run_all(commands, 2).is_err_and(|why| why.contains("tests of none")));
    }
}
