//! Calls of C functions, and callbacks from C.
//!
//! A signature is prepared once, as a [`Plan`]. The plan holds libffi's description of the
//! signature. It also knows whether the call can do without libffi: the most frequent signatures
//! are called directly (`c/direct.h`).

mod by_address;
mod callback;
mod homogeneous;
mod passing;
mod plan;
mod preparation;

use std::fmt;

pub use callback::{Callback, Handler};
pub use plan::{Answer, Direct, DirectKind, MAX_ARGUMENTS, Plan, Registers, Slot};

/// The reason why a signature cannot be called.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SignatureError(pub(crate) String);

impl fmt::Display for SignatureError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for SignatureError {}
