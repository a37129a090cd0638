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
//! While anybody owes a slice, which is seldom, switches do not go their straight way: where somebody waits or yields as well, those pass whose turn it would be. If nobody who
//! owes comes to its turn for long, as more urgent processes run, all is forgiven, and switches go straight again.
//

use super::slices::tolerance;
use super::switching::Jump;
use super::{Context, Inner, Vm, exception};
use crate::kernel::{Kernel, Next, Preemption, ProcessId};
use std::sync::atomic::Ordering;

/// In nanoseconds, as all lengths of slices here: the most that is taken from later slices. Who has had more (in a function that computes for seconds and lets nobody in) is
/// not kept waiting for as long.
const MOST_OWED: i64 = 100_000_000;

/// Who passes pays at least this: a monitor's look takes as long, so that slices are no shorter, whatever the user has asked for.
const LEAST_PAID: i64 = 100_000;

/// So many decisions in a row at which nobody passed end all debts.
const PATIENCE: u32 = 1000;

/// What all processes owe. A process that owes has the number of the present amnesty in its context.
#[derive(Debug)]
pub(super) struct Debts {
    /// How many owe a slice.
    debtors: usize,
    /// From 1 on; old debts are void.
    amnesty: u8,
    /// Decisions since somebody passed.
    in_vain: u32,
    /// The number of the turn whose process has a whole slice, by an exact clock.
    whole_turn: u64,
}

impl Debts {
    pub(super) fn new() -> Debts {
        Debts {
            debtors: 0,
            amnesty: 1,
            in_vain: 0,
            whole_turn: u64::MAX,
        }
    }

    fn is_debtor(&self, context: &Context) -> bool {
        context.debtor == self.amnesty
    }

    fn note(&mut self, context: &mut Context, owes: bool) {
        let before = self.is_debtor(context);
        context.debtor = if owes { self.amnesty } else { 0 };
        // A number that comes round again may be of a debt that was forgiven long ago.
        self.debtors = (self.debtors + usize::from(owes)).saturating_sub(usize::from(before));
    }

    fn note_decision(&mut self, passed: bool) {
        self.in_vain = if passed { 0 } else { self.in_vain + 1 };
        if self.in_vain >= PATIENCE {
            *self = Debts {
                amnesty: self.amnesty.checked_add(1).unwrap_or(1),
                whole_turn: self.whole_turn,
                ..Debts::new()
            };
        }
    }
}

impl Context {
    /// Its slice is over, and was too long by `excess`, or too short. Says whether it has had the next one before.
    fn settle(&mut self, excess: i64, slice: i64) -> bool {
        self.is_settled = true;
        self.set_owed(excess, slice)
    }

    /// It gives its turn to the next one. Says whether it has had the next one as well.
    fn pass(&mut self, slice: i64) -> bool {
        self.set_owed(self.slice_used() - slice.max(LEAST_PAID), slice)
    }

    /// It has not begun its next slice, and has had so much of it before.
    fn set_owed(&mut self, owed: i64, slice: i64) -> bool {
        let owed = owed.clamp(-tolerance(slice), MOST_OWED);
        self.slice_began = self.busy.wrapping_add_signed(-owed);
        owed > slice - tolerance(slice)
    }

    /// It has a whole slice before it, or all that is left of one.
    fn is_at_its_start(&self) -> bool {
        self.is_settled || self.slice_began == self.busy
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
        let next = match self.have_pass(inner, |kernel, owes, pass| kernel.end_slice(owes, pass)) {
            Next::Same if self.should_go_home(inner, me) => Next::Nothing,
            Next::Same => {
                self.renew_slice(inner, me);
                Next::Same
            }
            other => other,
        };
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
        let Some(context) = inner.kernel.payload_mut(me) else {
            return;
        };
        let slice = context.length_of_slice(self.parameters.slice.get());
        let owes = context.settle((context.slice_used() - slice).min(at_others_cost), slice);
        inner.debts.note(context, owes);
        self.show_debts(inner);
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

    /// A decision at which those pass that owe a slice.
    fn have_pass(
        &self,
        inner: &mut Inner,
        choose: impl FnOnce(&mut Kernel<Context>, &dyn Fn(&Context) -> bool, &mut dyn FnMut(&mut Context)) -> Next,
    ) -> Next {
        let usual = self.parameters.slice.get();
        let (amnesty, mut passed) = (inner.debts.amnesty, false);
        let debts = &mut inner.debts;
        let next = choose(
            &mut inner.kernel,
            &|context| context.debtor == amnesty,
            &mut |context| {
                let owes = context.pass(context.length_of_slice(usual));
                debts.note(context, owes);
                passed = true;
            },
        );
        inner.debts.note_decision(passed);
        self.show_debts(inner);
        next
    }

    /// A process is about to run, though it may not have paid: all others owe as well.
    #[inline]
    pub(super) fn note_run(&self, inner: &mut Inner, process: ProcessId) {
        if self.exceptions() & exception::OWING != 0 {
            self.end_debt(inner, process, false);
        }
    }

    /// What a process owes is forgotten: others stop it, or it is no more.
    pub(super) fn forgive(&self, inner: &mut Inner, process: ProcessId) {
        if self.exceptions() & exception::OWING != 0 {
            self.end_debt(inner, process, true);
        }
    }

    #[cold]
    fn end_debt(&self, inner: &mut Inner, process: ProcessId, is_forgotten: bool) {
        let Some(context) = inner.kernel.payload_mut(process) else {
            return;
        };
        if is_forgotten && inner.debts.is_debtor(context) {
            context.slice_began = context.busy;
        }
        inner.debts.note(context, false);
        self.show_debts(inner);
    }

    fn show_debts(&self, inner: &Inner) {
        if inner.debts.debtors > 0 {
            // Relaxed (all): the owner's alone, but for `ENDED`.
            self.exceptions.fetch_or(exception::OWING, Ordering::Relaxed);
        } else {
            self.exceptions.fetch_and(!exception::OWING, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLICE: i64 = 10_000_000;

    /// Has computed for a while, and then its slice was settled, which was too long by so much; and whether it owes the next one.
    fn settled(excess: i64) -> (Context, bool) {
        let mut context = Context {
            busy: 500_000_000,
            slice_began: 77,
            ..Context::default()
        };
        let owes = context.settle(excess, SLICE);
        (context, owes)
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
            (500_000_000, MOST_OWED, true),
        ] {
            let (context, owed) = settled(excess);
            assert_eq!((context.slice_used(), owed), (used, owes), "{excess}");
        }
        let mut short = Context::default();
        assert!(!short.settle(-1_000, 1_000));
        assert_eq!(short.slice_used(), -500);
    }

    #[test]
    fn who_passes_pays_a_slice() {
        let (mut context, _) = settled(25_000_000);
        for (left, owes) in [(15_000_000, true), (5_000_000, false)] {
            assert_eq!(context.pass(SLICE), owes);
            assert_eq!(context.slice_used(), left);
        }
    }

    #[test]
    fn slices_shorter_than_a_look_are_paid_for_as_long_as_one() {
        let (mut context, _) = settled(250_000);
        for (slice, left, owes) in [(0, 150_000, true), (1_000, 50_000, true), (1_000, -500, false)] {
            assert_eq!(context.pass(slice), owes);
            assert_eq!(context.slice_used(), left);
        }
    }

    #[test]
    fn debtors_are_counted_until_they_have_paid() {
        let mut debts = Debts::new();
        let [mut one, mut other] = [0; 2].map(|_| Context::default());
        for (owes, debtors) in [(true, 1), (true, 1), (false, 0), (false, 0), (true, 1)] {
            debts.note(&mut one, owes);
            assert_eq!((debts.is_debtor(&one), debts.debtors), (owes, debtors));
        }
        debts.note(&mut other, true);
        assert_eq!(debts.debtors, 2);
    }

    #[test]
    fn all_is_forgiven_when_nobody_has_passed_for_long() {
        let mut debts = Debts::new();
        let [mut one, mut other] = [0; 2].map(|_| Context::default());
        for _ in 0..300 {
            debts.note(&mut one, true);
            for decision in 1..2 * PATIENCE - 1 {
                assert!(debts.is_debtor(&one), "{decision}");
                // Somebody passes once.
                debts.note_decision(decision == PATIENCE - 1);
            }
            assert!(debts.is_debtor(&one));
            debts.note_decision(false);
            assert!(!debts.is_debtor(&one) && debts.debtors == 0);
            // An old debt is none, and is not counted twice when it ends.
            debts.note(&mut other, true);
            debts.note(&mut one, false);
            assert_eq!(debts.debtors, 1);
            debts.note(&mut other, false);
        }
    }
}
