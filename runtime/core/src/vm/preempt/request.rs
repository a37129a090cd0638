//! Preempt requests, as the monitor remembers them: what for, and when to repeat them.

use super::next_poll::TICK;
use baton_sys::clock::Instant;
use std::time::Duration;

/// How long a preempt request may go unnoticed before a signal is sent; also the shortest time
/// between two requests for deadlines.
pub(super) const REQUEST_TICK: Duration = Duration::from_micros(50);

/// A preempt request: a flag, and signals if the running process does not notice the flag.
#[derive(Debug, Clone, Copy)]
pub(super) struct PreemptRequest {
    /// The gate's value at the request. The request is over when this, the switch count or what is
    /// wanted changes.
    pub(in crate::vm) gate: u64,
    pub(in crate::vm) wanted: Wanted,
    /// When the next signal is due.
    pub(super) signal_at: Instant,
    signals: u32,
    /// The processor time of its thread at the last flag or signal.
    cpu: Option<Duration>,
}

/// The reasons of a preempt request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wanted {
    /// Its slice is over; something is posted; a more urgent process is runnable.
    pub(super) slice_over: bool,
    pub(in crate::vm) posted: bool,
    pub(in crate::vm) outranked: bool,
    /// A deadline that is due, in nanoseconds; 0: none.
    pub(in crate::vm) deadline: u64,
}

impl Wanted {
    pub(super) fn is_nothing(self) -> bool {
        !(self.slice_over || self.posted || self.outranked || self.deadline != 0)
    }

    pub(super) fn is_a_slice_alone(self) -> bool {
        self.slice_over && !(self.posted || self.outranked || self.deadline != 0)
    }

    pub(super) fn is_a_deadline_alone(self) -> bool {
        self.deadline != 0 && !(self.slice_over || self.posted || self.outranked)
    }

    /// Whether a reason is not among those of `before`. Another deadline is due only after the one
    /// before was answered.
    pub(super) fn adds_to(self, before: Wanted) -> bool {
        self.slice_over && !before.slice_over
            || self.posted && !before.posted
            || self.outranked && !before.outranked
            || self.deadline != 0 && self.deadline != before.deadline
    }
}

impl PreemptRequest {
    const GAP: Duration = Duration::from_micros(200);

    pub(in crate::vm) fn new(gate: u64, wanted: Wanted, signal_at: Instant) -> PreemptRequest {
        PreemptRequest {
            gate,
            wanted,
            signal_at,
            signals: 0,
            cpu: None,
        }
    }

    /// Whether the request is unanswered and already covers all that is wanted now.
    pub(super) fn asks_for(&self, gate: u64, wanted: Wanted) -> bool {
        self.gate == gate && !wanted.adds_to(self.wanted)
    }

    /// Notes the first signal to a thread that has answered the last ones. It is polled again only
    /// after `next_poll`.
    pub(super) fn note_first_signal(&mut self, now: Instant, next_poll: Duration) {
        self.signals += 1;
        self.signal_at = now + next_poll;
    }

    /// How many signals have been sent.
    pub(in crate::vm) fn signals(&self) -> u32 {
        self.signals
    }

    /// Notes that the flag was set; `cpu` as in [`PreemptRequest::note_signal`].
    pub(super) fn note_flag(&mut self, cpu: Option<Duration>) {
        self.cpu = cpu;
    }

    /// Notes that a signal was sent; `cpu` is the thread's processor time by now. A thread that has
    /// not run since the last signal will see it as soon as it runs. More polls would only take
    /// processor time from the program that it waits for.
    pub(super) fn note_signal(&mut self, now: Instant, cpu: Option<Duration>) {
        let stands = cpu.is_some() && cpu == self.cpu;
        let gap = if stands { TICK } else { Self::GAP };
        self.signal_at = now + gap;
        self.signals += 1;
        self.cpu = cpu;
    }
}

/// The pace of requests for deadlines. With many timers, each poll finds some that are due. Back
/// off from 50 us to 1 ms while deadlines keep arriving late.
#[derive(Debug)]
pub(super) struct Pace {
    /// The deadline, in nanoseconds, that was last requested, and when.
    asked_for: u64,
    asked_at: Instant,
    gap: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Pace {
            asked_for: 0,
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
    pub(super) fn may_ask(&self, deadline: u64) -> Instant {
        if deadline == self.asked_for {
            self.asked_at
        } else {
            self.asked_at + self.gap
        }
    }

    /// The shortest time between two deadlines at present.
    pub(super) fn gap(&self) -> Duration {
        self.gap
    }

    /// That time, if the pace is slower than the normal one.
    pub(super) fn asks_from(&self) -> Option<Instant> {
        (self.gap > REQUEST_TICK).then(|| self.asked_at + self.gap)
    }

    pub(super) fn note_asked(&mut self, deadline: u64, now: Instant) {
        if deadline == self.asked_for {
            return;
        }
        let due = Instant::from_nanos(deadline);
        self.gap = if due < self.asked_at + self.gap {
            (2 * self.gap).min(Self::LONGEST)
        } else if due < self.asked_at + 4 * Self::LONGEST {
            (self.gap / 2).max(REQUEST_TICK)
        } else {
            REQUEST_TICK
        };
        self.asked_for = deadline;
        self.asked_at = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Instant {
        Instant::from_nanos(micros * 1000)
    }

    /// Requests a deadline as soon as allowed. Returns when, in microseconds.
    fn ask(pace: &mut Pace, due: u64) -> u64 {
        let now = pace.may_ask(at(due).as_nanos()).max(at(due));
        pace.note_asked(at(due).as_nanos(), now);
        now.as_nanos() / 1000
    }

    #[test]
    fn requests_back_off_while_deadlines_arrive_late() {
        let mut pace = Pace::default();
        let mut asked = vec![ask(&mut pace, 10_000)];
        for _ in 0..8 {
            let last = asked[asked.len() - 1];
            asked.push(ask(&mut pace, last + 1));
        }
        let gaps: Vec<u64> = asked.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert_eq!(gaps, [50, 100, 200, 400, 800, 1000, 1000, 1000]);
        // Deadlines that did not have to wait end the back-off.
        for rare in [20_000, 30_000, 40_000, 50_000, 60_000, 60_060] {
            assert_eq!(ask(&mut pace, rare), rare);
        }
    }

    #[test]
    fn an_unanswered_deadline_is_requested_again_at_once() {
        let mut pace = Pace::default();
        assert_eq!(ask(&mut pace, 10_000), 10_000);
        assert_eq!(ask(&mut pace, 10_000), 10_000);
        assert_eq!(ask(&mut pace, 10_001), 10_050);
    }

    const NOTHING: Wanted = Wanted {
        slice_over: false,
        posted: false,
        outranked: false,
        deadline: 0,
    };

    #[test]
    fn a_thread_that_does_not_run_is_signalled_once_a_tick() {
        let mut request = PreemptRequest::new(4, NOTHING, at(50));
        let mut times = vec![request.signal_at.as_nanos() / 1000];
        // The thread runs once, and then does not.
        for cpu in [1, 2, 2, 2, 2, 3] {
            request.note_signal(request.signal_at, Some(Duration::from_micros(cpu)));
            times.push(request.signal_at.as_nanos() / 1000);
        }
        let gaps: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert_eq!(
            (times[0], gaps),
            (50, vec![200, 200, 2000, 2000, 2000, 200])
        );
        let mut request = PreemptRequest::new(4, NOTHING, at(50));
        request.note_flag(Some(Duration::from_micros(9)));
        request.note_signal(at(50), Some(Duration::from_micros(9)));
        assert_eq!(request.signal_at, at(2_050));
        // If the system does not report processor time, the thread may have run.
        for _ in 0..3 {
            request.note_signal(at(0), None);
            assert_eq!(request.signal_at, at(200));
        }
    }

    #[test]
    fn a_thread_that_answers_signals_gets_more_time_for_the_first() {
        let mut request = PreemptRequest::new(4, NOTHING, at(0));
        assert_eq!(request.signals(), 0);
        request.note_first_signal(at(10), Duration::from_millis(1));
        assert_eq!((request.signals(), request.signal_at), (1, at(1_010)));
        request.note_signal(at(1_010), None);
        assert_eq!((request.signals(), request.signal_at), (2, at(1_210)));
    }

    #[test]
    fn only_new_reasons_need_a_new_request() {
        let posted = Wanted {
            posted: true,
            ..NOTHING
        };
        let due = Wanted {
            deadline: 7,
            ..NOTHING
        };
        let both = Wanted {
            deadline: 7,
            ..posted
        };
        let later = Wanted {
            deadline: 8,
            ..NOTHING
        };
        assert!(NOTHING.is_nothing() && !posted.is_nothing() && !due.is_nothing());
        let slice = Wanted {
            slice_over: true,
            ..NOTHING
        };
        let slice_and_post = Wanted {
            posted: true,
            ..slice
        };
        assert!(
            slice.is_a_slice_alone()
                && !due.is_a_slice_alone()
                && !slice_and_post.is_a_slice_alone()
        );
        assert!(
            due.is_a_deadline_alone()
                && !both.is_a_deadline_alone()
                && !posted.is_a_deadline_alone()
        );
        for new in [posted, due, both] {
            assert!(new.adds_to(NOTHING) && !new.adds_to(new) && !NOTHING.adds_to(new));
        }
        let request = PreemptRequest::new(4, due, at(50));
        assert!(
            request.asks_for(4, due)
                && !request.asks_for(6, due)
                && !request.asks_for(4, later)
                && !request.asks_for(4, both)
        );
        assert!(
            later.adds_to(due) && both.adds_to(due) && both.adds_to(posted) && !due.adds_to(both)
        );
        for other in [
            Wanted {
                slice_over: true,
                ..both
            },
            Wanted {
                outranked: true,
                ..both
            },
        ] {
            assert!(other.adds_to(both) && !both.adds_to(other));
        }
    }
}
