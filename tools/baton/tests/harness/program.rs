//! The program under test.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Set by `cargo xtask test --all`: the path of a release build, which the debug build's test
/// programs then test. This saves building them as a release, too.
const RELEASE: &str = "BATON_RELEASE_UNDER_TEST";

/// Set by `cargo xtask test --target`: the test programs run under an emulator.
const EMULATED: &str = "BATON_TESTS_ARE_EMULATED";

/// Returns the path of the program.
pub(crate) fn path() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        std::env::var_os(RELEASE).map_or_else(|| env!("CARGO_BIN_EXE_baton").into(), PathBuf::from)
    })
}

/// Returns whether it is built with assertions.
pub(crate) fn has_assertions() -> bool {
    cfg!(debug_assertions) && std::env::var_os(RELEASE).is_none()
}

/// Returns whether it runs under an emulator, which is many times slower.
pub(crate) fn is_emulated() -> bool {
    std::env::var_os(EMULATED).is_some()
}
