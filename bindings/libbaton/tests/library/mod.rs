//! The library under test.

use baton_harness::{Archive, place};

/// `libbaton.a`.
pub(crate) static LIBRARY: Archive = Archive::of("baton-library", place!(), &["../capi/include"]);
