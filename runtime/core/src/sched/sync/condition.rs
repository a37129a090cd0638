//! Condition variables. A wait unlocks the mutex in the same step, and locks it again before the
//! process continues, whatever ended the wait.

use crate::sched::wait::waiters::{Kind, Ticket, WaitQueue};
use crate::sched::{
    Attempt, ConditionId, Deadline, MutexId, NotOwner, ProcessId, Scheduler, Wake, WakeReason,
};
use baton_sys::clock::Instant;

/// What a process does before its wait for a condition ends.
#[derive(Clone, Copy, Debug)]
pub(in crate::sched) struct Relock {
    pub(in crate::sched) mutex: MutexId,
    pub(super) condition: ConditionId,
}

#[derive(Debug)]
pub(in crate::sched) struct Condition {
    pub(in crate::sched) waiters: WaitQueue,
    last_signal: Option<Signal>,
    /// Where the program signalled when that last woke nobody; empty if that is not known.
    place: Box<str>,
}

/// The last signal of a condition, or broadcast; for reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Signal {
    /// The process that signalled, if one did.
    pub by: Option<ProcessId>,
    /// How many processes it woke.
    pub woke: usize,
    /// When that was, to a tick.
    pub at: Instant,
}

impl<C> Scheduler<C> {
    /// Creates a condition variable. Each wait names its mutex.
    ///
    /// ```
    /// use baton_core::sched::{Attempt, Deadline, Scheduler, SpawnOptions};
    ///
    /// let mut sched: Scheduler<()> = Scheduler::new(10);
    /// let waiter = sched.spawn(SpawnOptions::default(), ())?;
    /// let _ = sched.schedule();
    /// let (mutex, condition) = (sched.mutex_new(), sched.condition_new());
    /// assert!(matches!(sched.mutex_lock(mutex, Deadline::Never), Ok(Attempt::Ready(_))));
    /// assert_eq!(sched.condition_wait(condition, mutex, Deadline::Never), Ok(Attempt::Blocked));
    /// assert_eq!(sched.mutex_owner(mutex), None);
    /// assert!(sched.condition_signal(condition));
    /// assert_eq!(sched.mutex_owner(mutex), Some(waiter));
    /// # Ok::<(), baton_core::sched::ProcessLimit>(())
    /// ```
    pub fn condition_new(&mut self) -> ConditionId {
        let waiters = self.waiters.make_queue();
        ConditionId(self.conditions.insert(Condition {
            waiters,
            last_signal: None,
            place: Box::default(),
        }))
    }

    /// Notes a signal, for reports: the current process has woken so many processes at this time.
    ///
    /// ```
    /// use baton_core::sched::Scheduler;
    /// use baton_sys::clock::Instant;
    ///
    /// let mut sched: Scheduler<()> = Scheduler::new(10);
    /// let condition = sched.condition_new();
    /// assert!(!sched.condition_signal(condition));
    /// sched.condition_note(condition, 0, Instant::from_nanos(7));
    /// sched.condition_set_place(condition, "server.lua:12");
    /// let signal = sched.last_signal(condition).expect("it was noted");
    /// assert_eq!((signal.by, signal.woke), (None, 0));
    /// assert_eq!(sched.signal_place(condition), "server.lua:12");
    /// ```
    pub fn condition_note(&mut self, id: ConditionId, woke: usize, at: Instant) {
        let by = self.current();
        if let Some(condition) = self.conditions.get_mut(id.0) {
            condition.last_signal = Some(Signal { by, woke, at });
        }
    }

    /// The last signal of a condition that was noted.
    pub fn last_signal(&self, id: ConditionId) -> Option<Signal> {
        self.conditions.get(id.0)?.last_signal
    }

    /// Sets where the program has signalled when that last woke nobody.
    pub fn condition_set_place(&mut self, id: ConditionId, place: &str) {
        if let Some(condition) = self.conditions.get_mut(id.0) {
            condition.place = place.into();
        }
    }

    /// What [`Scheduler::condition_set_place`] has set.
    pub fn signal_place(&self, id: ConditionId) -> &str {
        self.conditions
            .get(id.0)
            .map_or("", |condition| &condition.place)
    }

    /// Unlocks the mutex and waits for a signal. The process holds the mutex again before it
    /// continues, whether it was signalled (`Done`), timed out or was killed. `Wake::value` is 1 if
    /// the last owner died holding the mutex. The process continues without the mutex only after a
    /// second kill, or if the mutex was freed (`Closed`). With `Deadline::Now` it times out at once
    /// and keeps the mutex.
    ///
    /// A process that is killed or interrupted after its signal, and before it holds the mutex
    /// again, passes the signal on to the next waiter.
    ///
    /// # Errors
    ///
    /// [`NotOwner`] if the current process does not hold the mutex.
    pub fn condition_wait(
        &mut self,
        id: ConditionId,
        mutex: MutexId,
        deadline: Deadline,
    ) -> Result<Attempt, NotOwner> {
        let me = match self.may_wait() {
            Ok(me) => me,
            Err(answer) => return Ok(answer),
        };
        if self
            .mutexes
            .get(mutex.0)
            .is_none_or(|mutex| mutex.owner != me)
        {
            return Err(NotOwner);
        }
        let Some(condition) = self.conditions.get(id.0) else {
            return Ok(Attempt::because(WakeReason::Closed));
        };
        let waiters = condition.waiters;
        let ticket = Ticket::new(Kind::Condition, id.0.index);
        let attempt = self.wait_in(me, waiters, ticket, deadline);
        if attempt == Attempt::Blocked {
            self.processes[me].relock = Some(Relock {
                mutex,
                condition: id,
            });
            self.hand_over(mutex.0.index, WakeReason::Done);
        }
        Ok(attempt)
    }

    /// Wakes the first waiter. Returns whether there was one.
    pub fn condition_signal(&mut self, id: ConditionId) -> bool {
        match self.conditions.get(id.0).map(|condition| condition.waiters) {
            Some(waiters) => self
                .wake_first(waiters, Wake::because(WakeReason::Done))
                .is_some(),
            None => false,
        }
    }

    /// A kill or an interrupt ends the wait of a process that waits to lock the mutex again.
    pub(in crate::sched) fn end_relock(&mut self, index: u32, wake: Wake) {
        let process = &mut self.processes[index];
        let before = std::mem::replace(&mut process.wake, wake);
        if before.reason == WakeReason::Done
            && let Some(relock) = process.relock
        {
            self.condition_signal(relock.condition);
        }
    }

    /// Wakes all waiters. Returns how many.
    pub fn condition_broadcast(&mut self, id: ConditionId) -> usize {
        match self.conditions.get(id.0).map(|condition| condition.waiters) {
            Some(waiters) => self.wake_each(waiters, Wake::because(WakeReason::Done)),
            None => 0,
        }
    }

    /// Frees a condition: its waiters get `Closed`, and hold their mutex. Returns whether it
    /// existed.
    pub fn condition_free(&mut self, id: ConditionId) -> bool {
        let Some(condition) = self.conditions.remove(id.0) else {
            return false;
        };
        self.close_queue(condition.waiters);
        true
    }
}
