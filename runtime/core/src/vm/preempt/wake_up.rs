//! Wake-ups of the monitor by the owner: at once, or at the time of the first poll that would find
//! anything.
//!
//! A process that a timer has woken usually runs for some microseconds, and then the owner waits
//! again. To wake the monitor for it would cost more than the process itself: a thread's wake-up,
//! and some ticks until the monitor rests. Instead the owner sets a
//! [`WakeUpTimer`](baton_sys::poller::WakeUpTimer) in the monitor's poller for the first poll that
//! would find anything. When the owner waits, it moves that timer beyond its own deadline. So only
//! a process that runs for longer wakes the monitor. A timer of 1 kHz costs one such system call
//! per firing, and none of them reprograms the processor's timer.
//!
//! | `wake_up_at` | meaning | left by |
//! |---|---|---|
//! | `NOT_SET` | no wake-up | `wake_monitor`, with a poll to come |
//! | future | the timer will expire then | `wake_monitor` for an earlier poll; `cancel_wake_up` for a later one or none |
//! | past | it has expired, but the monitor may not have got a processor yet | `wake_monitor`, which then alerts; `cancel_wake_up` |
//!
//! **No poll is lost.** An owner that finds that the monitor polls too late
//! ([`monitor`](crate::vm::preempt::monitor)) either alerts it or leaves a timer set that expires
//! in time. The kernel keeps an expiry for the monitor's next wait. An expired timer is never set
//! to another time by `wake_monitor`, as the monitor may not have seen it; an alert replaces it.
//! Only an owner that is about to wait, and so needs no polls, clears or postpones it.

use crate::vm::Vm;
use baton_sys::clock::Instant;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The value of `wake_up_at` while no wake-up is set.
pub(in crate::vm) const NOT_SET: u64 = u64::MAX;

/// The time of the first poll after work begins to wait. Before that no slice and no window is
/// over.
const FIRST_POLL: Duration = Duration::from_micros(100);

/// How long a process may run after a wait before the monitor must expire deadlines for it.
const MOMENT: Duration = Duration::from_micros(200);

/// How late a deadline may wake an owner after a short wait, and after a long one. A machine wakes
/// up later the longer it has rested, and usually more slowly than a process runs.
const WAKE_UP: Duration = Duration::from_micros(600);
const WAKE_UP_FROM_REST: Duration = Duration::from_millis(20);

impl Vm {
    /// Wakes the monitor, now or in time for the first useful poll. The hints show work that waits,
    /// or a deadline, for which its next poll is too late.
    #[cold]
    pub(super) fn wake_monitor(&self, work_waits: bool, deadline: u64) {
        if self.is_simulated() {
            return;
        }
        let now = Instant::now();
        let due = before_deadline(now, deadline, self.parameters.window.get());
        let wanted = match work_waits {
            true => due.min(now + FIRST_POLL),
            false if self.monitor.is_resting() => due.max(now + MOMENT),
            false => due,
        };
        // Relaxed (here and below): only the owner writes it; the VM's mutex orders successive
        // owners.
        let set = self.wake_up_at.load(Ordering::Relaxed);
        if set > now.as_nanos() && set <= wanted.as_nanos() {
            return;
        }
        if set > now.as_nanos() && wanted > now && self.set_wake_up(wanted) {
            return;
        }
        // Relaxed: as above.
        self.wake_up_at.store(NOT_SET, Ordering::Relaxed);
        self.counters.monitor_alerts.increment();
        self.monitor.alert();
    }

    /// Clears or postpones the wake-up: the owner is about to wait until `deadline`, and needs no
    /// poll before.
    #[inline]
    pub(in crate::vm) fn cancel_wake_up(&self, deadline: Option<Instant>) {
        // Relaxed: as in `wake_monitor`.
        let set = self.wake_up_at.load(Ordering::Relaxed);
        if set != NOT_SET && deadline.is_none_or(|deadline| deadline.as_nanos() >= set) {
            self.postpone_wake_up(deadline);
        }
    }

    fn postpone_wake_up(&self, deadline: Option<Instant>) {
        let wakes_up = |deadline: Instant| {
            deadline + wake_up_after(deadline.saturating_duration_since(Instant::now()))
        };
        if deadline.is_some_and(|deadline| self.set_wake_up(wakes_up(deadline))) {
            return;
        }
        // Relaxed: as in `wake_monitor`.
        self.wake_up_at.store(NOT_SET, Ordering::Relaxed);
        if let Some(timer) = &self.wake_up_timer {
            timer.clear();
        }
    }

    /// Reopens the timer in a fork's child, in the poller of the child's own monitor.
    pub(in crate::vm) fn reopen_wake_up_timer_after_fork(&self) -> std::io::Result<()> {
        // Relaxed: there is no other thread.
        self.wake_up_at.store(NOT_SET, Ordering::Relaxed);
        let Some(timer) = &self.wake_up_timer else {
            return Ok(());
        };
        timer.reopen_after_fork()?;
        self.monitor.listen_for(timer)
    }

    /// Sets the timer. Returns whether it is set: the system may have no such timer, and the
    /// monitor may not have started.
    fn set_wake_up(&self, at: Instant) -> bool {
        let timer = self
            .wake_up_timer
            .as_ref()
            .filter(|_| self.monitor.has_started());
        let is_set = timer.is_some_and(|timer| timer.set(at).is_ok());
        if is_set {
            // Relaxed: as in `wake_monitor`.
            self.wake_up_at.store(at.as_nanos(), Ordering::Relaxed);
        }
        is_set
    }
}

/// How late an owner may wake up after a wait.
fn wake_up_after(wait: Duration) -> Duration {
    (wait / 16).clamp(WAKE_UP, WAKE_UP_FROM_REST)
}

/// A time shortly before the deadline. The gate is read then, so that its age is known at the
/// deadline.
pub(super) fn before_deadline(now: Instant, deadline: u64, window: Duration) -> Instant {
    let window = u64::try_from(window.as_nanos()).unwrap_or(u64::MAX);
    let early = deadline.saturating_sub(window.saturating_add(5_000));
    Instant::from_nanos(if early > now.as_nanos() {
        early
    } else {
        deadline
    })
}
