//! `include/baton.h` and its functions: what an interpreter in C calls of the Baton runtime.
//!
//! A crate that depends on this one finds the header's directory in the environment variable
//! `DEP_BATON_CAPI_INCLUDE` of its build script. The Lua guest (`baton-lua`) is the first user.
//!
//! Rust sees little of it: the functions are for C.
//!
//! | module | what it is |
//! |---|---|
//! | `functions` | the functions |
//! | `guest` | the guest that is a table of functions in C |
//! | `engine`, `fingerprints` | whose state its engine has, and whether that is right |
//! | [`parameters`], [`settings`] | parameters; counters and features |

mod engine;
mod fingerprints;
mod functions;
mod guest;
pub mod parameters;
pub mod settings;

pub use functions::{CWake, write_message};
