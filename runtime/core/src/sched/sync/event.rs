//! Events: a flag; while it is set, waits end at once.

use crate::sched::wait::waiters::{Kind, Ticket, WaitQueue};
use crate::sched::{Attempt, Deadline, EventId, FirstLook, Scheduler, WaitPlace, Wake, WakeReason};

#[derive(Debug)]
pub(in crate::sched) struct Event {
    pub(in crate::sched) is_set: bool,
    /// Empty while the flag is set.
    pub(in crate::sched) waiters: WaitQueue,
}

impl<C> Scheduler<C> {
    /// Creates an event, not set.
    ///
    /// ```
    /// use baton_core::sched::{Attempt, Deadline, Scheduler, SpawnOptions};
    ///
    /// let mut sched: Scheduler<()> = Scheduler::new(10);
    /// let event = sched.event_new();
    /// for _ in 0..2 {
    ///     sched.spawn(SpawnOptions::default(), ())?;
    ///     let _ = sched.schedule();
    ///     assert_eq!(sched.event_wait(event, Deadline::Never), Attempt::Blocked);
    /// }
    /// assert_eq!(sched.event_set(event), 2); // all were woken
    /// assert!(sched.event_is_set(event));
    /// sched.event_clear(event);
    /// assert_eq!(sched.runnable_count(), 2); // and stay so
    /// # Ok::<(), baton_core::sched::ProcessLimit>(())
    /// ```
    pub fn event_new(&mut self) -> EventId {
        let waiters = self.waiters.make_queue();
        EventId(self.events.insert(Event {
            is_set: false,
            waiters,
        }))
    }

    /// Sets an event and wakes all its waiters. Returns how many.
    pub fn event_set(&mut self, id: EventId) -> usize {
        let Some(event) = self.events.get_mut(id.0) else {
            return 0;
        };
        event.is_set = true;
        let waiters = event.waiters;
        self.wake_each(waiters, Wake::because(WakeReason::Done))
    }

    /// Clears an event. Processes that it has woken stay woken.
    pub fn event_clear(&mut self, id: EventId) {
        if let Some(event) = self.events.get_mut(id.0) {
            event.is_set = false;
        }
    }

    /// Begins a wait of the current process: done if the event is set.
    #[inline]
    pub(crate) fn event_begin_wait(&mut self, id: EventId) -> FirstLook {
        if !self.current_may_wait() {
            return FirstLook::Unclear;
        }
        match self.events.get(id.0) {
            Some(event) if event.is_set => FirstLook::Done(0),
            Some(event) => FirstLook::Waits(WaitPlace::new(event.waiters, Kind::Event, id.0.index)),
            None => FirstLook::Unclear,
        }
    }

    /// Waits until an event is set: `Done`.
    pub fn event_wait(&mut self, id: EventId, deadline: Deadline) -> Attempt {
        let me = match self.may_wait() {
            Ok(me) => me,
            Err(answer) => return answer,
        };
        let Some(event) = self.events.get(id.0) else {
            return Attempt::because(WakeReason::Closed);
        };
        if event.is_set {
            return Attempt::because(WakeReason::Done);
        }
        let waiters = event.waiters;
        self.wait_in(me, waiters, Ticket::new(Kind::Event, id.0.index), deadline)
    }

    /// Whether an event is set.
    pub fn event_is_set(&self, id: EventId) -> bool {
        self.events.get(id.0).is_some_and(|event| event.is_set)
    }

    /// Frees an event; its waiters get `Closed`. Returns whether it existed.
    pub fn event_free(&mut self, id: EventId) -> bool {
        let Some(event) = self.events.remove(id.0) else {
            return false;
        };
        self.close_queue(event.waiters);
        true
    }
}
