//! Preempt requests: what for, when to repeat them, and the pace of those for deadlines.

use super::next_poll::TICK;
use baton_sys::clock::Instant;
use std::time::Duration;

/// How long a preempt request may go unnoticed before a signal is sent; also the shortest time
/// between two requests for deadlines.
pub(super) const REQUEST_TICK: Duration = Duration::from_micros(50);

/// A preempt request that may be unanswered.
#[derive(Debug, Clone, Copy)]
pub(super) struct PreemptRequest {
    /// The gate's value at the request. The request is over when this, the run or what is wanted
    /// changes.
    pub(super) gate: u64,
    pub(super) wanted: Wanted,
    /// When the next signal is due, if it is not answered by then.
    pub(super) check_at: Instant,
    /// The processor time of its thread at the last flag or signal.
    pub(super) cpu: Option<Duration>,
}

impl PreemptRequest {
    /// How long a signal may go unanswered.
    pub(super) const GAP: Duration = Duration::from_micros(200);

    /// Notes a signal, and the thread's processor time. A thread that has not run since the last
    /// signal will see it as soon as it runs. More polls would only take processor time from the
    /// program that it waits for.
    pub(super) fn check_again(&mut self, now: Instant, cpu: Option<Duration>) {
        let has_not_run = cpu.is_some() && cpu == self.cpu;
        self.check_at = now + if has_not_run { TICK } else { Self::GAP };
        self.cpu = cpu;
    }
}

/// Signals that the running process does not answer, although it computes.
#[derive(Debug)]
pub(super) struct Unheard {
    since: Instant,
    /// The processor time of its thread then.
    cpu: Option<Duration>,
    /// For how long the thread must have computed since then before somebody looks why.
    patience: Duration,
}

impl Unheard {
    /// The patience at first. Longer ones follow, as a look costs some microseconds.
    pub(super) const PATIENCE: Duration = Duration::from_millis(100);

    pub(super) fn begin(now: Instant, cpu: Option<Duration>) -> Unheard {
        Unheard {
            since: now,
            cpu,
            patience: Self::PATIENCE,
        }
    }

    /// Whether it is time to look why there is no answer.
    pub(super) fn must_look(&mut self, now: Instant, cpu: Option<Duration>) -> bool {
        let computed = cpu
            .zip(self.cpu)
            .map(|(cpu, before)| cpu.saturating_sub(before));
        let passed = now.saturating_duration_since(self.since);
        let must_look = computed.unwrap_or(passed) >= self.patience;
        if must_look {
            self.patience *= 2;
        }
        must_look
    }
}

/// The reasons of a preempt request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Wanted {
    /// Its slice is over; something is posted; a more urgent process is runnable.
    pub(super) slice_over: bool,
    pub(super) posted: bool,
    pub(super) outranked: bool,
    /// The time that the host gave is used up.
    pub(super) stint_over: bool,
    /// A deadline that is due.
    pub(super) deadline: Option<Instant>,
}

impl Wanted {
    pub(super) fn is_nothing(self) -> bool {
        self == Wanted::default()
    }

    pub(super) fn is_a_slice_alone(self) -> bool {
        let slice_over = true;
        self == Wanted {
            slice_over,
            ..Wanted::default()
        }
    }

    pub(super) fn is_a_deadline_alone(self) -> bool {
        let deadline = self.deadline;
        deadline.is_some()
            && self
                == Wanted {
                    deadline,
                    ..Wanted::default()
                }
    }

    /// Whether a reason is not among those of `before`. Another deadline is due only after the one
    /// before was answered.
    pub(super) fn adds_to(self, before: Wanted) -> bool {
        self.slice_over && !before.slice_over
            || self.posted && !before.posted
            || self.outranked && !before.outranked
            || self.stint_over && !before.stint_over
            || self.deadline.is_some() && self.deadline != before.deadline
    }
}

/// The pace of requests for deadlines. With many timers, each poll finds some that are due. Back
/// off from 50 us to 1 ms while deadlines keep arriving late.
#[derive(Debug)]
pub(super) struct Pace {
    /// The deadline that was last requested, and when.
    asked_for: Option<Instant>,
    asked_at: Instant,
    gap: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Pace {
            asked_for: None,
            asked_at: Instant::from_nanos(0),
            gap: REQUEST_TICK,
        }
    }
}

impl Pace {
    /// The longest time between two deadlines.
    const LONGEST: Duration = Duration::from_millis(1);

    /// The earliest time at which the owner may be asked for this deadline: at once, if it has not
    /// answered for it yet.
    pub(super) fn may_ask(&self, deadline: Instant) -> Instant {
        if self.asked_for == Some(deadline) {
            self.asked_at
        } else {
            self.asked_at + self.gap
        }
    }

    /// The shortest time between two deadlines at present.
    pub(super) fn gap(&self) -> Duration {
        self.gap
    }

    /// The time before which no other deadline is requested, if the pace is slower than the normal
    /// one; otherwise a time long past.
    pub(super) fn asks_from(&self) -> Instant {
        if self.gap > REQUEST_TICK {
            self.asked_at + self.gap
        } else {
            Instant::from_nanos(0)
        }
    }

    pub(super) fn note_asked(&mut self, deadline: Instant, now: Instant) {
        if self.asked_for == Some(deadline) {
            return;
        }
        self.gap = if deadline < self.asked_at + self.gap {
            (2 * self.gap).min(Self::LONGEST)
        } else {
            (self.gap / 2).max(REQUEST_TICK)
        };
        self.asked_for = Some(deadline);
        self.asked_at = now;
    }
}
