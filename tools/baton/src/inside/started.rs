//! A script that a command starts, to look into it.

use super::attach_to;
use baton_observe::client::{AttachError, Connection};
use std::ffi::OsString;
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

/// How long a program may take until it can be looked into.
const PATIENCE: Duration = Duration::from_secs(5);

/// The time between two attempts.
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(2);

/// A running program: one that ran already, or a script that was started.
pub(super) struct Target {
    pub(super) connection: Connection,
    /// What it is called in headings.
    pub(super) name: String,
    script: Option<Child>,
}

impl Target {
    /// Attaches to a process id. Anything else is a script, which is started with its arguments.
    pub(super) fn reach(words: &[OsString]) -> Result<Target, String> {
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
            let connection = attach_in_time(pid)?;
            let name = format!("process {pid}");
            return Ok(Target {
                connection,
                name,
                script: None,
            });
        }
        let this_program = std::env::current_exe()
            .map_err(|error| format!("cannot find this program's file: {error}"))?;
        let mut script = Command::new(this_program)
            .arg("--")
            .args(words)
            .spawn()
            .map_err(|error| format!("cannot start the script: {error}"))?;
        let connection = attach_to_new(&mut script).inspect_err(|_| {
            // It would run on unseen. It may have ended by itself.
            let _ = script.kill();
            let _ = script.wait();
        })?;
        Ok(Target {
            connection,
            name: first.to_string_lossy().into_owned(),
            script: Some(script),
        })
    }

    /// Waits for the end of a script that was started.
    pub(super) fn finish(self) -> Result<(), String> {
        let Some(mut script) = self.script else {
            return Ok(());
        };
        match script.wait() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("the script has {}", describe(status))),
            Err(error) => Err(format!("cannot wait for the script: {error}")),
        }
    }
}

fn describe(status: ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("ended with the status {code}"),
        None => format!("ended: {status}"),
    }
}

/// Attaches to a program. One that is held by a call in C may get out of it soon.
fn attach_in_time(pid: u32) -> Result<Connection, String> {
    let until = Instant::now() + PATIENCE;
    loop {
        match attach_to(pid, false) {
            Ok(connection) => return Ok(connection),
            Err(AttachError::Held(_)) if Instant::now() < until => {}
            Err(error) => return Err(error.to_string()),
        }
    }
}

/// Attaches to a script that has just been started, as soon as it can be looked into.
fn attach_to_new(script: &mut Child) -> Result<Connection, String> {
    let until = Instant::now() + PATIENCE;
    loop {
        let error = match attach_to(script.id(), false) {
            Ok(connection) => return Ok(connection),
            Err(error) => error,
        };
        if let Ok(Some(status)) = script.try_wait() {
            return Err(format!(
                "the script has {} before it could be looked into",
                describe(status)
            ));
        }
        // It may have only just begun. A refusal is final.
        let is_new =
            matches!(&error, AttachError::Refused(why) if why.contains("only just started"));
        let may_come = matches!(error, AttachError::Held(_)) || (is_new && Instant::now() < until);
        if !may_come {
            return Err(error.to_string());
        }
        thread::sleep(BETWEEN_ATTEMPTS);
    }
}
