//! Alarms: times that processes wait for, instead of timers that fire processes.
//!
//! An alarm goes off at its time. Afterwards waits end at once, until it is set again. A cancelled
//! alarm does not go off. The program's end does not wait for alarms.

use baton_sys::clock::Instant;

use super::deadlines::Owner;
use super::timer::{Alarm, Timer, TimerStats};
use crate::sched::wait::waiters::{Kind, Ticket};
use crate::sched::{Attempt, Deadline, Scheduler, TimerId, Wake, WakeReason};

impl<C> Scheduler<C> {
    /// Creates an alarm that goes off at `due`.
    ///
    /// ```
    /// use baton_core::sched::{Attempt, Deadline, Scheduler, SpawnOptions, WakeReason};
    /// use baton_sys::clock::Instant;
    ///
    /// let mut sched: Scheduler<()> = Scheduler::new(10);
    /// let waiter = sched.spawn(SpawnOptions::default(), ())?;
    /// let _ = sched.schedule();
    /// let due = Instant::from_nanos(1000);
    /// let alarm = sched.alarm_new(due);
    /// assert_eq!(sched.alarm_wait(alarm, Deadline::Never), Attempt::Blocked);
    /// assert_eq!(sched.expire(due), 1);
    /// let _ = sched.schedule();
    /// assert_eq!(sched.take_wake(waiter).reason, WakeReason::Done);
    /// assert!(sched.alarm_has_gone_off(alarm)); // and stays so
    /// # Ok::<(), baton_core::sched::ProcessLimit>(())
    /// ```
    pub fn alarm_new(&mut self, due: Instant) -> TimerId {
        let waiters = self.waiters.make_queue();
        let key = self.timers.insert(Timer {
            period: None,
            prepared: None,
            running: None,
            due: due.as_nanos(),
            is_pending: false,
            is_detached: false,
            stats: TimerStats::default(),
            alarm: Some(Alarm {
                has_gone_off: false,
                waiters,
            }),
        });
        self.arm(key.index, due);
        TimerId(key)
    }

    /// Waits until an alarm has gone off: `Done`.
    pub fn alarm_wait(&mut self, id: TimerId, deadline: Deadline) -> Attempt {
        let me = match self.may_wait() {
            Ok(me) => me,
            Err(answer) => return answer,
        };
        let Some(alarm) = self.alarm(id) else {
            return Attempt::because(WakeReason::Closed);
        };
        if alarm.has_gone_off {
            return Attempt::because(WakeReason::Done);
        }
        let waiters = alarm.waiters;
        self.wait_in(me, waiters, Ticket::new(Kind::Alarm, id.0.index), deadline)
    }

    /// Sets an alarm again: it has not gone off, and does so at `due`. Its waiters continue to
    /// wait.
    pub fn alarm_set(&mut self, id: TimerId, due: Instant) {
        if let Some(alarm) = self
            .timers
            .get_mut(id.0)
            .and_then(|timer| timer.alarm.as_mut())
        {
            alarm.has_gone_off = false;
            self.arm(id.0.index, due);
        }
    }

    /// Cancels an alarm. Returns whether it would have gone off: it was set, and its time has not
    /// come.
    pub fn alarm_cancel(&mut self, id: TimerId) -> bool {
        self.alarm(id).is_some() && self.deadlines.cancel(Owner::Timer(id.0.index))
    }

    /// Whether an alarm has gone off, and was not set again.
    pub fn alarm_has_gone_off(&self, id: TimerId) -> bool {
        self.alarm(id).is_some_and(|alarm| alarm.has_gone_off)
    }

    /// Frees an alarm; its waiters get `Closed`. Returns whether it existed.
    pub fn alarm_free(&mut self, id: TimerId) -> bool {
        let Some(waiters) = self.alarm(id).map(|alarm| alarm.waiters) else {
            return false;
        };
        self.deadlines.cancel(Owner::Timer(id.0.index));
        self.timers.remove(id.0);
        self.close_queue(waiters);
        true
    }

    pub(in crate::sched) fn alarm(&self, id: TimerId) -> Option<&Alarm> {
        self.timers.get(id.0)?.alarm.as_ref()
    }

    /// Makes an alarm go off: its time has come.
    pub(super) fn go_off(&mut self, index: u32) {
        let alarm = self
            .timers
            .at_mut(index)
            .and_then(|timer| timer.alarm.as_mut());
        if let Some(alarm) = alarm {
            alarm.has_gone_off = true;
            let waiters = alarm.waiters;
            self.wake_each(waiters, Wake::because(WakeReason::Done));
        }
    }

    /// Sets the deadline of an alarm. A time in the past goes off at once; the end of time is no
    /// deadline.
    fn arm(&mut self, index: u32, due: Instant) {
        if due <= self.now {
            self.deadlines.cancel(Owner::Timer(index));
            self.go_off(index);
        } else if due.as_nanos() == u64::MAX {
            self.deadlines.cancel(Owner::Timer(index));
        } else {
            self.deadlines.set(Owner::Timer(index), due.as_nanos());
        }
    }
}
