//! The command line and the interactive mode, where there is nothing to compare with: what `lua`
//! does not have, signals, and terminals. What can be compared with `lua5.4` is in
//! `tests/transcript`.

mod own;
mod run;
mod signals;
mod terminal;

use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// The program with these arguments, called "lua", in the directory of the tests' files.
pub(crate) fn interpreter<S: AsRef<OsStr>>(program: &Path, arguments: &[S]) -> Command {
    let mut command = Command::new(program);
    run::clean(&mut command).arg0("lua").args(arguments);
    command
}
