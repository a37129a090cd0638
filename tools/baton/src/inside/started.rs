//! What a command looks into: a running program, or a script that it starts.

use super::attach_to;
use baton_observe::client::{AttachError, Connection};
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use std::ffi::OsString;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How long a program may take until it can be looked into.
const PATIENCE: Duration = Duration::from_secs(5);

/// The time between two attempts.
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(2);

/// How a script is started.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Start {
    /// With the input and output of this command.
    #[default]
    Shown,
    /// Without input, and its output is not shown.
    Hidden,
    /// As `Shown`, but it waits at its start until the first question is being answered.
    Waiting,
}

/// A pair of sockets: ours, and the one that a command inherits, with its number in a variable. The
/// latter is to be closed once the command has started.
pub(super) fn connection_for(
    command: &mut Command,
    variable: &str,
) -> Result<(UnixStream, UnixStream), String> {
    let (ours, theirs) =
        UnixStream::pair().map_err(|error| format!("cannot make a connection: {error}"))?;
    fcntl(&theirs, FcntlArg::F_SETFD(FdFlag::empty()))
        .map_err(|error| format!("cannot pass a connection on: {error}"))?;
    command.env(variable, theirs.as_raw_fd().to_string());
    Ok((ours, theirs))
}

/// A program. If it is a script that was started and has not been waited for, dropping this ends
/// it: it would run on unseen.
pub(super) struct Target {
    pub(super) pid: u32,
    /// What it is called in headings.
    pub(super) name: String,
    script: Option<Child>,
    /// The connection with a script that waits.
    waits: Option<UnixStream>,
}

impl Target {
    /// A running program, by its process id. Anything else is a script, which is started with its
    /// arguments.
    pub(super) fn of(words: &[OsString], start: Start) -> Result<Target, String> {
        let (first, rest) = words
            .split_first()
            .ok_or("a process id or a script expected")?;
        if let Some(pid) = first.to_str().and_then(|text| text.parse().ok()) {
            if let Some(more) = rest.first() {
                return Err(format!(
                    "nothing expected after the process id {pid}, got '{}'",
                    more.to_string_lossy()
                ));
            }
            let name = format!("process {pid}");
            return Ok(Target {
                pid,
                name,
                script: None,
                waits: None,
            });
        }
        let this_program = std::env::current_exe()
            .map_err(|error| format!("cannot find this program's file: {error}"))?;
        let mut command = Command::new(this_program);
        command.arg("--").args(words);
        if start == Start::Hidden {
            command
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null());
        }
        let (waits, theirs) = match start {
            Start::Waiting => {
                let (ours, theirs) = connection_for(&mut command, "BATON_OBSERVER")?;
                (Some(ours), Some(theirs))
            }
            Start::Shown | Start::Hidden => (None, None),
        };
        let script = command
            .spawn()
            .map_err(|error| format!("cannot start the script: {error}"))?;
        drop(theirs);
        Ok(Target {
            pid: script.id(),
            name: first.to_string_lossy().into_owned(),
            script: Some(script),
            waits,
        })
    }

    /// Whether it is a script that was started.
    pub(super) fn is_script(&self) -> bool {
        self.script.is_some()
    }

    /// Attaches to a program as it is at the moment, and to a script as soon as that is possible.
    pub(super) fn attach(&mut self, write: bool) -> Result<Connection, AttachError> {
        match self.script {
            Some(_) => self.attach_to_script(write),
            None => attach_to(self.pid, write),
        }
    }

    /// Attaches to a program that may be in a short call in C at the moment; or to a script, as
    /// long as it runs.
    pub(super) fn attach_in_time(&mut self, write: bool) -> Result<Connection, String> {
        let until = Instant::now() + PATIENCE;
        loop {
            match self.attach(write) {
                Ok(connection) => return Ok(connection),
                Err(AttachError::Held(_)) if self.script.is_some() || Instant::now() < until => {}
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    fn attach_to_script(&mut self, write: bool) -> Result<Connection, AttachError> {
        if let Some(stream) = self.waits.take() {
            return Connection::to_child(stream).or_else(|error| {
                self.check_ends().map_err(AttachError::Refused)?;
                Err(error)
            });
        }
        let until = Instant::now() + PATIENCE;
        loop {
            let error = match attach_to(self.pid, write) {
                Ok(connection) => return Ok(connection),
                Err(error) => error,
            };
            self.check_runs().map_err(AttachError::Refused)?;
            let may_come = matches!(error, AttachError::NotReady(_)) && Instant::now() < until;
            if !may_come {
                return Err(error);
            }
            thread::sleep(BETWEEN_ATTEMPTS);
        }
    }

    /// Lets a script run for some time. A running program has run already.
    pub(super) fn let_run(&mut self, time: Duration) -> Result<(), String> {
        const STEP: Duration = Duration::from_millis(10);
        let until = Instant::now() + time;
        while self.script.is_some() && Instant::now() < until {
            self.check_runs()?;
            thread::sleep(STEP.min(until.saturating_duration_since(Instant::now())));
        }
        Ok(())
    }

    /// Whether a script still runs.
    fn check_runs(&mut self) -> Result<(), String> {
        if let Some(script) = &mut self.script
            && let Ok(Some(status)) = script.try_wait()
        {
            return Err(format!(
                "the script has {} before it could be looked into",
                describe(status)
            ));
        }
        Ok(())
    }

    /// Whether a script that has closed its connection goes on.
    fn check_ends(&mut self) -> Result<(), String> {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            self.check_runs()?;
            thread::sleep(BETWEEN_ATTEMPTS);
        }
        Ok(())
    }

    /// Waits for the end of a script that was started.
    pub(super) fn finish(mut self) -> Result<(), String> {
        let Some(mut script) = self.script.take() else {
            return Ok(());
        };
        match script.wait() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("the script has {}", describe(status))),
            Err(error) => Err(format!("cannot wait for the script: {error}")),
        }
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        if let Some(script) = &mut self.script {
            // It may have ended by itself.
            let _ = script.kill();
            let _ = script.wait();
        }
    }
}

fn describe(status: ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("ended with the status {code}"),
        None => format!("ended: {status}"),
    }
}
