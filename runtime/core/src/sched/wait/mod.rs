//! Waits: one way in, and one way out.
//!
//! | file | what it does |
//! |---|---|
//! | `waiters.rs` | wait queues and their nodes |
//! | `blocking.rs` | begins a wait, and ends it |

pub(super) mod blocking;
pub(super) mod waiters;
