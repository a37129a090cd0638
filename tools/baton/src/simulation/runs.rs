//! One run of the program in a child.

use super::children::{self, Killed};
use super::ended::{Ending, Run};
use super::{Call, ROLE, THIS_PROGRAM};
use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

impl Call {
    /// Runs the program in a child with a role. Its input is empty.
    pub(super) fn run(&self, seed: u64, role: &str, limit: Option<Duration>) -> io::Result<Run> {
        let begin = Instant::now();
        let mut command = self.command(seed);
        command
            .env(ROLE, role)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        let mut child = command.spawn()?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let mut run = Run {
            ending: Ending::NotNeeded,
            stdout: Vec::new(),
            stderr: Vec::new(),
            took: Duration::ZERO,
        };
        let killed = thread::scope(|scope| {
            scope.spawn(|| read(stdout, &mut run.stdout));
            scope.spawn(|| read(stderr, &mut run.stderr));
            children::await_end(&child, seed, limit.map(|limit| begin + limit))
        });
        let status = child.wait()?;
        run.took = begin.elapsed();
        run.ending = match (killed, status.signal()) {
            (Some(Killed::AtItsLimit), _) => Ending::TookTooLong,
            (Some(Killed::NotNeeded), _) => Ending::NotNeeded,
            (None, Some(signal)) => Ending::Signalled(signal),
            (None, None) => Ending::Exited(status.code().unwrap_or(1)),
        };
        Ok(run)
    }

    /// The same command line with one seed.
    fn command(&self, seed: u64) -> Command {
        let mut command = Command::new(OsStr::from_bytes(THIS_PROGRAM.to_bytes()));
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        if let Some(name) = self.arguments.first() {
            command.arg0(name);
        }
        for (index, argument) in self.arguments.iter().enumerate().skip(1) {
            // A single seed stays as it is, with its decisions.
            if index == self.seeds_at && self.first < self.last {
                command.arg(seed.to_string());
            } else {
                command.arg(argument);
            }
        }
        command
    }
}

/// Reads a stream to its end. An error ends it, too.
fn read(stream: Option<impl Read>, into: &mut Vec<u8>) {
    if let Some(mut stream) = stream {
        let _ = stream.read_to_end(into);
    }
}
