//! The library under test.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds `libbaton.a`, and returns its path. A test cannot link a static library, so cargo does
/// not build it for the tests.
pub(crate) fn built() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .parent()
        .expect("it is in the target directory");
    let built = Command::new(env!("CARGO"))
        .args(["build", "--offline", "--quiet", "-p", "baton-library"])
        .arg("--target-dir")
        .arg(target)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status();
    assert!(built.is_ok_and(|status| status.success()), "libbaton.a");
    target.join("debug/libbaton_library.a")
}
