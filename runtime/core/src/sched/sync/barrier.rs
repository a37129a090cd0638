//! Barriers: a number of processes wait for each other, again and again.
//!
//! Waiting processes are in the queue. The process that completes their number wakes them all and
//! does not wait itself. So the next round can begin before the last process of this round has run.
//! A process that times out or is killed is not counted any more.

use crate::sched::wait::waiters::{Kind, Ticket, WaitQueue};
use crate::sched::{Attempt, BarrierId, Deadline, Scheduler, Wake, WakeReason};

#[derive(Debug)]
pub(in crate::sched) struct Barrier {
    /// How many processes pass together; at least 1.
    pub(in crate::sched) size: u64,
    /// How many processes are in the queue; fewer than `size`.
    pub(in crate::sched) waiting: u64,
    pub(in crate::sched) waiters: WaitQueue,
}

impl<C> Scheduler<C> {
    /// Creates a barrier for `size` processes, at least one.
    ///
    /// ```
    /// use baton_core::sched::{Attempt, Deadline, Scheduler, SpawnOptions};
    ///
    /// let mut sched: Scheduler<()> = Scheduler::new(10);
    /// let barrier = sched.barrier_new(2);
    /// for _ in 0..2 {
    ///     sched.spawn(SpawnOptions::default(), ())?;
    /// }
    /// let _ = sched.schedule();
    /// assert_eq!(sched.barrier_wait(barrier, Deadline::Never), Attempt::Blocked);
    /// let _ = sched.schedule();
    /// let Attempt::Ready(wake) = sched.barrier_wait(barrier, Deadline::Never) else {
    ///     panic!("the last one does not wait")
    /// };
    /// assert_eq!((wake.value, sched.runnable_count()), (1, 1));
    /// # Ok::<(), baton_core::sched::ProcessLimit>(())
    /// ```
    pub fn barrier_new(&mut self, size: u64) -> BarrierId {
        let waiters = self.waiters.make_queue();
        BarrierId(self.barriers.insert(Barrier {
            size: size.max(1),
            waiting: 0,
            waiters,
        }))
    }

    /// Waits until the barrier's number of processes wait: `Done`. The last one to come does not
    /// wait; its `Wake::value` is 1.
    pub fn barrier_wait(&mut self, id: BarrierId, deadline: Deadline) -> Attempt {
        let me = match self.may_wait() {
            Ok(me) => me,
            Err(answer) => return answer,
        };
        let Some(barrier) = self.barriers.get_mut(id.0) else {
            return Attempt::because(WakeReason::Closed);
        };
        let waiters = barrier.waiters;
        if barrier.waiting + 1 == barrier.size {
            self.wake_each(waiters, Wake::because(WakeReason::Done));
            let mut wake = Wake::because(WakeReason::Done);
            wake.value = 1;
            return Attempt::Ready(wake);
        }
        let ticket = Ticket::new(Kind::Barrier, id.0.index);
        let attempt = self.wait_in(me, waiters, ticket, deadline);
        if attempt == Attempt::Blocked
            && let Some(barrier) = self.barriers.get_mut(id.0)
        {
            barrier.waiting += 1;
        }
        attempt
    }

    /// How many processes wait at a barrier; 0 for a freed one.
    pub fn barrier_waiting(&self, id: BarrierId) -> u64 {
        self.barriers.get(id.0).map_or(0, |barrier| barrier.waiting)
    }

    /// Frees a barrier; its waiters get `Closed`. Returns whether it existed.
    pub fn barrier_free(&mut self, id: BarrierId) -> bool {
        let Some(barrier) = self.barriers.remove(id.0) else {
            return false;
        };
        self.close_queue(barrier.waiters);
        true
    }

    /// Notes that a process has left the queue of a barrier.
    pub(in crate::sched) fn leave_barrier(&mut self, barrier: u32) {
        if let Some(barrier) = self.barriers.at_mut(barrier) {
            barrier.waiting -= 1;
        }
    }
}
