//! Whether the guest's collector works: a hint for profiles, which ask at random moments.
//!
//! | state | becomes | by |
//! |---|---|---|
//! | no | yes | `Inside::trace_garbage(true)`, of the owner |
//! | yes | no | `Inside::trace_garbage(false)`, of the owner |
//!
//! Any thread reads it. An answer that is late by a moment is one wrong sample.

use super::super::Vm;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the guest's collector works.
#[derive(Debug, Default)]
pub(in crate::vm) struct Collecting(AtomicBool);

impl Collecting {
    pub(in crate::vm) fn set(&self, works: bool) {
        // Relaxed: a hint, which orders nothing.
        self.0.store(works, Ordering::Relaxed);
    }
}

impl Vm {
    /// Whether the guest's collector works at the moment. A hint, on any thread.
    pub fn is_collecting(&self) -> bool {
        // Relaxed: as in `set`.
        self.collecting.0.load(Ordering::Relaxed)
    }
}
