//! Timers: they start processes at given times.
//!
//! Each firing starts a process that was prepared beforehand, so it only makes that process
//! runnable. A periodic timer is armed again when its next process is prepared. The next time is a
//! multiple of the period after its first time, so it does not drift. Multiples that have passed by
//! then are skipped.

use std::time::Duration;

use baton_sys::clock::Instant;

use super::deadlines::Owner;
use crate::sched::process::Phase;
use crate::sched::wait::waiters::WaitQueue;
use crate::sched::{ProcessId, Scheduler, TimerId};

#[derive(Debug)]
pub(in crate::sched) struct Timer {
    /// In nanoseconds; not 0. `None` fires once.
    pub(in crate::sched) period: Option<u64>,
    /// The process to fire next.
    pub(in crate::sched) prepared: Option<ProcessId>,
    /// The process fired last.
    pub(in crate::sched) running: Option<ProcessId>,
    /// The time of the last firing, or of the next one.
    pub(in crate::sched) due: u64,
    /// Whether it will fire: it is armed, or will be when it is prepared again.
    pub(in crate::sched) is_pending: bool,
    /// Its handle is gone: it is freed when it is no longer pending.
    pub(in crate::sched) is_detached: bool,
    pub(super) stats: TimerStats,
    /// It is an alarm: processes wait for it, and it fires none.
    pub(in crate::sched) alarm: Option<Alarm>,
}

/// The extra data of a timer that is an alarm.
#[derive(Debug)]
pub(in crate::sched) struct Alarm {
    pub(in crate::sched) has_gone_off: bool,
    /// Empty once it has gone off.
    pub(in crate::sched) waiters: WaitQueue,
}

/// Counts of one timer.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct TimerStats {
    /// Processes fired.
    pub fired: u64,
    /// Times that were skipped.
    pub skipped: u64,
}

impl<C> Scheduler<C> {
    /// Creates a timer that fires `prepared` at `first`. A periodic one needs the next process by
    /// `timer_prepare`. The shortest period is a nanosecond.
    ///
    /// ```
    /// use baton_core::sched::{Scheduler, Next, SpawnOptions};
    /// use baton_sys::clock::Instant;
    ///
    /// let mut sched: Scheduler<()> = Scheduler::new(10);
    /// let prepared = sched.spawn_prepared(SpawnOptions::default(), ())?;
    /// let due = Instant::from_nanos(1000);
    /// sched.timer_new(due, None, prepared);
    /// assert_eq!(sched.schedule(), Next::Nothing);
    /// assert_eq!(sched.next_deadline(), Some(due));
    /// sched.expire(due);
    /// assert_eq!(sched.schedule(), Next::Other(prepared));
    /// # Ok::<(), baton_core::sched::ProcessLimit>(())
    /// ```
    pub fn timer_new(
        &mut self,
        first: Instant,
        period: Option<Duration>,
        prepared: ProcessId,
    ) -> TimerId {
        let period =
            period.map(|period| u64::try_from(period.as_nanos()).unwrap_or(u64::MAX).max(1));
        let key = self.timers.insert(Timer {
            period,
            prepared: Some(prepared),
            running: None,
            due: first.as_nanos(),
            is_pending: true,
            is_detached: false,
            stats: TimerStats::default(),
            alarm: None,
        });
        self.pending_timers += 1;
        self.deadlines
            .set(Owner::Timer(key.index), first.as_nanos());
        TimerId(key)
    }

    /// Arms a periodic timer that has fired, for the first multiple of its period that has not
    /// passed. Does nothing if the timer is not periodic, was cancelled, or is armed. Returns
    /// whether it did.
    pub fn timer_prepare(&mut self, id: TimerId, prepared: ProcessId) -> bool {
        match self.timers.get_mut(id.0) {
            Some(timer) if timer.is_pending && timer.prepared.is_none() => {
                timer.prepared = Some(prepared);
                self.arm_again(id.0.index);
                true
            }
            _ => false,
        }
    }

    /// Cancels a timer. Returns the process that it would have fired; it is dead now and can be
    /// forgotten. The process that it fired last lives on.
    pub fn timer_cancel(&mut self, id: TimerId) -> Option<ProcessId> {
        let timer = self.timers.get_mut(id.0)?;
        let prepared = timer.prepared.take();
        self.deadlines.cancel(Owner::Timer(id.0.index));
        self.end_timer(id.0.index);
        let prepared = prepared?;
        let index = self.processes.find(prepared)?;
        if self.processes[index].phase == Phase::Prepared {
            self.discard_prepared(index);
        }
        Some(prepared)
    }

    /// Drops the timer's handle: the timer is freed as soon as it is no longer pending.
    pub fn timer_free(&mut self, id: TimerId) {
        if let Some(timer) = self.timers.get_mut(id.0) {
            timer.is_detached = true;
            if !timer.is_pending {
                self.timers.remove(id.0);
            }
        }
    }

    /// The counts of a timer.
    pub fn timer_stats(&self, id: TimerId) -> Option<TimerStats> {
        self.timers.get(id.0).map(|timer| timer.stats)
    }

    /// When a timer fires next; `None` while it is not armed.
    pub fn timer_due(&self, id: TimerId) -> Option<Instant> {
        self.timers.get(id.0)?;
        self.deadlines
            .of(Owner::Timer(id.0.index))
            .map(Instant::from_nanos)
    }

    /// How many timers are pending.
    #[inline]
    pub fn pending_timers(&self) -> usize {
        self.pending_timers
    }

    /// Fires a timer that is due, unless its last process still lives.
    pub(in crate::sched) fn fire_timer(&mut self, index: u32, due: u64) {
        let Some(timer) = self.timers.at_mut(index) else {
            return;
        };
        if timer.alarm.is_some() {
            return self.go_off(index);
        }
        timer.due = due;
        let is_busy = timer
            .running
            .is_some_and(|last| self.processes.find_alive(last).is_some());
        if is_busy {
            timer.stats.skipped += 1;
            self.counters.timers_skipped += 1;
            self.arm_again(index);
            return;
        }
        let prepared = timer.prepared.take();
        let ready = prepared.and_then(|prepared| self.processes.find(prepared));
        match ready.filter(|&process| self.processes[process].phase == Phase::Prepared) {
            Some(process) => {
                timer.running = prepared;
                timer.stats.fired += 1;
                self.counters.timers_fired += 1;
                self.fire(process);
            }
            None => {
                timer.stats.skipped += 1;
                self.counters.timers_skipped += 1;
            }
        }
        if self
            .timers
            .at(index)
            .is_some_and(|timer| timer.period.is_none())
        {
            self.end_timer(index);
        }
    }

    /// Sets the deadline of a periodic timer to the next multiple that has not passed.
    fn arm_again(&mut self, index: u32) {
        let now = self.now.as_nanos();
        let Some(timer) = self.timers.at_mut(index) else {
            return;
        };
        let Some(period) = timer.period else { return };
        let mut next = timer.due.saturating_add(period);
        if next <= now {
            let passed = (now - next) / period + 1;
            timer.stats.skipped += passed;
            self.counters.timers_skipped += passed;
            next = next.saturating_add(passed.saturating_mul(period));
        }
        timer.due = next;
        self.deadlines.set(Owner::Timer(index), next);
    }

    /// Marks a timer as no longer pending.
    fn end_timer(&mut self, index: u32) {
        let Some(timer) = self.timers.at_mut(index) else {
            return;
        };
        if std::mem::replace(&mut timer.is_pending, false) {
            self.pending_timers -= 1;
        }
        if timer.is_detached
            && let Some(key) = self.timers.key_at(index)
        {
            self.timers.remove(key);
        }
        self.wake_if_at_rest();
    }
}
