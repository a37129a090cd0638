//! The ends of slices, and slice deficits.
//!
//! A slice seldom ends to the microsecond. The monitor polls a little late, a machine may stand
//! still, a function may not let itself be interrupted. Slice overruns are charged to the next
//! slice; a process that has overrun by more than a slice is skipped. So shares are equal over many
//! slices. (Deficit round robin, M. Shreedhar and G. Varghese 1995, of packets.)
//!
//! | a slice ends because | the next one |
//! |---|---|
//! | its time is over | is shorter by the overrun while there were rivals, 100 ms at most; or longer by what this one was too short, 0.1 ms at most |
//! | its process yields, or waits | is a whole one |
//!
//! A slice that is interrupted (by a more urgent process, a retaken call, a suspension) has not
//! ended, and leaves no deficit. A kill, or a suspension by another process, clears the deficit.
//!
//! The accounts know the overrun exactly if the slice was one uninterrupted run that began when
//! another slice ended. Otherwise the accounts may have used the coarse clock, which may charge a
//! process for a tick of its predecessor; then the overrun is what the monitor saw. Only computed
//! time counts as overrun. While the thread has no processor or a call waits, the accounts
//! continue, but no process gains by that.
//!
//! After a deficit, switches leave the fast path for a while: a decision after a wait or a yield
//! also skips processes with a deficit. After a thousand decisions that skipped none, switches take
//! the fast path again, and deficits count at the ends of slices alone.

use super::slices::tolerance;
use crate::panics::broken;
use crate::sched::{CarrierId, Next, Preemption, ProcessId, Scheduler};
use crate::vm::inside::Jump;
use crate::vm::{Context, HOME, Inner, Vm, slow_reason};
use baton_sys::clock;
use std::sync::atomic::Ordering;

/// The largest deficit, in nanoseconds, as all lengths of slices here. A longer overrun (a function
/// that computes for seconds without a safepoint) is not charged in full.
const MOST_DEFICIT: i64 = 100_000_000;

/// The most slices that are skipped. This limits short slices, as other processes may have longer
/// ones.
const MOST_SKIPS: i64 = 100;

/// A skip charges at least this much. The monitor polls no more often, so real slices are no
/// shorter, whatever length the user has set.
const LEAST_CHARGED: i64 = 100_000;

/// After this many decisions in a row that skip no process, switches take the fast path again.
const PATIENCE: u32 = 1000;

/// The owner's data on deficits, besides the processes' contexts.
#[derive(Debug)]
pub(in crate::vm) struct SliceDeficits {
    /// Decisions since the last deficit or skip, up to `PATIENCE`: then none is expected.
    in_vain: u32,
    last: SliceEnd,
}

/// When the last slice ended, by exact clocks.
#[derive(Debug)]
struct SliceEnd {
    at: u64,
    /// The processor time of its thread by then, in nanoseconds.
    cpu: u64,
    carrier: CarrierId,
    /// The number of the run that began then, if its process has a whole slice.
    begins: Option<u64>,
}

/// A slice that is over; times in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct EndedSlice {
    slice: i64,
    used: i64,
    /// The part of `used` beyond the slice that was used before this run.
    carried: i64,
    /// How long this run went past its slice while others were runnable.
    at_others_cost: i64,
    /// The run began when the last slice ended.
    is_whole: bool,
    /// The time since the last slice ended.
    elapsed: i64,
    /// What the thread has computed in that time, if it is the same thread.
    computed: Option<i64>,
}

impl EndedSlice {
    /// How much the slice was too long; negative: too short.
    fn excess(self) -> i64 {
        let computed = self.computed.unwrap_or(i64::MAX);
        let idle = if self.is_whole {
            (self.elapsed - computed).max(0)
        } else {
            0
        };
        let excess = self.used - self.slice - idle;
        excess.min(
            self.carried
                .saturating_add(self.at_others_cost.min(computed)),
        )
    }
}

impl SliceDeficits {
    pub(in crate::vm) fn new() -> SliceDeficits {
        SliceDeficits {
            in_vain: PATIENCE,
            last: SliceEnd {
                at: 0,
                cpu: 0,
                carrier: HOME,
                begins: None,
            },
        }
    }

    /// Notes a deficit or a skip: more are expected.
    fn expect_more(&mut self) {
        self.in_vain = 0;
    }

    fn note_decision(&mut self) {
        self.in_vain = (self.in_vain + 1).min(PATIENCE);
    }

    fn are_expected(&self) -> bool {
        self.in_vain < PATIENCE
    }

    /// Notes that the accounts of the present run cannot be used for deficits.
    pub(super) fn note_change(&mut self) {
        self.last.begins = None;
    }
}

impl Context {
    /// Ends its slice, which was too long by `excess` (negative: too short).
    fn end_slice(&mut self, excess: i64, slice: i64) {
        let most = MOST_DEFICIT
            .min(slice.saturating_mul(MOST_SKIPS))
            .max(LEAST_CHARGED);
        let deficit = excess.clamp(-tolerance(slice), most);
        self.slice_began = self.busy.wrapping_add_signed(-deficit);
        self.ended_at = self.busy;
    }

    /// Discounts a little time that was charged after its slice ended at `at`, a value of `busy`.
    fn stay_ended(&mut self, at: u64) {
        if self.ended_at == at {
            self.slice_began = self.slice_began.wrapping_add(self.busy - at);
            self.ended_at = self.busy;
        }
    }

    /// How much of `used` was beyond the slice already when the process was continued.
    fn carried(&self, used: i64, slice: i64) -> i64 {
        let has_ended = self.ended_at == self.slice_began.wrapping_add_signed(used);
        if has_ended { (used - slice).max(0) } else { 0 }
    }

    /// Whether its deficit uses up its whole next slice, which has not begun.
    fn has_deficit(&self, slice: i64) -> bool {
        self.ended_at == self.busy && self.slice_used() > slice - tolerance(slice)
    }

    /// Skips the process: charges a slice to its deficit.
    fn skip(&mut self, slice: i64) {
        self.end_slice(self.slice_used() - slice.max(LEAST_CHARGED), slice);
    }

    /// Whether its slice has not begun: a whole one, or the rest that its deficit leaves.
    fn is_at_its_start(&self) -> bool {
        self.ended_at == self.busy || self.slice_began == self.busy
    }
}

impl Vm {
    /// Ends the slice of the running process, whose time has been charged, and decides what runs
    /// next.
    pub(in crate::vm) fn end_slice(&self, inner: &mut Inner, me: ProcessId) -> Option<Jump> {
        if self.slow_reasons() & (slow_reason::HOOKED | slow_reason::SIMULATED) != 0 {
            // The guest, or a random number, decides what is next.
            inner.begin_slice(me);
            let next = inner.sched.preempt_current(Preemption::SliceExpired);
            return self.plan(inner, me, next);
        }
        let cpu = clock::thread_cpu_time().as_nanos() as u64;
        let ended_at = self.charge_slice(inner, me, cpu);
        let mut next = self.with_skips(inner, |sched, has_deficit, skip| {
            sched.end_slice(has_deficit, skip)
        });
        if next == Next::Same {
            self.renew_slice(inner, me);
            if self.should_go_home(inner, me) {
                next = Next::Nothing;
            }
        }
        let current = inner.sched.current();
        let is_whole = current.is_some_and(|pid| inner.context(pid).is_at_its_start());
        let jump = self.plan(inner, me, next);
        inner.context_mut(me).stay_ended(ended_at);
        self.hints.note_beginning(inner.run_started);
        inner.deficits.last = SliceEnd {
            at: inner.run_started,
            cpu,
            carrier: inner.carrier,
            begins: is_whole.then(|| self.hints.run_number()),
        };
        jump
    }

    /// Charges the slice. Returns the value of `busy` at its end.
    fn charge_slice(&self, inner: &mut Inner, me: ProcessId, cpu: u64) -> u64 {
        let run = self.hints.run_number();
        let now = inner.run_started;
        let last = &inner.deficits.last;
        let on_the_same_thread = last.carrier == inner.carrier;
        let is_whole = on_the_same_thread && last.begins == Some(run);
        let context = inner
            .sched
            .payload(me)
            .unwrap_or_else(|| broken("a process has no context"));
        let slice = context.length_of_slice(self.parameters.slice.get());
        let ended = EndedSlice {
            slice,
            used: context.slice_used(),
            // Relaxed: only the owner writes it.
            carried: context.carried(self.hints.slice_used.load(Ordering::Relaxed), slice),
            at_others_cost: self.hints.asked.at_others_cost(run, is_whole, now),
            is_whole,
            elapsed: now.saturating_sub(last.at) as i64,
            computed: cpu
                .checked_sub(last.cpu)
                .filter(|_| on_the_same_thread)
                .map(|time| time as i64),
        };
        let context = inner.context_mut(me);
        context.end_slice(ended.excess(), slice);
        let (has_deficit, ended_at) = (context.has_deficit(slice), context.ended_at);
        if has_deficit {
            inner.deficits.expect_more();
        }
        ended_at
    }

    /// Begins a new slice of the running process.
    pub(in crate::vm) fn renew_slice(&self, inner: &Inner, me: ProcessId) {
        self.hint_slice(inner, me);
        self.hints.renew_slice();
    }

    /// Chooses the process to run, as [`Scheduler::schedule`], but skips processes with a deficit.
    #[inline]
    pub(in crate::vm) fn schedule(&self, inner: &mut Inner) -> Next {
        let next = inner.sched.schedule();
        self.skip_deficits(inner, next)
    }

    /// Replaces the chosen process, which has not run yet, if it is skipped for its deficit.
    #[inline]
    pub(super) fn skip_deficits(&self, inner: &mut Inner, next: Next) -> Next {
        match next {
            Next::Other(_) if self.slow_reasons() & slow_reason::DEFICIT != 0 => {
                self.skip_deficits_slow(inner, next)
            }
            next => next,
        }
    }

    #[cold]
    fn skip_deficits_slow(&self, inner: &mut Inner, next: Next) -> Next {
        if self.slow_reasons() & (slow_reason::HOOKED | slow_reason::ENDED) != 0 {
            return next;
        }
        self.with_skips(inner, |sched, has_deficit, skip| {
            sched
                .skip_deficits(has_deficit, skip)
                .map_or(Next::Nothing, Next::Other)
        })
    }

    /// As [`Vm::skip_deficits`], after `me` has given way. If all others are skipped, `me`
    /// continues with a new slice.
    pub(in crate::vm) fn skip_deficits_after(
        &self,
        inner: &mut Inner,
        me: ProcessId,
        next: Next,
    ) -> Next {
        let next = self.skip_deficits(inner, next);
        if next != Next::Other(me) {
            return next;
        }
        inner.account(me, self.coarse_now());
        inner.begin_slice(me);
        self.renew_slice(inner, me);
        self.update_hints(inner);
        Next::Same
    }

    /// Makes a scheduling decision that skips processes with a deficit.
    fn with_skips(
        &self,
        inner: &mut Inner,
        choose: impl FnOnce(
            &mut Scheduler<Context>,
            &dyn Fn(&Context) -> bool,
            &mut dyn FnMut(&mut Context),
        ) -> Next,
    ) -> Next {
        let usual = self.parameters.slice.get();
        let deficits = &mut inner.deficits;
        deficits.note_decision();
        let next = choose(
            &mut inner.sched,
            &|context| context.has_deficit(context.length_of_slice(usual)),
            &mut |context| {
                context.skip(context.length_of_slice(usual));
                deficits.expect_more();
            },
        );
        let slow_reasons = self.slow_reasons();
        if inner.deficits.are_expected() != (slow_reasons & slow_reason::DEFICIT != 0) {
            // Relaxed: only the owner writes it, except the bit `ENDED`.
            self.slow_reasons
                .fetch_xor(slow_reason::DEFICIT, Ordering::Relaxed);
        }
        next
    }

    /// Clears the deficit of a process that others stop.
    pub(in crate::vm) fn clear_deficit(&self, inner: &mut Inner, process: ProcessId) {
        if let Some(context) = inner.sched.payload_mut(process)
            && context.ended_at == context.busy
        {
            context.slice_began = context.busy;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLICE: i64 = 10_000_000;

    /// A process that has computed for a while, and whose slice then ended, too long by `excess`.
    fn after_slice(excess: i64, slice: i64) -> Context {
        let mut context = Context {
            busy: 500_000_000,
            slice_began: 77,
            ..Context::default()
        };
        context.end_slice(excess, slice);
        context
    }

    #[test]
    fn overruns_and_credit_are_charged_to_the_next_slice() {
        for (excess, used, has_deficit) in [
            (0, 0, false),
            (3_000_000, 3_000_000, false),
            (-50_000, -50_000, false),
            (-1_000_000, -100_000, false),
            (9_900_000, 9_900_000, false),
            (9_950_000, 9_950_000, true),
            (85_000_000, 85_000_000, true),
            (500_000_000, 100_000_000, true),
        ] {
            let context = after_slice(excess, SLICE);
            assert_eq!(
                (context.slice_used(), context.has_deficit(SLICE)),
                (used, has_deficit),
                "{excess}"
            );
        }
    }

    #[test]
    fn with_short_slices_there_is_less_deficit_and_less_credit() {
        for (slice, excess, used) in [
            (1_000, -1_000, -500),
            (1_000_000, 200_000_000, 100_000_000),
            (100_000, 200_000_000, 10_000_000),
            (0, 200_000_000, 100_000),
            (0, -1, 0),
        ] {
            assert_eq!(after_slice(excess, slice).slice_used(), used, "{slice}");
        }
    }

    #[test]
    fn the_used_part_of_an_unfinished_slice_is_no_deficit() {
        let mut context = after_slice(3_000_000, SLICE);
        assert!(context.is_at_its_start());
        context.busy += 20_000_000;
        assert_eq!(context.slice_used(), 23_000_000);
        assert!(!context.has_deficit(SLICE) && !context.is_at_its_start());
        context.slice_began = context.busy;
        assert!(!context.has_deficit(SLICE) && context.is_at_its_start());
    }

    #[test]
    fn a_skip_charges_a_slice() {
        let mut context = after_slice(25_000_000, SLICE);
        for left in [15_000_000, 5_000_000] {
            assert!(context.has_deficit(SLICE));
            context.skip(SLICE);
            assert_eq!(context.slice_used(), left);
        }
        assert!(!context.has_deficit(SLICE));
    }

    #[test]
    fn slices_shorter_than_a_poll_are_charged_as_long_as_one() {
        let mut context = after_slice(150_000, 2_000);
        for (slice, left) in [(2_000, 50_000), (2_000, -1_000)] {
            assert!(context.has_deficit(slice));
            context.skip(slice);
            assert_eq!(context.slice_used(), left);
        }
        assert!(!context.has_deficit(2_000));
    }

    /// A whole slice of 10 ms that has lasted for 30, all of them computed, beside rivals.
    const LONG: EndedSlice = EndedSlice {
        slice: SLICE,
        used: 3 * SLICE,
        carried: 0,
        at_others_cost: 5 * SLICE,
        is_whole: true,
        elapsed: 3 * SLICE,
        computed: Some(3 * SLICE),
    };

    #[test]
    fn time_not_computed_is_no_deficit() {
        let computed = |computed, is_whole| EndedSlice {
            computed,
            is_whole,
            ..LONG
        };
        assert_eq!(LONG.excess(), 2 * SLICE);
        assert_eq!(computed(Some(SLICE), true).excess(), 0);
        assert_eq!(computed(Some(SLICE / 2), true).excess(), -SLICE / 2);
        // The thread's clock is a little ahead, or it is another thread's.
        assert_eq!(computed(Some(4 * SLICE), true).excess(), 2 * SLICE);
        assert_eq!(computed(None, false).excess(), 2 * SLICE);
        // Others ran as well since the last slice ended. Then the time computed since is an upper
        // bound for this process.
        assert_eq!(computed(Some(SLICE), false).excess(), SLICE);
        let after_a_pause = EndedSlice {
            elapsed: 100 * SLICE,
            ..computed(Some(3 * SLICE), false)
        };
        assert_eq!(after_a_pause.excess(), 2 * SLICE);
    }

    #[test]
    fn a_deficit_from_before_counts_whether_or_not_this_run_was_at_others_cost() {
        let alone = EndedSlice {
            at_others_cost: 0,
            ..LONG
        };
        assert_eq!(alone.excess(), 0);
        let carried = SLICE + 7;
        assert_eq!(EndedSlice { carried, ..alone }.excess(), SLICE + 7);
        assert_eq!(
            EndedSlice {
                carried: 9 * SLICE,
                ..alone
            }
            .excess(),
            2 * SLICE
        );
    }

    #[test]
    fn a_deficit_is_carried_into_a_run_and_what_was_used_before_an_interruption_is_not() {
        let mut context = after_slice(25_000_000, SLICE);
        let used = context.slice_used();
        context.busy += 4_000_000;
        assert_eq!(context.carried(used, SLICE), 15_000_000);
        let used = context.slice_used();
        context.busy += 4_000_000;
        assert_eq!(context.carried(used, SLICE), 0);
        assert_eq!(after_slice(3_000_000, SLICE).carried(3_000_000, SLICE), 0);
        assert_eq!(after_slice(-50_000, SLICE).carried(-50_000, SLICE), 0);
    }

    #[test]
    fn a_charge_after_the_end_of_a_slice_changes_no_deficit() {
        let mut context = after_slice(25_000_000, SLICE);
        let at = context.busy;
        context.busy += 3_000;
        assert!(!context.has_deficit(SLICE));
        context.stay_ended(at);
        assert_eq!(
            (context.has_deficit(SLICE), context.slice_used()),
            (true, 25_000_000)
        );
        // Its slice had not ended then.
        context.busy += 5_000;
        context.stay_ended(at);
        assert_eq!(
            (context.has_deficit(SLICE), context.slice_used()),
            (false, 25_005_000)
        );
    }

    #[test]
    fn deficits_are_expected_for_a_thousand_decisions_after_the_last_one() {
        let mut deficits = SliceDeficits::new();
        deficits.note_decision();
        assert!(!deficits.are_expected());
        for _ in 0..2 {
            deficits.expect_more();
            for _ in 1..PATIENCE {
                deficits.note_decision();
                assert!(deficits.are_expected());
            }
        }
        deficits.note_decision();
        assert!(!deficits.are_expected());
    }
}
