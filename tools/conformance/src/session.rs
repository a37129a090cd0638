//! A running guest: its lines, its standard input, its end.

use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// What a guest prints if it cannot play a scenario.
const UNSUPPORTED: &str = "unsupported";

/// The environment variable of a guest whose run is simulated.
const SEED: &str = "SEED";

/// The environment variable by which a guest multiplies the lengths of its sleeps.
const STRETCH: &str = "STRETCH";

/// How often the end of a guest is looked for.
const LOOK: Duration = Duration::from_millis(5);

/// Why a scenario has not passed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The guest says that it cannot play it.
    LeftOut,
    Wrong(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::LeftOut => write!(formatter, "it is not optional, but was left out"),
            Failure::Wrong(why) => formatter.write_str(why),
        }
    }
}

/// An [`Err`] that says why.
pub(crate) fn wrong<T>(why: impl Into<String>) -> Result<T, Failure> {
    Err(Failure::Wrong(why.into()))
}

/// A guest that plays one scenario. It is ended when this is dropped.
pub(crate) struct Session {
    command: Vec<String>,
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    errors: Option<JoinHandle<String>>,
    begin: Instant,
    limit: Duration,
    stretch: u32,
}

impl Session {
    /// Starts a program with its arguments, and with a seed, if it is to be simulated. Its sleeps
    /// are `stretch` times as long as the task says.
    pub(crate) fn start(
        command: &[String],
        limit: Duration,
        stretch: u32,
        seed: Option<u64>,
    ) -> Result<Session, String> {
        let (program, arguments) = command.split_first().ok_or("no program is given")?;
        let mut start = Command::new(program);
        start
            .args(arguments)
            .env_remove(SEED)
            .env(STRETCH, stretch.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(seed) = seed {
            start.env(SEED, seed.to_string());
        }
        // Before the program can measure any time itself.
        let begin = Instant::now();
        let started = start.spawn();
        let mut child = started.map_err(|why| format!("cannot start {program}: {why}"))?;
        let (output, errors) = (child.stdout.take(), child.stderr.take());
        Ok(Session {
            command: command.to_vec(),
            input: child.stdin.take(),
            lines: lines_of(output),
            errors: errors.map(|errors| thread::spawn(move || text_of(errors))),
            child,
            begin,
            limit,
            stretch,
        })
    }

    /// Starts the same guest once more, after its end.
    pub(crate) fn start_again(&mut self, seed: u64) -> Result<(), Failure> {
        match Session::start(&self.command, self.limit, self.stretch, Some(seed)) {
            Ok(next) => *self = next,
            Err(why) => return wrong(why),
        }
        Ok(())
    }

    /// How many times longer its sleeps are than the task says.
    pub(crate) fn stretch(&self) -> u32 {
        self.stretch
    }

    /// The number of the guest's process.
    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    /// How long the guest has been running.
    pub(crate) fn age(&self) -> Duration {
        self.begin.elapsed()
    }

    /// Waits for the next line.
    pub(crate) fn line(&mut self) -> Result<String, Failure> {
        match self.next()? {
            Some(line) => Ok(line),
            None => {
                let status = self.status()?;
                wrong(format!("expected another line, but it ended: {status}"))
            }
        }
    }

    /// Waits for the next line; `None` at the end of the output.
    fn next(&mut self) -> Result<Option<String>, Failure> {
        let left = self.limit.saturating_sub(self.age());
        match self.lines.recv_timeout(left) {
            Ok(line) if line == UNSUPPORTED => Err(Failure::LeftOut),
            Ok(line) => Ok(Some(line)),
            Err(RecvTimeoutError::Disconnected) => Ok(None),
            Err(RecvTimeoutError::Timeout) => wrong(self.too_late("printed no further line")),
        }
    }

    fn too_late(&self, what: &str) -> String {
        format!("it has {what} for {} s; it was ended", self.limit.as_secs())
    }

    /// Waits for these lines.
    pub(crate) fn expect(&mut self, lines: &[&str]) -> Result<(), Failure> {
        for expected in lines {
            let line = self.line()?;
            if line != *expected {
                return wrong(format!("expected the line '{expected}', got '{line}'"));
            }
        }
        Ok(())
    }

    /// Writes to the guest's standard input.
    pub(crate) fn send(&mut self, text: &str) -> Result<(), Failure> {
        let input = self.input.as_mut();
        let sent = input.is_some_and(|input| {
            input
                .write_all(text.as_bytes())
                .and_then(|()| input.flush())
                .is_ok()
        });
        match sent {
            true => Ok(()),
            false => wrong("it has closed its standard input"),
        }
    }

    /// Waits for the end of the output, which has no further line, and for the status.
    pub(crate) fn status(&mut self) -> Result<ExitStatus, Failure> {
        if let Some(line) = self.next()? {
            return wrong(format!("expected no further line, got '{line}'"));
        }
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Ok(status),
                Ok(None) if self.age() < self.limit => thread::sleep(LOOK),
                Ok(None) => return wrong(self.too_late("not ended after its last line")),
                Err(why) => return wrong(format!("its status cannot be had: {why}")),
            }
        }
    }

    /// Waits for the end, with the status 0.
    pub(crate) fn ends_well(&mut self) -> Result<(), Failure> {
        let status = self.status()?;
        match status.success() {
            true => Ok(()),
            false => wrong(format!("expected the exit status 0, got {status}")),
        }
    }

    /// Ends the guest, and returns what it wrote to standard error.
    pub(crate) fn errors(&mut self) -> String {
        self.end();
        let text = self.errors.take().map(JoinHandle::join);
        text.and_then(Result::ok).unwrap_or_default()
    }

    fn end(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.end();
    }
}

/// Reads lines on a thread of its own, so that one can be waited for with a limit.
fn lines_of(output: Option<ChildStdout>) -> Receiver<String> {
    let (send, lines) = channel();
    if let Some(output) = output {
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    return;
                }
            }
        });
    }
    lines
}

fn text_of(mut errors: ChildStderr) -> String {
    let mut bytes = Vec::new();
    // What was read before a failure is of use, too.
    let _ = errors.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}
