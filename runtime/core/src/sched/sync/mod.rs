//! The objects that processes wait for, one per file.
//!
//! `queue.rs` has plain wait queues, `readiness.rs` has descriptors, and `select.rs` has waits for
//! one of several objects.

pub(super) mod barrier;
pub(super) mod channel;
pub(super) mod condition;
pub(super) mod event;
pub(super) mod mutex;
pub(super) mod queue;
pub(super) mod readiness;
pub(super) mod rwlock;
pub(super) mod select;
pub(super) mod semaphore;
pub(super) mod shared;
