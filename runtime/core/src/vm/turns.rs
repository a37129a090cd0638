//! At the bound on native threads, calls that may block come to their turn, first come, first served.
//!
//! As many calls are out as there may be threads; the last one is made on the owner's own thread if nobody else can run, and else the VM goes on
//! on a thread above the bound. Whoever comes then waits in a queue. Each call that comes back wakes the first one in it, who looks again, and once it is let in
//! wakes the next, since its own call may be over at once and tell nobody. As long as somebody was woken and has not looked yet, nobody else goes first.
//!
//! **Nobody waits in vain.** A process begins to wait only while calls are out (or are let in before it), each of which wakes one when it comes back.

use super::{Inner, Vm};
use crate::kernel::{Deadline, WaitQueueId, Wake, WakeReason};

/// Who wants to make a foreign call while all native threads are out. The owner's.
#[derive(Debug)]
pub(super) struct Turns {
    newcomers: WaitQueueId,
    /// Those who were woken, and found that a process which need not wait had taken the thread. They go before all newcomers.
    passed_over: WaitQueueId,
    /// How many were woken and have not looked yet.
    called: usize,
}

impl Turns {
    pub(super) fn new(newcomers: WaitQueueId, passed_over: WaitQueueId) -> Turns {
        Turns {
            newcomers,
            passed_over,
            called: 0,
        }
    }

    fn queue(&self, has_waited: bool) -> WaitQueueId {
        if has_waited { self.passed_over } else { self.newcomers }
    }

    /// In a fork's child: nobody else is there.
    pub(super) fn forget(&mut self) {
        self.called = 0;
    }
}

impl Vm {
    /// Waits until a foreign call by the calling process has a native thread, after those that have waited before. Processes that
    /// are bound, or prefer home, do not wait: nobody could run in their place.
    pub fn wait_for_thread(&self) -> Wake {
        let mut has_waited = false;
        // Without giving way, so that nobody else is let in between this look and the call.
        while !self.inner.with(|inner| self.lets_call(inner, has_waited)) {
            self.counters.thread_bound_hits.increment();
            let queue = self.inner.with(|inner| inner.turns.queue(has_waited));
            let wake = self.attempt(|kernel| kernel.wait(queue, Deadline::Never));
            if wake.reason != WakeReason::Done {
                return wake;
            }
            self.inner
                .with(|inner| inner.turns.called = inner.turns.called.saturating_sub(1));
            has_waited = true;
        }
        Wake::because(WakeReason::Done)
    }

    /// Whether the calling process may begin a foreign call. If it has waited for that, the next one is woken. Threads with names that have nobody out
    /// are for others, and count as if they had.
    fn lets_call(&self, inner: &mut Inner, has_waited: bool) -> bool {
        let kernel = &inner.kernel;
        let me = kernel.current();
        let stays = me.is_none_or(|pid| kernel.effective_carrier(pid).is_some()) || me == inner.prefers_home;
        let nobody_was_called = inner.turns.called == 0 || kernel.foreign_count() == 0;
        let nobody_waits = [inner.turns.passed_over, inner.turns.newcomers]
            .iter()
            .all(|&queue| kernel.wait_queue_is_empty(queue));
        let is_first = has_waited || (nobody_was_called && nobody_waits);
        let out = kernel.foreign_count() + kernel.named_and_vacant_count();
        let has_a_thread = is_first && out < self.parameters.max_threads().max(kernel.named_count() + 1);
        let may_call = stays || kernel.is_critical() || has_a_thread;
        if may_call && has_waited {
            inner.call_next();
            self.publish(inner);
        }
        may_call
    }
}

impl Inner {
    /// A thread may have become free.
    pub(super) fn call_next(&mut self) {
        let mut call = |queue| self.kernel.wake_one(queue, WakeReason::Done, 0);
        let called = call(self.turns.passed_over).or_else(|| call(self.turns.newcomers));
        self.turns.called += usize::from(called.is_some());
    }
}
