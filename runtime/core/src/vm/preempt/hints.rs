//! Hints that the owner writes for the monitor: relaxed stores. Correctness does not depend on
//! them; they only decide when the monitor polls.

use crate::sched::{Handoff, RunQueueSummary};
use crate::vm::{Inner, Vm};
use baton_sys::clock::Instant;
use baton_sys::membarrier;
use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Written by the owner and read by the monitor, except where a field says
/// otherwise.
#[derive(Debug)]
pub(in crate::vm) struct Hints {
    /// The run-queue summary, and whether the running process may be preempted: bits of [`bits`].
    summary: AtomicU8,
    /// The earliest deadline in nanoseconds; `u64::MAX`: none.
    pub(in crate::vm) deadline: AtomicU64,
    /// Changes with each switch.
    pub(in crate::vm) switches: AtomicU64,
    /// How many slices ended without a switch: the same process began a new one.
    pub(super) slices_renewed: AtomicU64,
    /// How much of its slice the running process had used when it was continued, in nanoseconds;
    /// negative if it had credit.
    pub(in crate::vm) slice_used: AtomicI64,
    /// The run, as [`Hints::run_number`], that began exactly when another run's slice ended; and
    /// when, in nanoseconds, by an exact clock.
    exact_run: AtomicU64,
    exact_from: AtomicU64,
    /// The length of its slices in microseconds; 0: the parameter.
    pub(in crate::vm) slice: AtomicU32,
    /// The monitor's clock reading at its last poll, in nanoseconds. Written by the monitor.
    pub(in crate::vm) coarse_now: AtomicU64,
    /// The time before which the monitor does not ask for the next deadline, in nanoseconds.
    /// Written by the monitor. With many deadlines it does not ask for each.
    pub(super) deadlines_from: AtomicU64,
    /// How many threads have names.
    pub(in crate::vm) named_threads: AtomicUsize,
}

/// Bits of one word, so that one store shows all.
mod bits {
    pub(super) const RUNNABLE: u8 = 1;
    pub(super) const RIVALS: u8 = 2;
    pub(super) const OUTRANKED: u8 = 4;
    pub(super) const PREEMPTIBLE: u8 = 8;
}

/// The bits for a run-queue summary without [`bits::PREEMPTIBLE`].
#[inline]
fn bits_of(of: RunQueueSummary) -> u8 {
    (u8::from(of.runnable) * bits::RUNNABLE)
        | (u8::from(of.rivals) * bits::RIVALS)
        | (u8::from(of.outranked) * bits::OUTRANKED)
}

/// The run-queue summary of [`Hints`], read once.
#[derive(Debug, Clone, Copy)]
pub(in crate::vm) struct SummaryBits(u8);

impl SummaryBits {
    /// Whether a process other than the running one is runnable.
    pub(super) fn has_runnable(self) -> bool {
        self.0 & bits::RUNNABLE != 0
    }

    /// Whether a process that is as urgent as the running one, or more urgent, is runnable.
    pub(super) fn has_rivals(self) -> bool {
        self.0 & bits::RIVALS != 0
    }

    /// Whether a more urgent process is runnable.
    pub(super) fn is_outranked(self) -> bool {
        self.0 & bits::OUTRANKED != 0
    }

    /// Whether the running process, or the one that ran last, may be preempted.
    pub(in crate::vm) fn is_preemptible(self) -> bool {
        self.0 & bits::PREEMPTIBLE != 0
    }
}

#[cfg(test)]
impl SummaryBits {
    /// The bits of a process that may be preempted.
    pub(super) const fn of(runnable: bool, rivals: bool, outranked: bool) -> SummaryBits {
        SummaryBits(
            (runnable as u8 * bits::RUNNABLE)
                | (rivals as u8 * bits::RIVALS)
                | (outranked as u8 * bits::OUTRANKED)
                | bits::PREEMPTIBLE,
        )
    }

    pub(super) const fn not_preemptible(self) -> SummaryBits {
        SummaryBits(self.0 & !bits::PREEMPTIBLE)
    }
}

impl Hints {
    pub(in crate::vm) fn new() -> Hints {
        Hints {
            summary: AtomicU8::new(0),
            deadline: AtomicU64::new(u64::MAX),
            switches: AtomicU64::new(0),
            slices_renewed: AtomicU64::new(0),
            slice_used: AtomicI64::new(0),
            exact_run: AtomicU64::new(u64::MAX),
            exact_from: AtomicU64::new(0),
            slice: AtomicU32::new(0),
            coarse_now: AtomicU64::new(0),
            deadlines_from: AtomicU64::new(0),
            named_threads: AtomicUsize::new(0),
        }
    }

    /// The number of the running process's run.
    pub(in crate::vm) fn run_number(&self) -> u64 {
        // Relaxed (both): the owner's own, and hints to the monitor.
        let switches = self.switches.load(Ordering::Relaxed);
        switches.wrapping_add(self.slices_renewed.load(Ordering::Relaxed))
    }

    /// Notes that the running process has begun a new slice.
    pub(in crate::vm) fn renew_slice(&self) {
        // Relaxed (both): as above.
        let renewed = self.slices_renewed.load(Ordering::Relaxed);
        self.slices_renewed
            .store(renewed.wrapping_add(1), Ordering::Relaxed);
    }

    /// Notes that the present run began at `now`, by an exact clock.
    pub(in crate::vm) fn note_beginning(&self, now: u64) {
        // Relaxed: ordered by the store below.
        self.exact_from.store(now, Ordering::Relaxed);
        // Release: pairs with the load in `run_began`.
        self.exact_run.store(self.run_number(), Ordering::Release);
    }

    /// When the run with this number began, if that is known exactly.
    pub(super) fn run_began(&self, run: u64) -> Option<Instant> {
        // Acquire: pairs with the store in `note_beginning`. Relaxed: the beginning of a later run
        // does no harm.
        let is_known = self.exact_run.load(Ordering::Acquire) == run;
        is_known.then(|| Instant::from_nanos(self.exact_from.load(Ordering::Relaxed)))
    }

    pub(in crate::vm) fn summary(&self) -> SummaryBits {
        // Relaxed: a hint; see the monitor's rest for what orders it.
        SummaryBits(self.summary.load(Ordering::Relaxed))
    }
}

impl Vm {
    /// Updates the hints, and wakes the monitor if its next poll is too late for them.
    #[inline]
    pub(in crate::vm) fn update_hints(&self, inner: &mut Inner) {
        if inner.sched.kept_aside_count() > 0 || !inner.held_threads.is_empty() {
            return self.update_hints_beside_held_threads(inner);
        }
        let deadline = self.deadline_of_scheduler(inner);
        self.put_hints(inner, deadline);
    }

    #[cold]
    #[inline(never)]
    fn update_hints_beside_held_threads(&self, inner: &mut Inner) {
        inner.note_held_threads();
        let deadline = self.next_deadline(inner);
        self.put_hints(inner, deadline);
    }

    #[inline(always)]
    fn put_hints(&self, inner: &mut Inner, deadline: Option<Instant>) {
        inner.hinted_changes = inner.sched.changes();
        inner.hinted_deadlines = inner.sched.deadline_changes();
        let sched = &inner.sched;
        let summary = sched.run_queue_summary();
        let deadline = deadline.map_or(u64::MAX, Instant::as_nanos);
        let hints = &self.hints;
        let preemptible = match summary.preemptible {
            Some(preemptible) => u8::from(preemptible) * bits::PREEMPTIBLE,
            // Relaxed: the owner's own.
            None => hints.summary.load(Ordering::Relaxed) & bits::PREEMPTIBLE,
        };
        // Relaxed (all): hints; the monitor reads them again after its own barrier before it rests.
        let bits = bits_of(summary) | preemptible;
        hints.summary.store(bits, Ordering::Relaxed);
        hints.deadline.store(deadline, Ordering::Relaxed);
        // Relaxed: as above.
        let switches = sched.counters().switches;
        hints.switches.store(switches, Ordering::Relaxed);
        if summary.is_alone {
            inner.alone_in_run = switches;
        }
        // Pairs with `heavy` in the monitor's rest: either it sees these stores, or the load
        // below sees it resting.
        membarrier::light();
        // Relaxed: a hint. The monitor would not ask for the deadline before that time, and is
        // woken unless it polls by then.
        let wanted = deadline.max(hints.deadlines_from.load(Ordering::Relaxed));
        let is_watched = inner.sched.watching() > 0 && !self.descriptors.are_armed();
        let (work_waits, wanted) =
            self.hints_in_stint(inner, summary.runnable || is_watched, wanted);
        if self.monitor.polls_too_late(work_waits, is_watched, wanted) {
            self.wake_monitor_for(inner, work_waits, wanted);
        }
    }

    /// Wakes the monitor, unless no process runs: then the owner waits itself.
    #[cold]
    #[inline(never)]
    fn wake_monitor_for(&self, inner: &Inner, work_waits: bool, wanted: u64) {
        if inner.sched.current().is_some() {
            self.wake_monitor(work_waits, wanted);
        }
    }

    /// As [`Vm::update_hints`], with the summary of the run queue. If a process runs and no
    /// deadline has changed since the last hints, those cover every poll that is needed now, while
    /// the monitor polls once a tick.
    #[inline(always)]
    pub(in crate::vm) fn hint_run_queue(&self, inner: &mut Inner, summary: RunQueueSummary) {
        let sched = &inner.sched;
        let is_simple = summary.preemptible.is_some()
            && sched.deadline_changes() == inner.hinted_deadlines
            && sched.kept_aside_count() == 0
            && inner.held_threads.is_empty()
            && sched.watching() == 0;
        if !is_simple {
            return self.update_hints(inner);
        }
        let preemptible = u8::from(summary.preemptible == Some(true)) * bits::PREEMPTIBLE;
        let switches = sched.counters().switches;
        // Relaxed (both): hints, as in `update_hints`.
        let hints = &self.hints;
        hints
            .summary
            .store(bits_of(summary) | preemptible, Ordering::Relaxed);
        hints.switches.store(switches, Ordering::Relaxed);
        // Pairs with `heavy` in the monitor's rest, as in `update_hints`.
        membarrier::light();
        if !self.monitor.ticks() {
            return self.update_hints(inner);
        }
        if summary.is_alone {
            inner.alone_in_run = switches;
        }
        inner.hinted_changes = inner.sched.changes();
    }

    /// As [`Vm::update_hints`], after a suspension: the hints were up to date, one process fewer is
    /// runnable, and the next process is as preemptible as the last one.
    #[inline(always)]
    pub(in crate::vm) fn hint_fewer_runnable(&self, inner: &mut Inner, handoff: Handoff) {
        inner.hinted_changes = inner.sched.changes();
        let hints = &self.hints;
        // Relaxed (all): hints, the first of which only the owner writes. Earlier hints already
        // cover every poll that the monitor needs now.
        let preemptible = hints.summary.load(Ordering::Relaxed) & bits::PREEMPTIBLE;
        let summary = inner.sched.summary_after_handoff(handoff);
        let bits = bits_of(summary) | preemptible;
        hints.summary.store(bits, Ordering::Relaxed);
        let switches = inner.sched.counters().switches;
        hints.switches.store(switches, Ordering::Relaxed);
        if summary.is_alone {
            inner.alone_in_run = switches;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_a_run_began_is_known_of_the_one_that_was_noted() {
        let hints = Hints::new();
        assert_eq!(hints.run_began(hints.run_number()), None);
        hints.switches.store(7, Ordering::Relaxed);
        hints.note_beginning(500);
        assert_eq!(
            hints.run_began(hints.run_number()),
            Some(Instant::from_nanos(500))
        );
        hints.renew_slice();
        assert_eq!(hints.run_began(hints.run_number()), None);
    }

    #[test]
    fn a_switch_begins_another_run_and_so_does_a_new_slice() {
        let hints = Hints::new();
        let first = hints.run_number();
        hints.switches.store(1, Ordering::Relaxed);
        let second = hints.run_number();
        hints.renew_slice();
        let third = hints.run_number();
        assert!(first != second && second != third && first != third);
    }
}
