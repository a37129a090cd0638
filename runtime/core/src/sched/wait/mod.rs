//! Waits: one way in, and one way out.
//!
//! | file | what it does |
//! |---|---|
//! | `waiters.rs` | wait queues and their nodes |
//! | `first_look.rs` | what an operation comes to, found by one look at its object |
//! | `blocking.rs` | begins a wait, and ends it |
//! | `noted.rs` | notes of waits that have ended, for a trace |

pub(super) mod blocking;
pub(super) mod first_look;
pub(super) mod noted;
pub(super) mod waiters;
