//! The library under test.

use baton_harness::{Archive, place};

/// `libbaton-lua.a`.
pub(crate) static LIBRARY: Archive = Archive::of(
    "baton-lua-library",
    place!(),
    &["../lua/include", env!("BATON_LUA_INCLUDE")],
);
