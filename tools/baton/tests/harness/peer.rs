//! The stock `lua5.4` that some tests compare with, and what happens if it is missing.

use std::path::{Path, PathBuf};

use super::Run;
pub(crate) use super::skip::skip;

/// Returns a run of the system's own `lua5.4`. Without that program, it returns none and reports
/// it.
pub(crate) fn lua() -> Option<Run> {
    find_lua().map(|path| Run::of(&path))
}

/// Returns the path of the system's own `lua5.4`.
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
