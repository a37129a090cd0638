//! A running process that does not give way, of which the user is told.

use super::next_poll::TICK;
use baton_sys::clock::Instant;
use baton_sys::signals::ThreadHandle;
use std::time::Duration;

/// What the running process was asked to give way for, well before now, and has not.
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

    /// Whether something was unanswered before and still is.
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
    /// It does not answer this, though the gate may move.
    Unresponsive(Unanswered),
}

/// The running process does not give way.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stall {
    since: Instant,
    pub(super) cause: Cause,
    /// What its thread had used of a processor by then.
    cpu: Duration,
    /// The gate value at the last poll, when that was, and for how long it has been seen moving.
    seen: u64,
    seen_at: Instant,
    gate_moved_for: Duration,
    /// It was reported.
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
        // A gate that stands even is that of the guest itself, which computes inside of the VM.
        if std::mem::replace(&mut self.seen, value) != value || value & 1 == 0 {
            self.gate_moved_for += elapsed.min(TICK);
        }
    }

    /// Whether it has lasted for `patience`: standing in a call that waits or computes, or seen
    /// moving. A thread that the system does not let run is not to blame.
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

/// What the running process has not answered: a stall begins, or goes on as long as any of it
/// is what it was. On a machine with too much to do, each poll may find something unanswered,
/// though all of it is answered whenever the system lets the process run.
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

    /// When the stall began that is seen after polls which find this unanswered, in
    /// microseconds.
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
    fn what_is_unanswered_for_the_first_time_at_each_look_is_no_stall() {
        let polls: Vec<_> = (1..100)
            .map(|poll| (10 * poll, deadline(10 * poll - 5)))
            .collect();
        assert_eq!(began_after(&polls), Some(990));
        // The slice's end that came later has been answered, too.
        let polls = [(10, deadline(1)), (20, both(15, 1)), (30, deadline(25))];
        assert_eq!(began_after(&polls), Some(30));
    }

    #[test]
    fn an_exclusive_call_is_not_answered_for() {
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
