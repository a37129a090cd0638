//! Calls of C functions, and C's calls back.
//!
//! A signature is prepared once, as a [`Plan`]. It knows libffi's description of the signature, and whether it can do without: the
//! most frequent signatures are called directly (`c/direct.h`).

mod callback;
mod passing;
mod plan;

use std::fmt;

pub use callback::{Callback, Handler};
pub use plan::{Answer, Direct, Kind, MAX_ARGUMENTS, Plan, Registers, Slot};

/// Why a signature cannot be called.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SignatureError(pub(crate) String);

impl fmt::Display for SignatureError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for SignatureError {}
