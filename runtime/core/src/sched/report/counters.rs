//! Counts of scheduler events since the VM began.

use crate::sched::Scheduler;
use crate::time_buckets::TimeBuckets;

/// Counts since the VM began; they wrap after centuries.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SchedCounters {
    /// Decisions that chose another process than the last one.
    pub switches: u64,
    /// Of these: because the current process yielded.
    pub yields: u64,
    /// Of these: because a more urgent process could run.
    pub preemptions_by_urgency: u64,
    /// Of these: because a slice was over.
    pub preemptions_by_slice: u64,
    /// Waits that ended, for whatever reason.
    pub wakes: u64,
    /// Of these: because the deadline came first.
    pub timeouts: u64,
    /// Of these: sleeps that lasted to their end.
    pub sleeps: u64,
    /// Kills of living processes.
    pub kills: u64,
    /// Of these: held back at first.
    pub kills_held: u64,
    /// Of these: second ones, which ended a hold.
    pub holds_cut: u64,
    /// Processes spawned, prepared ones included when they are fired.
    pub spawned: u64,
    /// Processes that ended.
    pub ended: u64,
    /// Processes fired by timers.
    pub timers_fired: u64,
    /// Firings that were skipped, because they were late or the last process still lived.
    pub timers_skipped: u64,
    /// Foreign calls that were retaken: the VM ran other processes meanwhile.
    pub foreign_calls: u64,
    /// Processes kept aside because their native thread was occupied.
    pub kept_aside: u64,
    /// Priorities inherited by the owner of a lock.
    pub priorities_inherited: u64,
}

impl<C> Scheduler<C> {
    /// Counts since the VM began.
    #[inline]
    pub fn counters(&self) -> &SchedCounters {
        &self.counters
    }

    /// How late waits and sleeps ended and timers fired: from each deadline to the scheduler's time
    /// when it was acted on.
    pub fn lateness(&self) -> &TimeBuckets {
        &self.lateness
    }
}
