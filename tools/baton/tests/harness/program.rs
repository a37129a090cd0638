//! The program under test.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Set by `cargo xtask test --all`: a release to be tested by the test programs of a debug build,
/// which saves building them, too, as a release.
const RELEASE: &str = "BATON_RELEASE_UNDER_TEST";

/// Where the program is.
pub(crate) fn path() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        std::env::var_os(RELEASE).map_or_else(|| env!("CARGO_BIN_EXE_baton").into(), PathBuf::from)
    })
}

/// Whether it is built with assertions.
pub(crate) fn has_assertions() -> bool {
    cfg!(debug_assertions) && std::env::var_os(RELEASE).is_none()
}
