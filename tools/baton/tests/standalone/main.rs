//! Tests the command line and the interactive mode where `lua` has nothing to compare with: Baton's
//! own options, signals, and terminals. `tests/transcript` compares the rest with `lua5.4`.

mod own;
mod run;
mod signals;
mod terminal;

use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// Runs the program with these arguments, under the name "lua", in the directory of test files.
pub(crate) fn interpreter<S: AsRef<OsStr>>(program: &Path, arguments: &[S]) -> Command {
    let mut command = Command::new(program);
    run::clean(&mut command).arg0("lua").args(arguments);
    command
}
