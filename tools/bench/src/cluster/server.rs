//! Runs a NATS server of our own, with a directory of its own. It ends with this value.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;

use crate::child::{self, Owned};

/// The time limit for the server to say that it is ready.
const START_LIMIT: Duration = Duration::from_secs(20);

/// A running server.
pub(super) struct NatsServer {
    _program: Owned,
    _directory: TempDir,
    port: u16,
}

impl NatsServer {
    /// Starts the program with JetStream. With `is_synced`, it writes what it stores to the disk
    /// before it acknowledges it.
    pub(super) fn start(program: &Path, is_synced: bool) -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("bench-nats-").tempdir()?;
        let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        let configuration = directory.path().join("nats.conf");
        let synced = if is_synced { "always" } else { "2m" };
        fs::write(
            &configuration,
            format!(
                "listen: \"127.0.0.1:{port}\"\njetstream {{ store_dir: \"{}\", sync_interval: \
                 {synced} }}\n",
                directory.path().display()
            ),
        )?;
        let mut command = Command::new(program);
        command
            .arg("-c")
            .arg(&configuration)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut program = Owned::spawn(&mut command)?;
        await_ready(&mut program)?;
        Ok(Self {
            _program: program,
            _directory: directory,
            port,
        })
    }

    pub(super) fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }
}

fn await_ready(program: &mut Owned) -> Result<()> {
    let log = program.inner.stderr.take().context("it has a log")?;
    let lines = child::lines(log);
    let (limit, mut said) = (Instant::now() + START_LIMIT, Vec::new());
    loop {
        match lines.recv_timeout(limit.saturating_duration_since(Instant::now())) {
            Ok(line) if line.contains("Server is ready") => return Ok(()),
            Ok(line) => said.push(line),
            Err(RecvTimeoutError::Disconnected) => {
                bail!("the NATS server did not start:\n{}", said.join("\n"))
            }
            Err(RecvTimeoutError::Timeout) => ensure!(
                Instant::now() < limit,
                "the NATS server is not ready after {START_LIMIT:?}:\n{}",
                said.join("\n")
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_no_server_is_an_error_that_quotes_it() {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("server");
        fs::write(&program, "#!/bin/sh\necho no room >&2\n").unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&program, mode).unwrap();
        let error = NatsServer::start(&program, false)
            .err()
            .expect("it does not start");
        assert!(error.to_string().ends_with("no room"), "{error:#}");
    }
}
