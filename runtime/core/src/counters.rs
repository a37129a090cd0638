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

/// Counts of one VM's executor. The scheduler's own counts are in [`crate::sched::SchedCounters`].
#[derive(Debug, Default)]
pub struct Counters {
    /// Preempt requests that the monitor sent to running processes.
    pub beats: Counter,
    /// Signals sent because a preempt request was not noticed.
    pub signals: Counter,
    /// Foreign calls that lost the VM to another native thread.
    pub retakes: Counter,
    /// Foreign calls that gave way in the middle of a foreign function.
    pub gave_way_in_calls: Counter,
    /// Foreign calls that started on another native thread.
    pub moves: Counter,
    /// Retakes abandoned because the call had ended.
    pub false_retakes: Counter,
    /// Retakes undone because the function is exclusive.
    pub exclusive_calls: Counter,
    /// Retakes that did not happen because every thread up to the bound was out in a call.
    pub thread_bound_hits: Counter,
    /// Waits of the owner in the poller.
    pub idle_waits: Counter,
    /// Moves of the VM from one native thread to another.
    pub handovers: Counter,
    /// Moves of the VM back to its home thread.
    pub homecomings: Counter,
    /// Native threads started.
    pub threads_started: Counter,
    /// Native threads that the system refused to start.
    pub thread_failures: Counter,
    /// Native threads that ended after a time without work.
    pub threads_retired: Counter,
    /// Waits of processes for descriptors.
    pub descriptor_waits: Counter,
    /// Registrations of descriptors with the poller.
    pub descriptors_registered: Counter,
    /// Wake-ups of a sleeping monitor.
    pub monitor_alerts: Counter,
}
