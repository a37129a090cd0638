//! The ends of slices, and slice deficits.
//!
//! A slice seldom ends to the microsecond: the monitor polls a little late, or a function lets no
//! other process run. The overrun is the process's *slice deficit*, and is subtracted from its next
//! slice. If nothing is left of that slice, the process is skipped once instead of having it. So
//! shares are equal over many slices. (Deficit round robin, M. Shreedhar and G. Varghese 1995, of
//! packets.)
//!
//! | a slice ends because | the next one |
//! |---|---|
//! | its time is over | is shorter by the overrun, or longer by what this one was too short, within bounds |
//! | its process yields, waits, is killed, or is suspended by another one | is a whole one |
//!
//! Time without rivals is at no other process's cost. So a run in which the process was seen alone
//! leaves no deficit.
//!
//! A skip is decided where a slice ends. After a deficit, switches also leave the fast path for a
//! while. Otherwise a process that a timer wakes again and again would bring a process with a
//! deficit to run each time that it waits.

use super::slices::tolerance;
use crate::sched::{Next, Preemption, ProcessId};
use crate::vm::inside::Jump;
use crate::vm::{Context, Inner, Vm, slow_reason};
use std::sync::atomic::Ordering;

/// The largest deficit, in nanoseconds, as all lengths of slices here. A longer overrun (a stall of
/// the machine, a function that computes for seconds) is not charged in full.
const MOST_DEFICIT: i64 = 100_000_000;

/// The most slices that are skipped. This limits short slices, as other processes may have longer
/// ones.
const MOST_SKIPS: i64 = 100;

/// The least that a slice counts. The monitor polls no more often, so real slices are no shorter,
/// whatever length the user has set.
const LEAST_SLICE: i64 = 100_000;

/// After this many decisions in a row that skip no process, switches take the fast path again.
const PATIENCE: u32 = 1000;

impl Context {
    /// Begins its next slice, after one that was too long by `overrun` (negative: too short).
    fn end_slice(&mut self, overrun: i64, slice: i64) {
        let most = MOST_DEFICIT.min(slice.saturating_mul(MOST_SKIPS));
        let deficit = overrun.clamp(-tolerance(slice), most);
        self.slice_began = self.busy.wrapping_add_signed(-deficit);
    }

    /// Whether nothing is left of its next slice.
    fn must_be_skipped(&self, slice: i64) -> bool {
        self.slice_used() > slice - tolerance(slice)
    }

    /// Charges its next slice to its deficit, if nothing is left of it. Returns whether.
    fn skip(&mut self, slice: i64) -> bool {
        let is_skipped = self.must_be_skipped(slice);
        if is_skipped {
            self.end_slice(self.slice_used() - slice, slice);
        }
        is_skipped
    }
}

impl Vm {
    /// Ends the slice of the running process, whose time has been charged, and decides what runs
    /// next.
    pub(in crate::vm) fn end_slice(&self, inner: &mut Inner, me: ProcessId) -> Option<Jump> {
        inner.sched.sink_current(baton_sys::clock::Instant::now);
        if self.slow_reasons() & (slow_reason::HOOKED | slow_reason::SIMULATED) != 0 {
            // The guest, or a random number, decides what is next.
            inner.begin_slice(me);
            let next = inner.sched.preempt_current(Preemption::SliceExpired);
            return self.plan(inner, me, next);
        }
        self.charge_slice(inner, me);
        let mut next = match inner.sched.preempt_current(Preemption::SliceExpired) {
            Next::Other(_) => self.skip_deficits_slow(inner, Some(me)),
            next => next,
        };
        if next == Next::Same {
            self.renew_slice(inner, me);
            if self.should_go_home(inner, me) {
                next = Next::Nothing;
            }
        }
        let jump = self.plan(inner, me, next);
        self.hints.note_beginning(inner.run_started);
        jump
    }

    fn charge_slice(&self, inner: &mut Inner, me: ProcessId) {
        let was_alone = inner.alone_in_run == inner.sched.counters().switches;
        let usual = self.parameters.slice.get();
        let context = inner.context_mut(me);
        let slice = context.length_of_slice(usual).max(LEAST_SLICE);
        let absence =
            context.absent - std::mem::replace(&mut context.absent_before, context.absent);
        // Absence from before this slice excuses none of it.
        let absence = (absence as i64).min(context.slice_used().max(0));
        let overrun = context.slice_used() - slice - absence;
        context.end_slice(if was_alone { overrun.min(0) } else { overrun }, slice);
        if context.must_be_skipped(slice) {
            self.expect_deficits(inner, PATIENCE);
        }
        if !was_alone {
            // Below 0, it was too short.
            inner.overruns.add(u64::try_from(overrun).unwrap_or(0));
        }
    }

    /// Begins a new slice of the running process.
    pub(in crate::vm) fn renew_slice(&self, inner: &Inner, me: ProcessId) {
        self.hint_slice(inner, me);
        self.hints.renew_slice();
    }

    /// Chooses the process to run, as [`crate::sched::Scheduler::schedule`], but skips processes
    /// with a deficit.
    #[inline]
    pub(in crate::vm) fn schedule(&self, inner: &mut Inner) -> Next {
        let next = inner.sched.schedule();
        self.skip_deficits(inner, None, next)
    }

    /// Replaces the chosen process, which has not run yet, if it is skipped for its deficit. If all
    /// others are skipped, the process that gave way continues.
    #[inline]
    fn skip_deficits(&self, inner: &mut Inner, gave_way: Option<ProcessId>, next: Next) -> Next {
        match next {
            Next::Other(_) if self.slow_reasons() & slow_reason::DEFICIT != 0 => {
                self.skip_deficits_slow(inner, gave_way)
            }
            next => next,
        }
    }

    #[cold]
    fn skip_deficits_slow(&self, inner: &mut Inner, gave_way: Option<ProcessId>) -> Next {
        let usual = self.parameters.slice.get();
        let mut expected = inner.deficits_expected.saturating_sub(1);
        if self.slow_reasons() & (slow_reason::HOOKED | slow_reason::ENDED) == 0 {
            inner.sched.skip_while(gave_way, |context| {
                let is_skipped = context.skip(context.length_of_slice(usual).max(LEAST_SLICE));
                if is_skipped {
                    expected = PATIENCE;
                }
                is_skipped
            });
        }
        self.expect_deficits(inner, expected);
        match inner.sched.current() {
            Some(pid) if gave_way == Some(pid) => Next::Same,
            Some(pid) => Next::Other(pid),
            None => Next::Nothing,
        }
    }

    /// Makes switches leave the fast path for so many decisions.
    fn expect_deficits(&self, inner: &mut Inner, decisions: u32) {
        inner.deficits_expected = decisions;
        // Relaxed (both): only the owner writes it, except the bit `ENDED`.
        if decisions > 0 {
            self.slow_reasons
                .fetch_or(slow_reason::DEFICIT, Ordering::Relaxed);
        } else {
            self.slow_reasons
                .fetch_and(!slow_reason::DEFICIT, Ordering::Relaxed);
        }
    }

    /// As [`Vm::skip_deficits`], after `me` has given way to `next`. If `me` continues, it does so
    /// with a new slice.
    pub(in crate::vm) fn skip_deficits_after(
        &self,
        inner: &mut Inner,
        me: ProcessId,
        next: Next,
    ) -> Next {
        let chosen = self.skip_deficits(inner, Some(me), next);
        if chosen == Next::Same && next != Next::Same {
            inner.account(me, self.coarse_now());
            inner.begin_slice(me);
            inner.alone_in_run = u64::MAX; // it continues beside those that are skipped
            self.renew_slice(inner, me);
            self.update_hints(inner);
        }
        chosen
    }

    /// Gives a process that others stop a whole slice, so that it is not skipped.
    pub(in crate::vm) fn clear_deficit(&self, inner: &mut Inner, process: ProcessId) {
        if let Some(context) = inner.sched.payload_mut(process) {
            context.slice_began = context.busy;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLICE: i64 = 10_000_000;

    /// A process that has computed for a while, and whose slice was too long by `overrun`.
    fn after_slice(overrun: i64, slice: i64) -> Context {
        let mut context = Context {
            busy: 500_000_000,
            ..Context::default()
        };
        context.end_slice(overrun, slice);
        context
    }

    #[test]
    fn an_overrun_shortens_the_next_slice_and_credit_lengthens_it_a_little() {
        for (slice, overrun, used) in [
            (SLICE, 0, 0),
            (SLICE, 3_000_000, 3_000_000),
            (SLICE, -50_000, -50_000),
            (SLICE, -1_000_000, -100_000),
            (SLICE, 500_000_000, 100_000_000),
            (LEAST_SLICE, -LEAST_SLICE, -LEAST_SLICE / 2),
            (LEAST_SLICE, 500_000_000, 100 * LEAST_SLICE),
        ] {
            assert_eq!(
                after_slice(overrun, slice).slice_used(),
                used,
                "{slice} {overrun}"
            );
        }
    }

    #[test]
    fn a_process_is_skipped_while_nothing_is_left_of_its_slice_and_each_skip_charges_one() {
        let mut context = after_slice(25_000_000, SLICE);
        for left in [15_000_000, 5_000_000] {
            assert!(context.skip(SLICE));
            assert_eq!(context.slice_used(), left);
        }
        assert!(!context.skip(SLICE));
        assert_eq!(context.slice_used(), 5_000_000);
        assert!(!after_slice(9_900_000, SLICE).skip(SLICE));
        assert!(after_slice(9_900_001, SLICE).skip(SLICE));
    }
}
