//! Runs our own PostgreSQL server, on a Unix socket in a temporary directory. It runs as a user
//! other than root, and ends with the experiment.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::Receiver;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::child::{self, Owned};

const LIMIT_TO_MAKE: Duration = Duration::from_secs(60);
const LIMIT_TO_END: Duration = Duration::from_secs(5);
const REMEDY: &str = "apt-get install postgresql";

/// Debian's `nobody`: the server's user if this program runs as root.
const NOBODY: u32 = 65534;

/// The running server. Its user `baton` may do everything.
pub(super) struct Postgres {
    program: Owned,
    directory: TempDir,
}

impl Postgres {
    /// Makes an empty database and starts the server.
    pub(super) fn start() -> Result<Self> {
        let programs = programs().context(REMEDY)?;
        // The path is short, because that of a Unix socket has a limit.
        let directory = tempfile::Builder::new().prefix("bench-pg-").tempdir()?;
        fs::set_permissions(directory.path(), Permissions::from_mode(0o755))?;
        if is_root() {
            chown(directory.path(), Some(NOBODY), Some(NOBODY))?;
        }
        let data = directory.path().join("data");
        let mut make = by_nobody(&programs.join("initdb"), directory.path());
        make.args("-A trust -U baton -E UTF8 --no-sync -D".split(' '))
            .arg(&data);
        child::run(&mut make, LIMIT_TO_MAKE)?.succeeded("initdb")?;
        let mut serve = by_nobody(&programs.join("postgres"), directory.path());
        serve
            .arg("-D")
            .arg(&data)
            .arg("-k")
            .arg(directory.path())
            .args(["-c", "listen_addresses=", "-c", "fsync=off"])
            // With this setting, the queries of a killed program end.
            .args(["-c", "client_connection_check_interval=100ms"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut program = Owned::spawn(&mut serve)?;
        let errors = program
            .inner
            .stderr
            .take()
            .context("it has no standard error")?;
        let server = Self { program, directory };
        wait_until_ready(&child::lines(errors))?;
        Ok(server)
    }

    /// The directory of the server's socket.
    pub(super) fn directory(&self) -> &Path {
        self.directory.path()
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // On SIGQUIT, the server ends its children at once. If it ignores the signal, it is killed.
        // Nothing more can be done about a failure.
        let pid = Pid::from_raw(self.program.inner.id().cast_signed());
        let _ = kill(pid, Signal::SIGQUIT);
        let _ = self.program.wait_at_most(LIMIT_TO_END);
    }
}

/// Reads the server's output until the server is ready.
fn wait_until_ready(lines: &Receiver<String>) -> Result<()> {
    let mut said = String::new();
    for line in lines {
        if line.contains("database system is ready to accept connections") {
            return Ok(());
        }
        said = said + &line + "\n";
    }
    bail!("PostgreSQL ended before it was ready:\n{said}")
}

fn programs() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?;
    versions
        .filter_map(|version| Some(version.ok()?.path().join("bin")))
        .find(|programs| programs.join("initdb").exists() && programs.join("postgres").exists())
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|metadata| metadata.uid() == 0)
}

/// A command that runs as `nobody` if we are root, since the server refuses to run as root.
fn by_nobody(program: &Path, directory: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .current_dir(directory)
        .env("HOME", directory)
        .env("TMPDIR", directory)
        .env("LC_ALL", "C");
    if is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}
