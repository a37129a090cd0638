//! The two programs, and how tests run them.

use std::io::{self, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;
use std::{env, thread};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

#[path = "../harness/program.rs"]
#[allow(dead_code)] // each test binary uses its own part
mod program;
#[path = "../harness/signals.rs"]
#[allow(dead_code)] // each test binary uses its own part
pub(crate) mod signals;

/// The time limit of a program; one that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(180);

/// An environment variable: where an emulator looks for what the program opens.
const EMULATORS_ROOT: &str = "QEMU_LD_PREFIX";

/// The program under test.
pub(crate) fn baton() -> &'static Path {
    program::path()
}

/// The program to compare with. If it is missing, the test reports that and compares nothing; in CI
/// it fails.
pub(crate) fn reference() -> Option<PathBuf> {
    // Under an emulator, one for the same architecture: some results are the processor's.
    let emulated = env::var_os(EMULATORS_ROOT).map(|root| PathBuf::from(root).join("usr/bin"));
    let path = env::var_os("PATH")?;
    let found = emulated
        .into_iter()
        .chain(env::split_paths(&path))
        .map(|directory| directory.join("lua5.4"))
        .find(|program| program.is_file());
    if found.is_none() {
        baton_harness::skip::skip("likeness to stock lua", "install lua5.4");
    }
    found
}

/// Clears the environment except for what a test sets, and starts in the directory of test files.
pub(crate) fn clean(command: &mut Command) -> &mut Command {
    command
        .env_clear()
        .env("PATH", env::var_os("PATH").unwrap_or_default())
        .envs(env::vars_os().filter(|(name, _)| name == EMULATORS_ROOT))
        .env("LC_ALL", "C")
        .env("TERM", "dumb")
        .env("INPUTRC", "/dev/null")
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcript/files"))
}

/// Starts a program with its three streams piped, as the leader of a process group.
pub(crate) fn spawn(command: &mut Command) -> Child {
    signals::give_children_default_actions();
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .expect("the program starts")
}

/// Passes the input to the program and waits for its end. If it hangs, kills it and all programs
/// that it has started.
pub(crate) fn finish(mut child: Child, input: &[u8]) -> Output {
    let stdin = child.stdin.take();
    let id = child.id();
    let (ended, watch) = mpsc::channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            // A program may end without reading its input.
            match stdin.map(|mut stdin| stdin.write_all(input)) {
                Some(Err(error)) if error.kind() != io::ErrorKind::BrokenPipe => panic!("{error}"),
                _ => {}
            }
        });
        scope.spawn(move || {
            if watch.recv_timeout(LIMIT) == Err(mpsc::RecvTimeoutError::Timeout) {
                eprintln!("the program {id} hangs: it is ended");
                let group = Pid::from_raw(i32::try_from(id).expect("a process number"));
                killpg(group, Signal::SIGKILL).expect("the group can be ended");
            }
        });
        let output = child.wait_with_output().expect("the program's output");
        drop(ended);
        output
    })
}

pub(crate) fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("status {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => format!("{status}"),
    }
}
