//! Counting semaphores. A signal goes directly to the first waiter, so no other process can take
//! it.

use crate::sched::wait::waiters::{Kind, Ticket, WaitQueue};
use crate::sched::{
    Attempt, Deadline, FirstLook, FirstWaiter, Scheduler, SemaphoreId, WaitPlace, Wake, WakeReason,
};

#[derive(Debug)]
pub(in crate::sched) struct Semaphore {
    pub(in crate::sched) count: u64,
    /// Not empty only while the count is 0.
    pub(in crate::sched) waiters: WaitQueue,
}

impl<C> Scheduler<C> {
    /// Creates a semaphore with a count.
    ///
    /// ```
    /// use baton_core::sched::{Attempt, Deadline, Scheduler, Next, SpawnOptions, WakeReason};
    ///
    /// let mut sched: Scheduler<()> = Scheduler::new(10);
    /// let waiter = sched.spawn(SpawnOptions::default(), ())?;
    /// let _ = sched.schedule();
    /// let semaphore = sched.semaphore_new(1);
    /// assert!(matches!(sched.semaphore_wait(semaphore, Deadline::Never), Attempt::Ready(_)));
    /// assert_eq!(sched.semaphore_wait(semaphore, Deadline::Never), Attempt::Blocked);
    /// assert_eq!(sched.semaphore_signal(semaphore, 3), 1); // the number of woken processes
    /// assert_eq!(sched.semaphore_count(semaphore), 2);
    /// assert_eq!(sched.schedule(), Next::Other(waiter));
    /// assert_eq!(sched.take_wake(waiter).reason, WakeReason::Done);
    /// # Ok::<(), baton_core::sched::ProcessLimit>(())
    /// ```
    pub fn semaphore_new(&mut self, count: u64) -> SemaphoreId {
        let waiters = self.waiters.make_queue();
        SemaphoreId(self.semaphores.insert(Semaphore { count, waiters }))
    }

    /// Begins a wait of the current process.
    #[inline]
    pub(crate) fn semaphore_begin_wait(&mut self, id: SemaphoreId) -> FirstLook {
        if !self.current_may_wait() {
            return FirstLook::Unclear;
        }
        match self.semaphores.get_mut(id.0) {
            Some(semaphore) if semaphore.count > 0 => {
                semaphore.count -= 1;
                FirstLook::Done(0)
            }
            Some(semaphore) => {
                let place = WaitPlace::new(semaphore.waiters, Kind::Semaphore, id.0.index);
                FirstLook::Waits(place)
            }
            None => FirstLook::Unclear,
        }
    }

    /// Begins a signal: adds to the count, if no process waits and the sum is not above
    /// [`i64::MAX`]; or finds the waiter for a signal of 1.
    #[inline]
    pub(crate) fn semaphore_begin_signal(&mut self, id: SemaphoreId, n: u64) -> FirstLook {
        let Some(semaphore) = self.semaphores.get_mut(id.0) else {
            return FirstLook::Unclear;
        };
        if let Some(first) = self.waiters.first(semaphore.waiters) {
            return match n {
                1 => FirstLook::Wakes(FirstWaiter(first)),
                _ => FirstLook::Unclear,
            };
        }
        let sum = semaphore.count.checked_add(n);
        match sum.filter(|&sum| sum <= i64::MAX as u64) {
            Some(sum) => {
                semaphore.count = sum;
                FirstLook::Done(0)
            }
            None => FirstLook::Unclear,
        }
    }

    /// Waits until the count is above 0, and decrements it: `Done`.
    #[inline]
    pub fn semaphore_wait(&mut self, id: SemaphoreId, deadline: Deadline) -> Attempt {
        let me = match self.may_wait() {
            Ok(me) => me,
            Err(answer) => return answer,
        };
        let Some(semaphore) = self.semaphores.get_mut(id.0) else {
            return Attempt::because(WakeReason::Closed);
        };
        if semaphore.count > 0 {
            semaphore.count -= 1;
            return Attempt::because(WakeReason::Done);
        }
        let waiters = semaphore.waiters;
        self.wait_in(
            me,
            waiters,
            Ticket::new(Kind::Semaphore, id.0.index),
            deadline,
        )
    }

    /// Adds `n`: first wakes up to `n` waiters, then adds the rest to the count, which saturates.
    /// Returns how many were woken.
    #[inline]
    pub fn semaphore_signal(&mut self, id: SemaphoreId, n: u64) -> usize {
        let Some(semaphore) = self.semaphores.get(id.0) else {
            return 0;
        };
        let waiters = semaphore.waiters;
        let mut left = n;
        let mut woken = 0;
        while left > 0
            && self
                .wake_first(waiters, Wake::because(WakeReason::Done))
                .is_some()
        {
            left -= 1;
            woken += 1;
        }
        if let Some(semaphore) = self.semaphores.get_mut(id.0) {
            semaphore.count = semaphore.count.saturating_add(left);
        }
        woken
    }

    /// The count; 0 for a freed semaphore.
    pub fn semaphore_count(&self, id: SemaphoreId) -> u64 {
        self.semaphores
            .get(id.0)
            .map_or(0, |semaphore| semaphore.count)
    }

    /// Frees a semaphore; its waiters get `Closed`. Returns whether it existed.
    pub fn semaphore_free(&mut self, id: SemaphoreId) -> bool {
        let Some(semaphore) = self.semaphores.remove(id.0) else {
            return false;
        };
        self.close_queue(semaphore.waiters);
        true
    }
}
