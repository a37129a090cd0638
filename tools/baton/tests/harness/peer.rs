//! The stock `lua5.4` that some tests compare with, and what to do where something to compare with is missing.

use std::io::Write;
use std::path::{Path, PathBuf};

use super::Run;

/// A run of the system's own `lua5.4`; none, said loudly, where there is no such program.
pub(crate) fn lua() -> Option<Run> {
    find_lua().map(|path| Run::of(&path))
}

/// Says on the terminal, past the test runner's capture, that `what` was not tested. In CI nothing may be skipped.
pub(crate) fn skip(what: &str, remedy: &str) {
    assert!(std::env::var_os("CI").is_none(), "{what} could not be tested: {remedy}");
    // Nothing better can be done if stderr is closed.
    let _ = writeln!(std::io::stderr(), "SKIPPED: {what} was not tested: {remedy}");
}

/// Where the system's own `lua5.4` is.
pub(crate) fn find_lua() -> Option<PathBuf> {
    let found = ["/usr/bin/lua5.4", "/usr/local/bin/lua5.4"]
        .into_iter()
        .map(Path::new)
        .find(|path| path.exists());
    if found.is_none() {
        skip("likeness to stock lua", "install lua5.4");
    }
    found.map(Path::to_path_buf)
}
