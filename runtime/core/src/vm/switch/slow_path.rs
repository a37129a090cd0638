//! The slow path of a switch, and safepoints. On the owner's thread.

use crate::panics::broken;
use crate::recording::SwitchCause;
use crate::sched::{CarrierId, Next, Preemption, ProcessId};
use crate::trace::What;
use crate::vm::inside::Jump;
use crate::vm::{Context, HOME, Inner, Inside, Vm};
use baton_sys::clock::Instant;
use baton_sys::fiber::Fiber;
use baton_sys::gate;
use std::sync::atomic::Ordering;

/// What a carrier's own loop does next.
#[must_use]
#[derive(Debug)]
pub(in crate::vm) enum BaseStep {
    /// Continue a process.
    Run(Jump),
    /// Give the VM to another native thread.
    HandOver(CarrierId),
    /// Give the VM to a thread that is reserved for no process, to continue this process there. If
    /// there is none, it runs here.
    MakeRoom(ProcessId),
    /// The time that the host gave is used up. Home is the owner.
    Pause,
    /// Nothing is runnable.
    Idle,
}

impl Vm {
    /// Turns a scheduling decision into the next step of the calling process `from`.
    #[inline]
    pub(in crate::vm) fn plan(
        &self,
        inner: &mut Inner,
        from: ProcessId,
        next: Next,
    ) -> Option<Jump> {
        let jump = match next {
            Next::Same => None,
            _ if self.slow_reasons() != 0 => self.plan_slow(inner, from, next),
            Next::Other(to) => Some(self.plan_jump(inner, from, Some(to))),
            Next::Nothing => Some(self.plan_jump(inner, from, None)),
        };
        self.update_hints(inner);
        jump
    }

    #[cold]
    fn plan_slow(&self, inner: &mut Inner, from: ProcessId, next: Next) -> Option<Jump> {
        if self.has_ended() {
            return self.plan_alone(inner, from);
        }
        let to = match next {
            Next::Other(to) => Some(to),
            _ => None,
        };
        inner.record_left(from, to);
        let runs_hooks = inner.must_run_hooks(Some(from), to);
        let to = to.filter(|_| !runs_hooks && !self.must_end_stint(inner));
        Some(self.plan_jump(inner, from, to))
    }

    /// Makes the scheduler hook run, although no other process is chosen instead of `me`.
    #[cold]
    pub(in crate::vm) fn plan_for_scheduler_hook(
        &self,
        inner: &mut Inner,
        me: ProcessId,
    ) -> Option<Jump> {
        if self.has_ended() || inner.sched.is_critical() || !inner.must_ask_scheduler_hook(me) {
            return None;
        }
        let jump = self.plan_jump(inner, me, None);
        self.update_hints(inner);
        Some(jump)
    }

    /// Handles a decision after scheduling has stopped. `from` continues if it can run; if it
    /// waits, the VM's run ends.
    #[cold]
    fn plan_alone(&self, inner: &mut Inner, from: ProcessId) -> Option<Jump> {
        match inner.sched.switch_to(from) {
            Next::Same => None,
            Next::Other(chosen) if chosen == from => None,
            _ => Some(self.plan_jump(inner, from, None)),
        }
    }

    #[inline]
    pub(in crate::vm) fn plan_jump(
        &self,
        inner: &mut Inner,
        from: ProcessId,
        to: Option<ProcessId>,
    ) -> Jump {
        inner.account(from, self.coarse_now());
        if inner.tracer.is_some() {
            let to = to.filter(|&pid| self.may_run_here(inner, pid));
            inner.trace_switch(from, to);
        }
        let from = inner.fiber_of(from);
        let to = match to {
            Some(pid) if self.may_run_here(inner, pid) => {
                self.hint_slice(inner, pid);
                inner.fiber_of(pid)
            }
            _ => inner.base_fiber(),
        };
        Jump::new(inner, from, to)
    }

    /// Hints to the monitor how much of its slice the next process has used.
    #[inline]
    pub(super) fn hint_slice(&self, inner: &Inner, pid: ProcessId) {
        let context = inner.context(pid);
        // Relaxed: a hint.
        self.hints
            .slice_used
            .store(context.slice_used(), Ordering::Relaxed);
        if self.slow_reasons() & crate::vm::slow_reason::SLICED != 0 {
            // Relaxed: a hint.
            self.hints.slice.store(context.slice, Ordering::Relaxed);
        }
    }

    /// Whether the owner's thread may continue `pid`. If not, its loop hands the VM over.
    #[inline]
    fn may_run_here(&self, inner: &Inner, pid: ProcessId) -> bool {
        match inner.sched.effective_carrier(pid) {
            Some(carrier) => carrier == inner.carrier,
            None if self.is_kept_from(inner, pid) => false,
            None if inner.carrier == HOME => true,
            // Relaxed: a stale answer only delays the way home.
            None => {
                !self.home_waits.load(Ordering::Relaxed) && !inner.sched.is_named(inner.carrier)
            }
        }
    }

    /// Whether the running process could also run at home, which is free.
    pub(in crate::vm) fn should_go_home(&self, inner: &Inner, pid: ProcessId) -> bool {
        // Relaxed: a stale answer only delays the way home.
        let home_waits = inner.carrier != HOME && self.home_waits.load(Ordering::Relaxed);
        home_waits && inner.sched.effective_carrier(pid) != Some(inner.carrier)
    }

    /// Decides what the loop of the owner's thread does next.
    pub(in crate::vm) fn plan_base(&self, inner: &mut Inner) -> BaseStep {
        let returned = inner.sched.schedule_returned(inner.carrier);
        let chosen = match returned.or(inner.sched.current()) {
            Some(pid) => Some(pid),
            None => {
                self.shuffle_for_loop(inner);
                match self.schedule(inner) {
                    Next::Other(pid) => {
                        if self.is_simulated() {
                            inner.record_next(pid);
                        }
                        Some(pid)
                    }
                    Next::Same | Next::Nothing => None,
                }
            }
        };
        // Relaxed: a stale answer only delays the way home.
        let home_waits = inner.carrier != HOME && self.home_waits.load(Ordering::Relaxed);
        let is_kept = |inner: &Inner, pid| {
            inner.sched.is_named(inner.carrier) || self.is_kept_from(inner, pid)
        };
        match chosen {
            Some(_) if self.stint_is_over(inner) => match inner.carrier {
                HOME => BaseStep::Pause,
                _ => BaseStep::HandOver(HOME),
            },
            Some(pid) => match inner.sched.effective_carrier(pid) {
                Some(carrier) if carrier != inner.carrier => BaseStep::HandOver(carrier),
                None if home_waits || self.host_waits(inner) => BaseStep::HandOver(HOME),
                None if is_kept(inner, pid) => BaseStep::MakeRoom(pid),
                _ => BaseStep::Run(self.plan_run(inner, pid)),
            },
            None if home_waits => BaseStep::HandOver(HOME),
            None => BaseStep::Idle,
        }
    }

    /// Continues a process on the owner's thread.
    pub(in crate::vm) fn plan_run(&self, inner: &mut Inner, pid: ProcessId) -> Jump {
        let to = inner.fiber_of(pid);
        let now = Instant::now().as_nanos();
        inner.cpu.resume(inner.carrier, inner.run_started, now);
        inner.run_started = now;
        let carrier = inner.carrier;
        inner.trace(|| What::Runs {
            process: pid,
            carrier,
        });
        self.hint_slice(inner, pid);
        self.update_hints(inner);
        let from = inner.base_fiber();
        Jump::new(inner, from, to)
    }
}

impl Inside<'_> {
    /// Continues a process from the loop of the owner's thread. Returns when a switch comes back to
    /// the loop.
    pub(in crate::vm) fn run_from_base(&self, jump: Jump) {
        self.take_from_loop(jump);
    }

    /// A safepoint: takes in posts and deadlines, and makes the calling process give way if it
    /// must. Inside the VM.
    ///
    /// ```
    /// use baton_core::sched::{Priority, SpawnOptions};
    /// use baton_core::vm::Spawned;
    /// # mod closures { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/closures.rs")); }
    /// closures::run(|main| {
    ///     let options = main.options(|process| process.note("urgent"));
    ///     let urgent = SpawnOptions { priority: Priority::HIGHEST, ..options };
    ///     main.vm.spawn(urgent, None, Spawned::Now).expect("there is room");
    ///     main.note("main");
    ///     main.vm.safepoint();
    ///     assert_eq!(main.noted(), ["main", "urgent"]);
    /// });
    /// ```
    pub fn safepoint(&self) {
        if self.is_simulated() {
            self.end_turn_if_due();
        }
        let requests = self.take_in();
        let jump = self.with_inner(|inner| {
            let me = self.preemptible_process(inner, requests)?;
            self.shuffle(inner, me, SwitchCause::Preempted);
            let outranked = inner.sched.current_should_yield();
            if outranked {
                self.note_interrupted(inner, me);
            }
            let steps_aside = inner.steps_aside_now(me, outranked);
            let next = if self.must_end_slice(inner, me, requests, outranked) {
                return self.end_slice(inner, me);
            } else if outranked {
                inner.sched.preempt_current(Preemption::MoreUrgent)
            } else if steps_aside {
                inner.sched.preempt_current(Preemption::SliceExpired)
            } else if self.should_go_home(inner, me) || self.stint_is_over(inner) {
                Next::Nothing
            } else {
                Next::Same
            };
            if next != Next::Same {
                inner.account(me, Instant::now().as_nanos());
            }
            self.plan(inner, me, next)
        });
        self.take(jump);
    }

    /// Takes in posts, deadlines and wakers, at a safepoint. Returns the requests.
    pub(in crate::vm) fn take_in(&self) -> u32 {
        gate::here().clear_attention();
        self.harvest();
        self.poll_descriptors();
        // AcqRel: pairs with the monitor's and the signal handlers' `fetch_or`.
        let requests = self.requests.swap(0, Ordering::AcqRel);
        if requests & crate::vm::request::SIGNALLED != 0 {
            self.guest.signalled(self);
        }
        self.serve_looks_if_asked(requests);
        requests
    }
}

impl Vm {
    /// The running process, if it may be preempted.
    pub(in crate::vm) fn preemptible_process(
        &self,
        inner: &mut Inner,
        requests: u32,
    ) -> Option<ProcessId> {
        if requests & crate::vm::request::WOKEN != 0 {
            inner.serve_wakers();
        }
        let me = inner.sched.current()?;
        if !self.parameters.preemptive() || !inner.sched.is_preemptible(me) {
            self.update_hints(inner);
            return None;
        }
        Some(me)
    }

    /// Whether the slice of the running process must end: its end was requested, or it is far
    /// overrun.
    pub(in crate::vm) fn must_end_slice(
        &self,
        inner: &mut Inner,
        me: ProcessId,
        requests: u32,
        outranked: bool,
    ) -> bool {
        if requests & crate::vm::request::SLICE != 0 {
            self.slice_is_over(inner, me, outranked)
        } else {
            !outranked && self.slice_is_long_over(inner, me)
        }
    }

    /// Whether the loop of the thread must choose the next process, after a process has ended.
    #[inline]
    fn leaves_fast_path(&self, inner: &mut Inner, next: ProcessId) -> bool {
        let slow_reasons = self.slow_reasons();
        slow_reasons != 0
            && (self.has_ended()
                || inner.must_run_hooks(None, Some(next))
                || self.must_end_stint(inner))
    }
}

impl Inside<'_> {
    /// Runs the process that has just been switched to for the first time, to its end. Decides
    /// which one is continued.
    pub(in crate::vm) fn run_process(self) -> Jump {
        let (pid, user_data) = self.with_inner(|inner| {
            let pid = inner
                .sched
                .current()
                .unwrap_or_else(|| broken("a process starts that is not current"));
            (pid, inner.record_of(pid))
        });
        let vm = self.vm;
        vm.guest.run(self, pid, user_data).plan_exit(pid)
    }

    /// Ends the calling process, and decides which one is continued.
    fn plan_exit(self, me: ProcessId) -> Jump {
        self.with_inner(|inner| {
            if !inner.context(me).is_forgotten_at_end {
                inner.account(me, Instant::now().as_nanos());
            }
            let context: Context = std::mem::take(inner.context_mut(me));
            let forgotten = inner.context_mut(me);
            (forgotten.busy, forgotten.absent) = (context.busy, context.absent);
            let Some(from) = context.fiber else {
                broken("a process ends that never ran")
            };
            if let Some(stack) = inner.retired.take() {
                inner.stacks.recycle(stack);
                inner.stacks.shrink_gradually();
            }
            inner.retired = context.stack;
            if context.is_hooked {
                self.count_hooked(inner, false);
            }
            if context.slice != 0 {
                self.count_sliced(inner, context.slice, 0);
            }
            if self.is_simulated() {
                inner.note_cause(SwitchCause::Ended);
                inner.record_left(me, None);
            }
            if inner.tracer.is_some() {
                inner.trace_end(me, self.guest.wording());
            }
            let had_foreign_frames = inner.sched.has_pinned() && inner.sched.pinned(me).is_some();
            inner.sched.exit_current();
            if had_foreign_frames {
                inner.settle_homebody();
            }
            if context.is_forgotten_at_end {
                inner.sched.forget(me);
            }
            self.let_go_of_threads(inner);
            self.shuffle_for_loop(inner);
            let next = self.schedule(inner);
            if let Next::Other(pid) = next
                && self.is_simulated()
            {
                inner.record_next(pid);
            }
            let to = match next {
                Next::Other(pid)
                    if !self.leaves_fast_path(inner, pid) && self.may_run_here(inner, pid) =>
                {
                    self.hint_slice(inner, pid);
                    inner.trace_after_end(pid);
                    inner.fiber_of(pid)
                }
                _ => inner.base_fiber(),
            };
            self.update_hints(inner);
            Jump::new(inner, from, to)
        })
    }
}

impl Inner {
    /// Whether a hint has changed.
    #[inline]
    pub(in crate::vm) fn has_changed(&self) -> bool {
        self.sched.changes() != self.hinted_changes
    }

    /// Whether there is anything to decide or to hint after an operation of the running process.
    #[inline]
    pub(in crate::vm) fn has_to_decide(&self) -> bool {
        self.has_changed() || self.sched.current_should_yield()
    }

    #[inline]
    pub(in crate::vm) fn context(&self, pid: ProcessId) -> &Context {
        self.sched
            .payload(pid)
            .unwrap_or_else(|| broken("a process has no context"))
    }

    #[inline]
    pub(in crate::vm) fn context_mut(&mut self, pid: ProcessId) -> &mut Context {
        self.sched
            .payload_mut(pid)
            .unwrap_or_else(|| broken("a process has no context"))
    }

    /// The guest's record of a process that is about to run.
    #[inline]
    fn record_of(&self, pid: ProcessId) -> usize {
        self.sched
            .user_data(pid)
            .unwrap_or_else(|| broken("a process runs that was forgotten"))
    }

    /// Makes the fiber of a process at its first run.
    #[cold]
    pub(super) fn first_fiber_of_current(&mut self) -> Fiber {
        match self.sched.current() {
            Some(current) => self.first_fiber_of(current),
            None => broken("nobody is current"),
        }
    }

    /// The fiber of a process about to run; made at its first run.
    #[inline]
    pub(super) fn fiber_of(&mut self, pid: ProcessId) -> Fiber {
        match self.context(pid).fiber {
            Some(fiber) => fiber,
            None => self.first_fiber_of(pid),
        }
    }

    #[cold]
    fn first_fiber_of(&mut self, pid: ProcessId) -> Fiber {
        self.sched.mark_started(pid);
        let user_data = self.record_of(pid);
        let fiber = self.context_mut(pid).make_fiber(user_data);
        self.label(fiber, pid);
        fiber
    }

    #[inline]
    pub(in crate::vm) fn base_fiber(&self) -> Fiber {
        self.base
            .unwrap_or_else(|| broken("the owner's thread has no loop"))
    }

    /// Charges the time since the last switch to `pid`. `now` may be a coarse reading. On the
    /// owner's thread.
    #[inline]
    pub(in crate::vm) fn account(&mut self, pid: ProcessId, now: u64) {
        let elapsed = self.charge(pid, now);
        if self.cpu.is_due(self.run_started) {
            self.end_window(pid, elapsed);
        }
    }

    #[cold]
    pub(super) fn end_window(&mut self, pid: ProcessId, run: u64) {
        if let Some(context) = self.sched.payload_mut(pid) {
            self.cpu.read(self.carrier, self.run_started, run, context);
        }
    }

    /// As [`Inner::account`] on any thread, without a reading of the processor time. Returns the
    /// time charged.
    #[inline]
    pub(in crate::vm) fn charge(&mut self, pid: ProcessId, now: u64) -> u64 {
        let elapsed = now.saturating_sub(self.run_started);
        self.run_started = self.run_started.max(now);
        let left_at = self.run_started;
        let context = self.context_mut(pid);
        context.busy += elapsed;
        context.left_at = left_at;
        elapsed
    }

    /// The running time of `pid`, in nanoseconds, at `now`; 0 if it was forgotten.
    pub(in crate::vm) fn busy(&self, pid: ProcessId, now: u64) -> u64 {
        let running = self.sched.current() == Some(pid);
        let since = if running {
            now.saturating_sub(self.run_started)
        } else {
            0
        };
        self.sched
            .payload(pid)
            .map_or(0, |context| context.busy + since)
    }
}
