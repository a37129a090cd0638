//! How the owner calls the monitor: at once, or for the time when there will be something to look at.
//!
//! A process that a timer has woken runs for some microseconds, as a rule, and then the owner waits again. Had the monitor been woken for it, that
//! would have cost more than the process: a thread's wake-up, and some ticks until the monitor parks. So the owner sets an [`Alarm`](baton_sys::poller::Alarm)
//! in the monitor's poller for the time of the first look that would find anything, and moves it beyond its own deadline when it waits. Only what lasts
//! longer than that wakes the monitor. A timer of a kilohertz costs one call of the system for it at each firing, and none of them programs the processor's timer anew.
//!
//! | `alarm_at` | meaning | left by |
//! |---|---|---|
//! | `NOT_SET` | no alarm | `call_monitor`, with a look to come |
//! | ahead | it will go off then | `call_monitor` for an earlier look; `call_monitor_off` for a later one or none |
//! | past | it has gone off, but perhaps the monitor has not got a processor yet | `call_monitor`, which then alerts; `call_monitor_off` |
//!
//! **No look is lost.** Whoever finds that the monitor looks too late ([`monitor`](crate::monitor)) either alerts it or leaves an alarm set that goes off in time;
//! the kernel keeps an alarm that went off for the monitor's next wait. An alarm in the past is never set to another time, as the monitor may not
//! have heard of it; it is replaced by an alert. It is cleared or put off only by an owner that is about to wait, who needs no looks.

use super::Vm;
use baton_sys::clock::Instant;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The value of `alarm_at` while no alarm is set.
pub(super) const NOT_SET: u64 = u64::MAX;

/// When work that waits is looked at first: sooner there is nothing to do for it, as no slice and no window is over.
const FIRST_LOOK: Duration = Duration::from_micros(100);

/// How long a process may run after a rest before deadlines are met beside it.
const MOMENT: Duration = Duration::from_micros(200);

/// How late an owner may wake up that a deadline wakes, after a short wait and after a long one. A machine that rests takes longer for it than a process
/// runs as a rule, the longer it has rested.
const WAKE_UP: Duration = Duration::from_micros(600);
const WAKE_UP_FROM_REST: Duration = Duration::from_millis(20);

impl Vm {
    /// The owner has published what the monitor would look at too late: work that waits, or the deadline.
    #[cold]
    pub(super) fn call_monitor(&self, work_waits: bool, deadline: u64) {
        if self.is_simulated() {
            return;
        }
        let now = Instant::now();
        let due = before_deadline(now, deadline, self.parameters.window.get());
        let wanted = match work_waits {
            true => due.min(now + FIRST_LOOK),
            false if self.monitor.is_parked() => due.max(now + MOMENT),
            false => due,
        };
        // Relaxed (here and below): the owner's alone; the VM's mutex orders one owner after another.
        let set = self.alarm_at.load(Ordering::Relaxed);
        if set > now.as_nanos() && set <= wanted.as_nanos() {
            return;
        }
        if set > now.as_nanos() && wanted > now && self.set_alarm(wanted) {
            return;
        }
        // Relaxed: as above.
        self.alarm_at.store(NOT_SET, Ordering::Relaxed);
        self.counters.monitor_alerts.increment();
        self.monitor.alert();
    }

    /// The owner is about to wait until `deadline`, and needs no look before.
    #[inline]
    pub(super) fn call_monitor_off(&self, deadline: Option<Instant>) {
        // Relaxed: as in `call_monitor`.
        let set = self.alarm_at.load(Ordering::Relaxed);
        if set != NOT_SET && deadline.is_none_or(|deadline| deadline.as_nanos() >= set) {
            self.put_alarm_off(deadline);
        }
    }

    fn put_alarm_off(&self, deadline: Option<Instant>) {
        let wakes_up = |deadline: Instant| deadline + wake_up_after(deadline.saturating_duration_since(Instant::now()));
        if deadline.is_some_and(|deadline| self.set_alarm(wakes_up(deadline))) {
            return;
        }
        // Relaxed: as in `call_monitor`.
        self.alarm_at.store(NOT_SET, Ordering::Relaxed);
        if let Some(alarm) = &self.alarm {
            alarm.clear();
        }
    }

    /// In a fork's child: an alarm of its own, in the poller of its own monitor.
    pub(super) fn reopen_alarm_after_fork(&self) -> std::io::Result<()> {
        // Relaxed: there is no other thread.
        self.alarm_at.store(NOT_SET, Ordering::Relaxed);
        let Some(alarm) = &self.alarm else { return Ok(()) };
        alarm.reopen_after_fork()?;
        self.monitor.listen_for(alarm)
    }

    /// Says whether it is set: there may be no alarm, or nobody yet who would hear it.
    fn set_alarm(&self, at: Instant) -> bool {
        let alarm = self.alarm.as_ref().filter(|_| self.monitor.has_started());
        let is_set = alarm.is_some_and(|alarm| alarm.set(at).is_ok());
        if is_set {
            // Relaxed: as in `call_monitor`.
            self.alarm_at.store(at.as_nanos(), Ordering::Relaxed);
        }
        is_set
    }
}

/// How late an owner may wake up after a wait.
fn wake_up_after(wait: Duration) -> Duration {
    (wait / 16).clamp(WAKE_UP, WAKE_UP_FROM_REST)
}

/// A little before the deadline the gate is read once, so that at the deadline its age is known.
pub(super) fn before_deadline(now: Instant, deadline: u64, window: Duration) -> Instant {
    let window = u64::try_from(window.as_nanos()).unwrap_or(u64::MAX);
    let early = deadline.saturating_sub(window.saturating_add(5_000));
    Instant::from_nanos(if early > now.as_nanos() { early } else { deadline })
}
