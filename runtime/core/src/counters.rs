//! Counters of what the executor does, always on.

use std::sync::atomic::{AtomicU64, Ordering};

/// One counter; wraps after 2^64.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds one.
    #[inline]
    pub fn increment(&self) {
        self.add(1);
    }

    /// Adds `n`.
    #[inline]
    pub fn add(&self, n: u64) {
        // Relaxed: a counter orders nothing.
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// Current value.
    pub fn get(&self) -> u64 {
        // Relaxed: a counter orders nothing.
        self.0.load(Ordering::Relaxed)
    }
}

/// What the executor of one VM counts; the scheduler's own counts are in
/// [`crate::sched::SchedCounters`].
#[derive(Debug, Default)]
pub struct Counters {
    /// Requests of the monitor that the running process give way.
    pub beats: Counter,
    /// Signals that were sent because a beat was not noticed.
    pub signals: Counter,
    /// Foreign calls that the VM was taken from.
    pub retakes: Counter,
    /// Times that a foreign call gave way in its middle.
    pub gave_way_in_calls: Counter,
    /// Foreign calls that were made on another native thread from the beginning.
    pub moves: Counter,
    /// Takes that were given up because the call ended meanwhile.
    pub false_retakes: Counter,
    /// Takes that were undone because the function is exclusive.
    pub exclusive_calls: Counter,
    /// Takes that did not happen because all native threads were out, up to the bound.
    pub thread_bound_hits: Counter,
    /// Times that the owner waited in the poller.
    pub idle_waits: Counter,
    /// Times that the VM moved from one native thread to another.
    pub handovers: Counter,
    /// Times that the VM went back to its home thread.
    pub homecomings: Counter,
    /// Native threads started.
    pub threads_started: Counter,
    /// Native threads that the system refused.
    pub thread_failures: Counter,
    /// Native threads that ended for want of work.
    pub threads_retired: Counter,
    /// Waits of processes for descriptors.
    pub descriptor_waits: Counter,
    /// Descriptors that were registered with the poller.
    pub descriptors_registered: Counter,
    /// Times that a sleeping monitor was woken.
    pub monitor_alerts: Counter,
}
