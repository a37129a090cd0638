//! Handles tests that cannot run because something is missing.

use std::fs::OpenOptions;
use std::io::Write;
use std::process::{Command, Stdio};

/// Set by `cargo xtask test`: a file whose lines it prints at the end.
const LIST: &str = "BATON_SKIPPED_LIST";

/// Reports on the terminal, past the test runner's capture, that `what` was not tested. In CI,
/// skipping is an error.
pub fn skip(what: &str, remedy: &str) {
    assert!(
        std::env::var_os("CI").is_none(),
        "{what} could not be tested: {remedy}"
    );
    // Nothing better can be done if stderr is closed.
    let _ = writeln!(
        std::io::stderr(),
        "SKIPPED: {what} was not tested: {remedy}"
    );
    if let Some(list) = std::env::var_os(LIST) {
        let mut list = OpenOptions::new()
            .append(true)
            .open(list)
            .expect("the list of what was skipped");
        list.write_all(format!("{what}: {remedy}\n").as_bytes())
            .expect("the list of what was skipped can be written");
    }
}

/// Whether a command fails that succeeds where `packages` are installed. If so, reports that `what`
/// was not tested.
pub fn is_missing(probe: &[&str], packages: &str, what: &str) -> bool {
    let mut command = Command::new(probe[0]);
    command
        .args(&probe[1..])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let is_there = command.status().is_ok_and(|status| status.success());
    if !is_there {
        skip(what, &format!("install {packages}"));
    }
    !is_there
}
