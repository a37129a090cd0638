//! The ends of slices, and what is owed for them.
//!
//! A slice is seldom ended to the microsecond: the monitor looks a little late, a machine may stand still, a function may not let itself be interrupted. What a process
//! has had too much is taken from its next slice, and from whole ones if it is more: it passes. So shares are equal over many turns, however the single ones end. (Deficit
//! round robin, M. Shreedhar and G. Varghese 1995, of packets.)
//!
//! | a slice ends because | the next one |
//! |---|---|
//! | it is over: it is *settled* | is shorter by what this one was too long while there were rivals, 100 ms at most; or longer by what it was too short, 0.1 ms at most |
//! | its process yields, or waits | is a whole one |
//!
//! A slice that is interrupted (by a more urgent process, a call that others run beside, a suspension) has not ended, and nothing is owed for what was used of it. Who is
//! killed or suspended by another owes nothing any more.
//!
//! How long a slice was too long is known to the accounts, if it was one uninterrupted turn, and began when another slice was settled. Else the accounts may have been made
//! with the coarse clock, which charges the one who runs for a tick of the one before; then it is what the monitor saw.
//!
//! After a debt was made, switches do not go their straight way for a while: where somebody waits or yields as well, those pass whose turn it would be. When nobody has come to its
//! turn who owes in a thousand decisions, they go straight again, and debts are paid at the ends of slices alone.

use super::slices::tolerance;
use super::switching::Jump;
use super::{Context, Inner, Vm, exception};
use crate::kernel::{Kernel, Next, Preemption, ProcessId};
use std::sync::atomic::Ordering;

/// In nanoseconds, as all lengths of slices here: the most that is taken from later slices. Who has had more (in a function that computes for seconds and lets nobody in) is
/// not kept waiting for as long.
const MOST_OWED: i64 = 100_000_000;

/// The most turns that are passed, for those whose slices are short: others may have longer ones.
const MOST_TURNS: i64 = 100;

/// Who passes pays at least this: a monitor's look takes as long, so that slices are no shorter, whatever the user has asked for.
const LEAST_PAID: i64 = 100_000;

/// So many decisions in a row at which nobody passed, until switches go straight again.
const PATIENCE: u32 = 1000;

/// What the owner knows of its processes' debts, beside their contexts.
#[derive(Debug)]
pub(super) struct Debts {
    /// Decisions since a debt was made, or somebody passed; `PATIENCE`: nobody is expected to.
    in_vain: u32,
    /// The number of the turn whose process has a whole slice, by an exact clock.
    whole_turn: u64,
}

impl Debts {
    pub(super) fn new() -> Debts {
        Debts {
            in_vain: PATIENCE,
            whole_turn: u64::MAX,
        }
    }

    /// A debt was made, or paid by passing: there may be more.
    fn expect_more(&mut self) {
        self.in_vain = 0;
    }

    fn note_decision(&mut self) {
        self.in_vain = (self.in_vain + 1).min(PATIENCE);
    }

    fn are_expected(&self) -> bool {
        self.in_vain < PATIENCE
    }

    /// The accounts of the present turn are of no use for debts any more.
    pub(super) fn note_change(&mut self) {
        self.whole_turn = u64::MAX;
    }
}

impl Context {
    /// Its slice is over, and was too long by `excess`, or too short.
    fn settle(&mut self, excess: i64, slice: i64) {
        let most = MOST_OWED.min(slice.saturating_mul(MOST_TURNS)).max(LEAST_PAID);
        let owed = excess.clamp(-tolerance(slice), most);
        self.slice_began = self.busy.wrapping_add_signed(-owed);
        self.settled_at = self.busy;
    }

    /// It has had its next slice before, which it has not begun.
    fn owes(&self, slice: i64) -> bool {
        self.settled_at == self.busy && self.slice_used() > slice - tolerance(slice)
    }

    /// It gives its turn to the next one.
    fn pass(&mut self, slice: i64) {
        self.settle(self.slice_used() - slice.max(LEAST_PAID), slice);
    }

    /// It has a whole slice before it, or what is left of one by its debt.
    fn is_at_its_start(&self) -> bool {
        self.settled_at == self.busy || self.slice_began == self.busy
    }
}

impl Vm {
    /// The slice of the running process, whose time has been charged, is over: who is next.
    pub(super) fn end_slice(&self, inner: &mut Inner, me: ProcessId) -> Option<Jump> {
        if self.exceptions() & (exception::CONSULTED | exception::SIMULATED) != 0 {
            // The guest says whose turn it is, or chance.
            inner.begin_slice(me);
            let next = inner.kernel.preempt_current(Preemption::SliceExpired);
            return self.plan(inner, me, next);
        }
        self.settle_slice(inner, me);
        let mut next = self.have_pass(inner, |kernel, owes, pass| kernel.end_slice(owes, pass));
        if next == Next::Same {
            self.renew_slice(inner, me);
            if self.should_go_home(inner, me) {
                next = Next::Nothing;
            }
        }
        let current = inner.kernel.current();
        let is_whole = current.is_some_and(|pid| inner.context(pid).is_at_its_start());
        let jump = self.plan(inner, me, next);
        inner.debts.whole_turn = if is_whole { self.published.turn() } else { u64::MAX };
        jump
    }

    fn settle_slice(&self, inner: &mut Inner, me: ProcessId) {
        let turn = self.published.turn();
        let is_whole = inner.debts.whole_turn == turn;
        let at_others_cost = self.published.asked.at_others_cost(turn, is_whole, inner.run_started);
        let context = inner.context_mut(me);
        let slice = context.length_of_slice(self.parameters.slice.get());
        context.settle((context.slice_used() - slice).min(at_others_cost), slice);
        if context.owes(slice) {
            inner.debts.expect_more();
        }
    }

    /// The running process goes on with a new slice.
    pub(super) fn renew_slice(&self, inner: &Inner, me: ProcessId) {
        self.publish_slice(inner, me);
        self.published.renew_slice();
    }

    /// Chooses who runs, as [`Kernel::schedule`], but for those that pass.
    #[inline]
    pub(super) fn schedule(&self, inner: &mut Inner) -> Next {
        let next = inner.kernel.schedule();
        self.pass_over(inner, next)
    }

    /// Who runs if the one passes that has been chosen, and has not run yet.
    #[inline]
    pub(super) fn pass_over(&self, inner: &mut Inner, next: Next) -> Next {
        match next {
            Next::Other(_) if self.exceptions() & exception::OWING != 0 => self.pass_over_debtors(inner, next),
            next => next,
        }
    }

    #[cold]
    fn pass_over_debtors(&self, inner: &mut Inner, next: Next) -> Next {
        if self.exceptions() & (exception::CONSULTED | exception::ENDED) != 0 {
            return next;
        }
        self.have_pass(inner, |kernel, owes, pass| {
            kernel.pass_over(owes, pass).map_or(Next::Nothing, Next::Other)
        })
    }

    /// As [`Vm::pass_over`], after `me` has given way: if all others pass, it goes on with a new slice.
    pub(super) fn pass_over_after(&self, inner: &mut Inner, me: ProcessId, next: Next) -> Next {
        let next = self.pass_over(inner, next);
        if next != Next::Other(me) {
            return next;
        }
        inner.account(me, self.coarse_now());
        inner.begin_slice(me);
        self.renew_slice(inner, me);
        self.publish(inner);
        Next::Same
    }

    /// A decision at which those pass that owe a slice.
    fn have_pass(
        &self,
        inner: &mut Inner,
        choose: impl FnOnce(&mut Kernel<Context>, &dyn Fn(&Context) -> bool, &mut dyn FnMut(&mut Context)) -> Next,
    ) -> Next {
        let usual = self.parameters.slice.get();
        let debts = &mut inner.debts;
        debts.note_decision();
        let next = choose(
            &mut inner.kernel,
            &|context| context.owes(context.length_of_slice(usual)),
            &mut |context| {
                context.pass(context.length_of_slice(usual));
                debts.expect_more();
            },
        );
        let exceptions = self.exceptions();
        if inner.debts.are_expected() != (exceptions & exception::OWING != 0) {
            // Relaxed: the owner's alone, but for `ENDED`.
            self.exceptions.fetch_xor(exception::OWING, Ordering::Relaxed);
        }
        next
    }

    /// What a process owes is forgotten: others stop it.
    pub(super) fn forgive(&self, inner: &mut Inner, process: ProcessId) {
        if let Some(context) = inner.kernel.payload_mut(process)
            && context.settled_at == context.busy
        {
            context.slice_began = context.busy;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLICE: i64 = 10_000_000;

    /// Has computed for a while, and then its slice was settled, which was too long by so much.
    fn settled(excess: i64, slice: i64) -> Context {
        let mut context = Context {
            busy: 500_000_000,
            slice_began: 77,
            ..Context::default()
        };
        context.settle(excess, slice);
        context
    }

    #[test]
    fn what_a_slice_was_too_long_or_too_short_is_taken_from_the_next() {
        for (excess, used, owes) in [
            (0, 0, false),
            (3_000_000, 3_000_000, false),
            (-50_000, -50_000, false),
            (-1_000_000, -100_000, false),
            (9_900_000, 9_900_000, false),
            (9_950_000, 9_950_000, true),
            (85_000_000, 85_000_000, true),
            (500_000_000, 100_000_000, true),
        ] {
            let context = settled(excess, SLICE);
            assert_eq!((context.slice_used(), context.owes(SLICE)), (used, owes), "{excess}");
        }
    }

    #[test]
    fn with_short_slices_less_is_owed_and_there_is_less_credit() {
        for (slice, excess, used) in [
            (1_000, -1_000, -500),
            (1_000_000, 200_000_000, 100_000_000),
            (100_000, 200_000_000, 10_000_000),
            (0, 200_000_000, 100_000),
            (0, -1, 0),
        ] {
            assert_eq!(settled(excess, slice).slice_used(), used, "{slice}");
        }
    }

    #[test]
    fn what_was_used_of_an_unfinished_slice_is_not_owed() {
        let mut context = settled(3_000_000, SLICE);
        assert!(context.is_at_its_start());
        context.busy += 20_000_000;
        assert_eq!(context.slice_used(), 23_000_000);
        assert!(!context.owes(SLICE) && !context.is_at_its_start());
        context.slice_began = context.busy;
        assert!(!context.owes(SLICE) && context.is_at_its_start());
    }

    #[test]
    fn who_passes_pays_a_slice() {
        let mut context = settled(25_000_000, SLICE);
        for left in [15_000_000, 5_000_000] {
            assert!(context.owes(SLICE));
            context.pass(SLICE);
            assert_eq!(context.slice_used(), left);
        }
        assert!(!context.owes(SLICE));
    }

    #[test]
    fn slices_shorter_than_a_look_are_paid_for_as_long_as_one() {
        let mut context = settled(150_000, 2_000);
        for (slice, left) in [(2_000, 50_000), (2_000, -1_000)] {
            assert!(context.owes(slice));
            context.pass(slice);
            assert_eq!(context.slice_used(), left);
        }
        assert!(!context.owes(2_000));
    }

    #[test]
    fn debtors_are_expected_for_a_thousand_decisions_after_the_last_one() {
        let mut debts = Debts::new();
        debts.note_decision();
        assert!(!debts.are_expected());
        for _ in 0..2 {
            debts.expect_more();
            for _ in 1..PATIENCE {
                debts.note_decision();
                assert!(debts.are_expected());
            }
        }
        debts.note_decision();
        assert!(!debts.are_expected());
    }
}
