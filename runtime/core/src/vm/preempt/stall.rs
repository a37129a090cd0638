//! Detects a running process that does not give way, for a warning to the user.

use super::next_poll::TICK;
use baton_sys::clock::Instant;
use baton_sys::signals::ThreadHandle;
use std::time::Duration;

/// Preempt requests that the running process has left unanswered for long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Unanswered {
    /// The end of its slice.
    pub(in crate::vm) slice: Option<Instant>,
    /// The earliest deadline.
    pub(in crate::vm) deadline: Option<Instant>,
}

impl Unanswered {
    fn is_empty(self) -> bool {
        self == Unanswered::default()
    }

    /// Whether something that was unanswered in `before` still is.
    fn goes_on(self, before: Unanswered) -> bool {
        self.slice.is_some() && self.slice == before.slice
            || self.deadline.is_some() && self.deadline == before.deadline
    }
}

/// Why a process does not give way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// An exclusive call, by its gate value.
    Call(u64),
    /// It does not answer these requests, though the gate may move.
    Unresponsive(Unanswered),
}

/// A stall: the running process does not give way.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stall {
    since: Instant,
    pub(super) cause: Cause,
    /// The processor time of its thread at the start.
    cpu: Duration,
    /// The gate value at the last poll, when that was, and how long the gate has been seen moving.
    seen: u64,
    seen_at: Instant,
    gate_moved_for: Duration,
    /// The warning has been sent.
    pub(super) warned: bool,
}

impl Stall {
    pub(in crate::vm) fn new(now: Instant, cause: Cause, thread: ThreadHandle) -> Stall {
        Stall {
            since: now,
            cause,
            cpu: thread
                .activity()
                .map_or(Duration::ZERO, |activity| activity.cpu),
            seen: match cause {
                Cause::Call(value) => value,
                Cause::Unresponsive(_) => 0,
            },
            seen_at: now,
            gate_moved_for: Duration::ZERO,
            warned: false,
        }
    }

    pub(in crate::vm) fn note(&mut self, now: Instant, value: u64) {
        let elapsed = now.saturating_duration_since(std::mem::replace(&mut self.seen_at, now));
        // An even gate that does not change is the guest itself, computing inside the VM.
        if std::mem::replace(&mut self.seen, value) != value || value & 1 == 0 {
            self.gate_moved_for += elapsed.min(TICK);
        }
    }

    /// Whether the stall has lasted for `patience`: in one call, or with a moving gate. A thread
    /// that does not get a processor is not counted.
    pub(in crate::vm) fn is_due(
        &self,
        now: Instant,
        thread: ThreadHandle,
        patience: Duration,
    ) -> bool {
        let lasted = match self.cause {
            Cause::Call(_) => now.saturating_duration_since(self.since),
            Cause::Unresponsive(_) => self.gate_moved_for,
        };
        if self.warned || lasted < patience {
            return false;
        }
        match thread.activity() {
            Some(activity) if activity.is_runnable => {
                activity.cpu.saturating_sub(self.cpu) + TICK >= patience
            }
            _ => true,
        }
    }
}

/// Updates the stall: it begins with an unanswered request, and continues while one of those
/// requests is still unanswered. On an overloaded machine each poll may find something unanswered,
/// although each request is answered when the process gets a processor; that is no stall.
pub(super) fn note_answers(
    stall: &mut Option<Stall>,
    now: Instant,
    unanswered: Unanswered,
    thread: ThreadHandle,
) {
    if let Some(Stall { cause, .. }) = stall {
        let Cause::Unresponsive(before) = cause else {
            return;
        };
        if unanswered.goes_on(*before) {
            *before = unanswered;
            return;
        }
        *stall = None;
    }
    if !unanswered.is_empty() {
        *stall = Some(Stall::new(now, Cause::Unresponsive(unanswered), thread));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Instant {
        Instant::from_nanos(micros * 1000)
    }

    fn deadline(micros: u64) -> Unanswered {
        Unanswered {
            deadline: Some(at(micros)),
            ..Unanswered::default()
        }
    }

    fn both(slice: u64, of_deadline: u64) -> Unanswered {
        Unanswered {
            slice: Some(at(slice)),
            ..deadline(of_deadline)
        }
    }

    /// When the stall began, in microseconds, after these polls.
    fn began_after(polls: &[(u64, Unanswered)]) -> Option<u64> {
        let mut stall = None;
        for &(now, unanswered) in polls {
            note_answers(&mut stall, at(now), unanswered, ThreadHandle::current());
        }
        stall.map(|stall| stall.since.as_nanos() / 1000)
    }

    #[test]
    fn a_stall_lasts_while_the_same_is_unanswered() {
        let polls = [
            (10, deadline(1)),
            (20, both(15, 1)),
            (30, both(15, 25)),
            (40, both(15, 35)),
        ];
        assert_eq!(began_after(&polls), Some(10));
        assert_eq!(
            began_after(&[(10, deadline(1)), (20, Unanswered::default())]),
            None
        );
    }

    #[test]
    fn a_new_unanswered_request_at_each_poll_is_no_stall() {
        let polls: Vec<_> = (1..100)
            .map(|poll| (10 * poll, deadline(10 * poll - 5)))
            .collect();
        assert_eq!(began_after(&polls), Some(990));
        // The end of the slice, which came later, has been answered, too.
        let polls = [(10, deadline(1)), (20, both(15, 1)), (30, deadline(25))];
        assert_eq!(began_after(&polls), Some(30));
    }

    #[test]
    fn answers_do_not_end_the_stall_of_an_exclusive_call() {
        let mut stall = Some(Stall::new(at(5), Cause::Call(7), ThreadHandle::current()));
        note_answers(&mut stall, at(10), deadline(1), ThreadHandle::current());
        note_answers(
            &mut stall,
            at(20),
            Unanswered::default(),
            ThreadHandle::current(),
        );
        assert!(stall.is_some_and(|stall| stall.cause == Cause::Call(7)));
    }
}
