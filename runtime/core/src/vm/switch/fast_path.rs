//! The fast path: switches between two processes on home, while there is no slow reason. Most
//! switches are like that.
//!
//! The scheduler makes them as [`Handoff`]s. This module charges both processes, updates the hints,
//! and notes the switch if the VM is traced. All other switches (with a hook, to another thread, to
//! no process) take the slow path through [`Vm::plan`].

use crate::panics::broken;
use crate::sched::{Deadline, Handoff, ProcessId, WaitPlace};
use crate::trace::Left;
use crate::vm::inside::Jump;
use crate::vm::{HOME, Inner, Vm, slow_reason};
use baton_sys::clock::Instant;
use std::sync::atomic::Ordering;

/// A switch may take the fast path.
#[must_use]
#[derive(Clone, Copy)]
struct Permit {
    is_traced: bool,
}

impl Vm {
    /// Whether a switch may take the fast path.
    #[inline(always)]
    fn permit(&self, inner: &Inner) -> Option<Permit> {
        // Relaxed: owners set all bits. Those of an earlier owner are visible by the VM lock. The
        // monitor sets `STINT_OVER`, which may be seen late.
        let reasons = self.slow_reasons.load(Ordering::Relaxed);
        let is_permitted = reasons & !slow_reason::TRACED == 0 && inner.carrier == HOME;
        is_permitted.then_some(Permit {
            is_traced: reasons != 0,
        })
    }

    /// A yield among equals, the most frequent switch. The number of runnable processes and the
    /// deadlines do not change, so the only new hint is that there was a switch.
    #[inline(always)]
    pub(in crate::vm) fn yield_fast(&self, inner: &mut Inner) -> Option<Jump> {
        let permit = self.permit(inner)?;
        if inner.has_changed() {
            return None;
        }
        let handoff = inner.sched.yield_by_handoff()?;
        let jump = self.carry_out(inner, permit, handoff, Left::Yielded);
        // Relaxed: a hint.
        let switches = inner.sched.counters().switches;
        self.hints.switches.store(switches, Ordering::Relaxed);
        Some(jump)
    }

    /// Makes the calling process give way to a more urgent one.
    #[inline(always)]
    pub(in crate::vm) fn give_way_fast(&self, inner: &mut Inner) -> Option<Jump> {
        let permit = self.permit(inner)?;
        if !self.parameters.preemptive() {
            return None;
        }
        let handoff = inner.sched.give_way_by_handoff()?;
        let jump = self.carry_out(inner, permit, handoff, Left::Outranked);
        self.hint_run_queue(inner, inner.sched.summary_after_handoff(handoff));
        Some(jump)
    }

    /// Resumes a suspended process that is more urgent than the calling one and all others. It runs
    /// at once.
    #[inline(always)]
    pub(in crate::vm) fn resume_fast(&self, inner: &mut Inner, process: ProcessId) -> Option<Jump> {
        let permit = self.permit(inner)?;
        if !self.parameters.preemptive() {
            return None;
        }
        let handoff = inner.sched.resume_by_handoff(process)?;
        if permit.is_traced {
            inner.trace_resumed(handoff);
        }
        let jump = self.carry_out(inner, permit, handoff, Left::Outranked);
        self.hint_run_queue(inner, inner.sched.summary_after_handoff(handoff));
        Some(jump)
    }

    /// Makes the calling process wait, and runs the most urgent process.
    #[inline(always)]
    pub(in crate::vm) fn succeed_fast(&self, inner: &mut Inner) -> Option<Jump> {
        let permit = self.permit(inner)?;
        let handoff = inner.sched.succeed_by_handoff()?;
        let jump = self.carry_out(inner, permit, handoff, Left::Waits);
        self.hint_run_queue(inner, inner.sched.summary_after_handoff(handoff));
        Some(jump)
    }

    /// Makes the calling process wait at a place that was found just now, and runs the most urgent
    /// of the others.
    #[inline(always)]
    pub(in crate::vm) fn wait_fast(
        &self,
        inner: &mut Inner,
        place: WaitPlace,
        value: u64,
        deadline: Deadline,
    ) -> Option<Jump> {
        let permit = self.permit(inner)?;
        let handoff = inner.sched.wait_by_handoff(place, value, deadline)?;
        let jump = self.carry_out(inner, permit, handoff, Left::Waits);
        self.hint_run_queue(inner, inner.sched.summary_after_handoff(handoff));
        Some(jump)
    }

    /// Suspends the calling process, and runs the most urgent of the others. One process fewer is
    /// runnable then, which is the only new hint: no deadline has changed, and earlier hints
    /// already cover every poll that is needed now.
    #[inline(always)]
    pub(in crate::vm) fn suspend_fast(&self, inner: &mut Inner) -> Option<Jump> {
        let permit = self.permit(inner)?;
        if inner.has_changed() {
            return None;
        }
        let handoff = inner.sched.suspend_by_handoff()?;
        let jump = self.carry_out(inner, permit, handoff, Left::Suspended);
        self.hint_fewer_runnable(inner, handoff);
        Some(jump)
    }

    /// Charges the process that was left, and updates the hints for the process that runs. The
    /// slice of the former has ended unless it was outranked.
    #[inline(always)]
    fn carry_out(&self, inner: &mut Inner, permit: Permit, handoff: Handoff, cause: Left) -> Jump {
        if permit.is_traced {
            inner.trace_handoff(handoff, cause);
        }
        let now = self.coarse_now();
        // The coarse time changes with each tick, and most runs are shorter.
        if now > inner.run_started {
            inner.charge_handoff(handoff, now);
        }
        let [left, run] = inner
            .sched
            .payloads_of_handoff(handoff)
            .unwrap_or_else(|| without_context());
        left.left_at = inner.run_started;
        if cause != Left::Outranked {
            left.slice_began = left.busy;
        }
        // Relaxed: a hint.
        self.hints
            .slice_used
            .store(run.slice_used(), Ordering::Relaxed);
        let from = left.fiber.unwrap_or_else(|| without_fiber());
        let to = match run.fiber {
            Some(fiber) => fiber,
            None => inner.first_fiber_of_current(),
        };
        Jump::new(inner, from, to)
    }

    /// The time for accounts, at most a tick old: that of the monitor's last poll, while the
    /// monitor reads the clock once a tick.
    #[inline(always)]
    pub(in crate::vm) fn coarse_now(&self) -> u64 {
        if !self.monitor.ticks() {
            return exact_now();
        }
        // Relaxed: a coarse clock orders nothing.
        self.hints.coarse_now.load(Ordering::Relaxed)
    }
}

#[cold]
#[inline(never)]
fn exact_now() -> u64 {
    Instant::now().as_nanos()
}

#[cold]
#[inline(never)]
fn without_context() -> ! {
    broken("a runnable process has no context")
}

#[cold]
#[inline(never)]
fn without_fiber() -> ! {
    broken("a process runs that has no fiber")
}

impl Inner {
    /// Charges the process that a handoff has left. Ends the window of processor time if it is due.
    #[cold]
    #[inline(never)]
    fn charge_handoff(&mut self, handoff: Handoff, now: u64) {
        let run = now.saturating_sub(self.run_started);
        self.run_started = now;
        if let Some([left, _]) = self.sched.payloads_of_handoff(handoff) {
            if self.cpu.is_due(now) {
                self.cpu.read(HOME, now, run, left);
            }
            left.busy += run;
        }
    }
}
