//! The straight way: switches on home about which nothing else is to be decided, as most are.
//!
//! The kernel makes them as turns ([`Turn`]); here the accounts of both processes are kept and the monitor is told. What is not as usual (an exception, another
//! thread, nobody who could run) goes the long way, through [`Vm::plan`].

use super::switching::{Jump, broken};
use super::{HOME, Inner, Vm};
use crate::kernel::Turn;
use baton_sys::clock::Instant;
use std::sync::atomic::Ordering;

impl Vm {
    /// Whether a switch may go the straight way.
    #[inline(always)]
    pub(super) fn goes_straight(&self, inner: &Inner) -> bool {
        self.exceptions() == 0 && inner.carrier == HOME
    }

    /// A yield among equals, where a switch costs the most. Equals change places: as many are
    /// runnable as before, and no deadline has changed, so the monitor need not be told more than that there was a switch.
    #[inline(always)]
    pub(super) fn yield_straight(&self, inner: &mut Inner) -> Option<Jump> {
        if !self.goes_straight(inner) {
            return None;
        }
        let turn = inner.kernel.yield_by_turn()?;
        let jump = self.carry_out(inner, turn, true);
        // Relaxed: a hint.
        let switches = inner.kernel.counters().switches;
        self.published.switches.store(switches, Ordering::Relaxed);
        Some(jump)
    }

    /// The calling process gives way to a more urgent one.
    #[inline(always)]
    pub(super) fn give_way_straight(&self, inner: &mut Inner) -> Option<Jump> {
        if !self.goes_straight(inner) || !self.parameters.preemptive() {
            return None;
        }
        let turn = inner.kernel.give_way_by_turn()?;
        let jump = self.carry_out(inner, turn, false);
        self.publish(inner);
        Some(jump)
    }

    /// The calling process waits, and the most urgent one runs.
    #[inline(always)]
    pub(super) fn succeed_straight(&self, inner: &mut Inner) -> Option<Jump> {
        if !self.goes_straight(inner) {
            return None;
        }
        let turn = inner.kernel.succeed_by_turn()?;
        let jump = self.carry_out(inner, turn, true);
        self.publish(inner);
        Some(jump)
    }

    /// The calling process suspends itself, and the most urgent one of the others runs. One fewer is runnable then, which is all that the monitor has to be told: no
    /// deadline has changed, and it was called for more than is left.
    #[inline(always)]
    pub(super) fn suspend_straight(&self, inner: &mut Inner) -> Option<Jump> {
        if !self.goes_straight(inner) || inner.has_changed() {
            return None;
        }
        let turn = inner.kernel.suspend_by_turn()?;
        let jump = self.carry_out(inner, turn, true);
        self.publish_fewer(inner);
        Some(jump)
    }

    /// Charges the process that was left for its time, whose slice may have ended with it, and shows the monitor the one that runs.
    #[inline(always)]
    fn carry_out(&self, inner: &mut Inner, turn: Turn, ends_slice: bool) -> Jump {
        let now = self.coarse_now();
        let [left, run] = inner
            .kernel
            .payloads_of_turn(turn)
            .unwrap_or_else(|| broken("a runnable process has no context"));
        left.busy += now.saturating_sub(inner.run_started);
        inner.run_started = inner.run_started.max(now);
        if ends_slice {
            left.slice_began = left.busy;
        }
        // Relaxed: a hint.
        self.published.slice_used.store(run.slice_used(), Ordering::Relaxed);
        let from = left.fiber.unwrap_or_else(|| broken("a process runs that has no fiber"));
        let to = match run.fiber {
            Some(fiber) => fiber,
            None => inner.first_fiber_of_current(),
        };
        Jump { from, to }
    }

    /// The time for accounts, at most a tick behind: the monitor's, as long as it looks at the clock once a tick.
    #[inline]
    pub(super) fn coarse_now(&self) -> u64 {
        if !self.monitor.ticks() {
            return Instant::now().as_nanos();
        }
        // Relaxed: a coarse clock orders nothing.
        self.published.coarse_now.load(Ordering::Relaxed)
    }
}
