//! Detects a running process that does not give way, for a warning to the user.

use super::next_poll::TICK;
use baton_sys::clock::Instant;
use std::time::Duration;

/// What the running process has been asked for, and has not done yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unanswered {
    pub(super) slice_over: bool,
    /// The earliest deadline, if it is due.
    pub(super) due: Option<Instant>,
}

impl Unanswered {
    pub(super) fn cause(self) -> Option<Cause> {
        (self.slice_over || self.due.is_some()).then_some(Cause::Unanswered(self))
    }
}

/// Why a process does not give way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// An exclusive call, by its gate value.
    Call(u64),
    /// It does not answer these requests, though the gate may move.
    Unanswered(Unanswered),
}

impl Cause {
    /// Whether the stall is the same as that of `before`. On an overloaded machine each poll may
    /// find something unanswered, although each request is answered when the process gets a
    /// processor; that is no stall.
    fn goes_on(self, before: Cause) -> bool {
        match (self, before) {
            (Cause::Call(gate), Cause::Call(gate_before)) => gate == gate_before,
            (Cause::Unanswered(it), Cause::Unanswered(before)) => {
                it.slice_over && before.slice_over || it.due.is_some() && it.due == before.due
            }
            _ => false,
        }
    }
}

/// A stall: the running process does not give way. A new run ends it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stall {
    since: Instant,
    pub(super) cause: Cause,
    /// The processor time of its thread at the start.
    cpu: Option<Duration>,
    /// The warning has been given.
    pub(super) warned: bool,
}

impl Stall {
    /// Begins, continues or ends the stall.
    pub(super) fn update(
        stall: &mut Option<Stall>,
        cause: Option<Cause>,
        now: Instant,
        cpu: Option<Duration>,
    ) {
        *stall = cause.map(|cause| match *stall {
            Some(before) if cause.goes_on(before.cause) => Stall { cause, ..before },
            _ => Stall {
                since: now,
                cause,
                cpu,
                warned: false,
            },
        });
    }

    /// Whether the stall has lasted for `patience`, and there was no warning yet. A thread that
    /// does not get a processor is not to blame.
    pub(super) fn is_due(
        &self,
        now: Instant,
        patience: Duration,
        cpu: Option<Duration>,
        is_waiting: &dyn Fn() -> Option<bool>,
    ) -> bool {
        if self.warned || now < self.since + patience {
            return false;
        }
        let used = cpu
            .zip(self.cpu)
            .map(|(cpu, before)| cpu.saturating_sub(before));
        used.is_none_or(|used| used + TICK >= patience) || is_waiting() != Some(false)
    }
}
