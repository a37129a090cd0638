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
//! with the coarse clock, which charges the one who runs for a tick of the one before; then it is what the monitor saw. Only what its thread has computed is owed: when the
//! system does not let it run, or a call waits, the accounts go on, but that is nobody's gain.
//!
//! After a debt was made, switches do not go their straight way for a while: where somebody waits or yields as well, those pass whose turn it would be. When nobody has come to its
//! turn who owes in a thousand decisions, they go straight again, and debts are paid at the ends of slices alone.

use super::slices::tolerance;
use super::switching::{Jump, broken};
use super::{Context, HOME, Inner, Vm, exception};
use crate::kernel::{CarrierId, Kernel, Next, Preemption, ProcessId};
use baton_sys::clock;
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
    last: Settlement,
}

/// When the last slice ended, by exact clocks.
#[derive(Debug)]
struct Settlement {
    at: u64,
    /// What its thread had computed by then, in nanoseconds.
    cpu: u64,
    carrier: CarrierId,
    /// The number of the turn that began then, if its process has all of its slice before it.
    begins: Option<u64>,
}

/// What is known of a slice that is over; times in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ended {
    slice: i64,
    used: i64,
    /// Of that it has had before this turn, beyond its slice.
    carried: i64,
    /// For how long this turn has been at others' cost.
    at_others_cost: i64,
    /// The turn is all that there was since the last settlement.
    is_whole: bool,
    /// The time since then.
    elapsed: i64,
    /// What the thread has computed in it, if it is the same.
    computed: Option<i64>,
}

impl Ended {
    /// By how much it was too long.
    fn excess(self) -> i64 {
        let computed = self.computed.unwrap_or(i64::MAX);
        let idle = if self.is_whole {
            (self.elapsed - computed).max(0)
        } else {
            0
        };
        let excess = self.used - self.slice - idle;
        excess.min(self.carried.saturating_add(self.at_others_cost.min(computed)))
    }
}

impl Debts {
    pub(super) fn new() -> Debts {
        Debts {
            in_vain: PATIENCE,
            last: Settlement {
                at: 0,
                cpu: 0,
                carrier: HOME,
                begins: None,
            },
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
        self.last.begins = None;
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

    /// A little has been charged after it was settled, at this time of its own.
    fn stay_settled(&mut self, at: u64) {
        if self.settled_at == at {
            self.slice_began = self.slice_began.wrapping_add(self.busy - at);
            self.settled_at = self.busy;
        }
    }

    /// What it had had beyond its slice when it was continued, having used so much of it.
    fn carried(&self, used: i64, slice: i64) -> i64 {
        let was_settled = self.settled_at == self.slice_began.wrapping_add_signed(used);
        if was_settled { (used - slice).max(0) } else { 0 }
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
        let cpu = clock::thread_cpu_time().as_nanos() as u64;
        let settled_at = self.settle_slice(inner, me, cpu);
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
        inner.context_mut(me).stay_settled(settled_at);
        self.published.note_beginning(inner.run_started);
        inner.debts.last = Settlement {
            at: inner.run_started,
            cpu,
            carrier: inner.carrier,
            begins: is_whole.then(|| self.published.turn()),
        };
        jump
    }

    /// Answers when, by the process's own time.
    fn settle_slice(&self, inner: &mut Inner, me: ProcessId, cpu: u64) -> u64 {
        let turn = self.published.turn();
        let now = inner.run_started;
        let last = &inner.debts.last;
        let on_the_same_thread = last.carrier == inner.carrier;
        let is_whole = on_the_same_thread && last.begins == Some(turn);
        let context = inner
            .kernel
            .payload(me)
            .unwrap_or_else(|| broken("a process has no context"));
        let slice = context.length_of_slice(self.parameters.slice.get());
        let ended = Ended {
            slice,
            used: context.slice_used(),
            // Relaxed: the owner's own.
            carried: context.carried(self.published.slice_used.load(Ordering::Relaxed), slice),
            at_others_cost: self.published.asked.at_others_cost(turn, is_whole, now),
            is_whole,
            elapsed: now.saturating_sub(last.at) as i64,
            computed: cpu
                .checked_sub(last.cpu)
                .filter(|_| on_the_same_thread)
                .map(|time| time as i64),
        };
        let context = inner.context_mut(me);
        context.settle(ended.excess(), slice);
        let (owes, settled_at) = (context.owes(slice), context.settled_at);
        if owes {
            inner.debts.expect_more();
        }
        settled_at
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

    /// A whole slice of 10 ms that has lasted for 30, all of them computed, beside rivals.
    const LONG: Ended = Ended {
        slice: SLICE,
        used: 3 * SLICE,
        carried: 0,
        at_others_cost: 5 * SLICE,
        is_whole: true,
        elapsed: 3 * SLICE,
        computed: Some(3 * SLICE),
    };

    #[test]
    fn what_was_not_computed_is_not_owed() {
        let computed = |computed, is_whole| Ended {
            computed,
            is_whole,
            ..LONG
        };
        assert_eq!(LONG.excess(), 2 * SLICE);
        assert_eq!(computed(Some(SLICE), true).excess(), 0);
        assert_eq!(computed(Some(SLICE / 2), true).excess(), -SLICE / 2);
        // The thread's clock is a little ahead, or it is another thread.
        assert_eq!(computed(Some(4 * SLICE), true).excess(), 2 * SLICE);
        assert_eq!(computed(None, false).excess(), 2 * SLICE);
        // Others ran as well since the last settlement: what this one computed was no more than all of it.
        assert_eq!(computed(Some(SLICE), false).excess(), SLICE);
        let after_a_pause = Ended {
            elapsed: 100 * SLICE,
            ..computed(Some(3 * SLICE), false)
        };
        assert_eq!(after_a_pause.excess(), 2 * SLICE);
    }

    #[test]
    fn a_debt_from_before_is_owed_whether_or_not_this_turn_was_at_others_cost() {
        let alone = Ended {
            at_others_cost: 0,
            ..LONG
        };
        assert_eq!(alone.excess(), 0);
        let carried = SLICE + 7;
        assert_eq!(Ended { carried, ..alone }.excess(), SLICE + 7);
        assert_eq!(
            Ended {
                carried: 9 * SLICE,
                ..alone
            }
            .excess(),
            2 * SLICE
        );
    }

    #[test]
    fn a_debt_is_carried_into_a_turn_and_what_was_used_before_an_interruption_is_not() {
        let mut context = settled(25_000_000, SLICE);
        let used = context.slice_used();
        context.busy += 4_000_000;
        assert_eq!(context.carried(used, SLICE), 15_000_000);
        let used = context.slice_used();
        context.busy += 4_000_000;
        assert_eq!(context.carried(used, SLICE), 0);
        assert_eq!(settled(3_000_000, SLICE).carried(3_000_000, SLICE), 0);
        assert_eq!(settled(-50_000, SLICE).carried(-50_000, SLICE), 0);
    }

    #[test]
    fn what_is_charged_after_a_settlement_changes_no_debt() {
        let mut context = settled(25_000_000, SLICE);
        let at = context.busy;
        context.busy += 3_000;
        assert!(!context.owes(SLICE));
        context.stay_settled(at);
        assert_eq!((context.owes(SLICE), context.slice_used()), (true, 25_000_000));
        // It was not settled then.
        context.busy += 5_000;
        context.stay_settled(at);
        assert_eq!((context.owes(SLICE), context.slice_used()), (false, 25_005_000));
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
