//! Where `cargo xtask readers` installs the programs that read what Baton writes.

use std::path::{Path, PathBuf};

/// Set by `cargo xtask test`, whose builds with other flags have target directories of their own.
const DIRECTORY: &str = "BATON_READERS";

/// The directory of one group of readers.
pub(crate) fn readers(group: &str) -> PathBuf {
    let all = std::env::var_os(DIRECTORY).map_or_else(
        || Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("readers"),
        PathBuf::from,
    );
    all.join(group)
}
