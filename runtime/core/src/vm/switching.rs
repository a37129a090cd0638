//! From one process straight to the next, on the owner's thread.

use super::{Context, HOME, Inner, Vm};
use crate::kernel::{CarrierId, Next, Preemption, ProcessId};
use baton_sys::clock::Instant;
use baton_sys::fiber::Fiber;
use baton_sys::gate;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A switch that has been decided and is to be carried out once the owner's data is no longer borrowed.
///
/// Two words, so that it travels in registers; the guest's words go with the fibers.
#[must_use]
#[derive(Debug, Clone, Copy)]
pub(super) struct Jump {
    pub(super) from: Fiber,
    pub(super) to: Fiber,
}

/// What a carrier's own loop does next.
#[must_use]
#[derive(Debug)]
pub(super) enum BaseStep {
    /// Continue a process.
    Run(Jump),
    /// Give the VM to another native thread.
    HandOver(CarrierId),
    /// The same, to one that is kept for nobody, to continue this process; if there is none, it runs here.
    MakeRoom(ProcessId),
    /// Nothing is runnable.
    Idle,
}

impl Vm {
    /// Carries a decided switch out. Returns when the calling process is continued.
    #[inline]
    pub(super) fn take(&self, jump: Option<Jump>) {
        if let Some(Jump { from, to }) = jump {
            self.guest.switched(word_of(from), word_of(to));
            from.switch_to(to);
        }
    }

    /// Decides where the calling process `from` goes after a scheduling decision.
    #[inline]
    pub(super) fn plan(&self, inner: &mut Inner, from: ProcessId, next: Next) -> Option<Jump> {
        let jump = match next {
            Next::Same => None,
            _ if self.exceptions() != 0 => self.plan_exceptionally(inner, from, next),
            Next::Other(to) => Some(self.plan_jump(inner, from, Some(to))),
            Next::Nothing => Some(self.plan_jump(inner, from, None)),
        };
        self.publish(inner);
        jump
    }

    #[cold]
    fn plan_exceptionally(&self, inner: &mut Inner, from: ProcessId, next: Next) -> Option<Jump> {
        if self.has_ended() {
            return self.plan_alone(inner, from);
        }
        let to = match next {
            Next::Other(to) => Some(to),
            _ => None,
        };
        let consults = inner.must_consult(Some(from), to);
        let to = to.filter(|_| !consults);
        Some(self.plan_jump(inner, from, to))
    }

    /// The guest is asked who runs instead of `me`, although no other process would.
    #[cold]
    pub(super) fn plan_to_ask(&self, inner: &mut Inner, me: ProcessId) -> Option<Jump> {
        if self.has_ended() || inner.kernel.is_critical() || !inner.must_ask(me) {
            return None;
        }
        let jump = self.plan_jump(inner, me, None);
        self.publish(inner);
        Some(jump)
    }

    /// Scheduling has stopped: `from` goes on if it can run, and ends the run of the VM if it waits.
    #[cold]
    fn plan_alone(&self, inner: &mut Inner, from: ProcessId) -> Option<Jump> {
        match inner.kernel.switch_to(from) {
            Next::Same => None,
            Next::Other(chosen) if chosen == from => None,
            _ => Some(self.plan_jump(inner, from, None)),
        }
    }

    #[inline]
    pub(super) fn plan_jump(&self, inner: &mut Inner, from: ProcessId, to: Option<ProcessId>) -> Jump {
        inner.account(from, self.coarse_now());
        let from = inner.fiber_of(from);
        let to = match to {
            Some(pid) if self.may_run_here(inner, pid) => {
                self.publish_slice(inner, pid);
                inner.fiber_of(pid)
            }
            _ => inner.base_fiber(),
        };
        Jump { from, to }
    }

    /// Shows the monitor how much of its slice the process to run has used.
    #[inline]
    pub(super) fn publish_slice(&self, inner: &Inner, pid: ProcessId) {
        let context = inner.context(pid);
        // Relaxed: a hint.
        self.published.slice_used.store(context.slice_used(), Ordering::Relaxed);
        if self.exceptions() & super::exception::SLICED != 0 {
            // Relaxed: a hint.
            self.published.slice.store(context.slice, Ordering::Relaxed);
        }
    }

    /// Whether the owner's thread may continue `pid`; if not, its loop hands the VM over.
    #[inline]
    fn may_run_here(&self, inner: &Inner, pid: ProcessId) -> bool {
        match inner.kernel.effective_carrier(pid) {
            Some(carrier) => carrier == inner.carrier,
            None if inner.carrier == HOME => true,
            // Relaxed: a stale answer only delays the way home.
            None => !self.home_waits.load(Ordering::Relaxed) && !inner.kernel.is_named(inner.carrier),
        }
    }

    /// Whether the running process could as well run at home, which is free.
    pub(super) fn should_go_home(&self, inner: &Inner, pid: ProcessId) -> bool {
        // Relaxed: a stale answer only delays the way home.
        let home_waits = inner.carrier != HOME && self.home_waits.load(Ordering::Relaxed);
        home_waits && inner.kernel.effective_carrier(pid) != Some(inner.carrier)
    }

    /// What the loop of the owner's thread does next.
    pub(super) fn plan_base(&self, inner: &mut Inner) -> BaseStep {
        let returned = inner.kernel.schedule_returned(inner.carrier);
        let chosen = match returned.or(inner.kernel.current()) {
            Some(pid) => Some(pid),
            None => {
                self.stir(inner, None);
                match self.schedule(inner) {
                    Next::Other(pid) => Some(pid),
                    Next::Same | Next::Nothing => None,
                }
            }
        };
        // Relaxed: a stale answer only delays the way home.
        let home_waits = inner.carrier != HOME && self.home_waits.load(Ordering::Relaxed);
        match chosen {
            Some(pid) => match inner.kernel.effective_carrier(pid) {
                Some(carrier) if carrier != inner.carrier => BaseStep::HandOver(carrier),
                None if home_waits => BaseStep::HandOver(HOME),
                None if inner.kernel.is_named(inner.carrier) => BaseStep::MakeRoom(pid),
                _ => BaseStep::Run(self.plan_run(inner, pid)),
            },
            None if home_waits => BaseStep::HandOver(HOME),
            None => BaseStep::Idle,
        }
    }

    /// Continues a process on the owner's thread.
    pub(super) fn plan_run(&self, inner: &mut Inner, pid: ProcessId) -> Jump {
        let to = inner.fiber_of(pid);
        inner.run_started = Instant::now().as_nanos();
        self.publish_slice(inner, pid);
        self.publish(inner);
        let from = inner.base_fiber();
        Jump { from, to }
    }

    /// Continues a process from the loop of the owner's thread; returns when somebody switches back to the loop.
    pub(super) fn run_from_base(&self, jump: Jump) {
        self.take(Some(jump));
    }

    /// Asks at a safepoint whether the calling process must give way, and does so. Inside the VM.
    /// Also takes in what other threads posted and what is due.
    ///
    /// ```
    /// use baton_core::kernel::{Priority, SpawnOptions};
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
        gate::here().clear_attention();
        self.harvest();
        self.look_for_ready();
        // AcqRel: pairs with the monitor's and the signal handlers' `fetch_or`.
        let requests = self.requests.swap(0, Ordering::AcqRel);
        if requests & super::request::SIGNALLED != 0 {
            self.guest.signalled();
        }
        let jump = self.inner.with(|inner| {
            if requests & super::request::RUNG != 0 {
                inner.answer_bells();
            }
            let me = inner.kernel.current()?;
            if !self.parameters.preemptive() || !inner.kernel.is_preemptible(me) {
                self.publish(inner);
                return None;
            }
            self.stir(inner, Some(me));
            let outranked = inner.kernel.current_should_yield();
            if outranked {
                self.note_interrupted(inner, me);
            }
            let is_over = if requests & super::request::SLICE != 0 {
                self.slice_is_over(inner, me, outranked)
            } else {
                !outranked && self.slice_is_long_over(inner, me)
            };
            let next = if is_over {
                return self.end_slice(inner, me);
            } else if outranked {
                inner.kernel.preempt_current(Preemption::MoreUrgent)
            } else if self.should_go_home(inner, me) {
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

    /// The entry of every process's fiber.
    pub(super) fn process_entry(_word: usize) -> ! {
        // The current process and its VM are found through the calling thread's gate: the VM itself cannot be
        // passed as a plain word without unsafe code, so the carrier's loop keeps it in its thread-local.
        let vm = super::carrier::vm_of_this_thread();
        let (pid, word) = vm.inner.with(|inner| {
            let pid = inner
                .kernel
                .current()
                .unwrap_or_else(|| broken("a process starts that is not current"));
            (pid, inner.kernel.guest(pid))
        });
        vm.guest.run(pid, word);
        vm.exit_process(pid)
    }

    /// After the end of a process, whether its thread's loop is to see who comes next.
    #[inline]
    fn leaves_straight_way(&self, inner: &mut Inner, next: ProcessId) -> bool {
        let exceptions = self.exceptions();
        exceptions != 0 && (self.has_ended() || inner.must_consult(None, Some(next)))
    }

    /// Ends the calling process and continues the next one.
    fn exit_process(self: Arc<Vm>, me: ProcessId) -> ! {
        let Jump { from, to } = self.inner.with(|inner| {
            inner.account(me, Instant::now().as_nanos());
            let context: Context = std::mem::take(inner.context_mut(me));
            inner.context_mut(me).busy = context.busy;
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
            inner.kernel.exit_current();
            self.let_go_of_threads(inner);
            self.stir(inner, None);
            let next = self.schedule(inner);
            let to = match next {
                Next::Other(pid) if !self.leaves_straight_way(inner, pid) && self.may_run_here(inner, pid) => {
                    self.publish_slice(inner, pid);
                    inner.fiber_of(pid)
                }
                _ => inner.base_fiber(),
            };
            self.publish(inner);
            Jump { from, to }
        });
        self.guest.switched(word_of(from), word_of(to));
        drop(self); // the stack is left for good: nothing on it is dropped later
        from.end(to)
    }
}

impl Inner {
    /// Whether there is something new to publish.
    #[inline]
    pub(super) fn has_changed(&self) -> bool {
        self.kernel.changes() != self.published
    }

    /// Whether there is anything to decide or to publish after an operation of the running process.
    #[inline]
    pub(super) fn has_to_decide(&self) -> bool {
        self.has_changed() || self.kernel.current_should_yield()
    }

    #[inline]
    pub(super) fn context(&self, pid: ProcessId) -> &Context {
        self.kernel
            .payload(pid)
            .unwrap_or_else(|| broken("a process has no context"))
    }

    #[inline]
    pub(super) fn context_mut(&mut self, pid: ProcessId) -> &mut Context {
        self.kernel
            .payload_mut(pid)
            .unwrap_or_else(|| broken("a process has no context"))
    }

    /// The fiber of the process that runs from now on, and has not run before.
    #[cold]
    pub(super) fn first_fiber_of_current(&mut self) -> Fiber {
        match self.kernel.current() {
            Some(current) => self.first_fiber_of(current),
            None => broken("nobody is current"),
        }
    }

    /// The fiber of a process about to run; made at its first run.
    #[inline]
    fn fiber_of(&mut self, pid: ProcessId) -> Fiber {
        match self.context(pid).fiber {
            Some(fiber) => fiber,
            None => self.first_fiber_of(pid),
        }
    }

    #[cold]
    fn first_fiber_of(&mut self, pid: ProcessId) -> Fiber {
        self.kernel.mark_started(pid);
        let word = self.kernel.guest(pid);
        let context = self.context_mut(pid);
        let Some(stack) = &context.stack else {
            broken("a process starts without a stack")
        };
        let fiber = Fiber::prepare(stack, Vm::process_entry, word);
        context.fiber = Some(fiber);
        fiber
    }

    #[inline]
    pub(super) fn base_fiber(&self) -> Fiber {
        self.base.unwrap_or_else(|| broken("the owner's thread has no loop"))
    }

    /// Charges the time since the last switch to `pid`; `now` may be a coarse reading.
    #[inline]
    pub(super) fn account(&mut self, pid: ProcessId, now: u64) {
        let elapsed = now.saturating_sub(self.run_started);
        self.context_mut(pid).busy += elapsed;
        self.run_started = self.run_started.max(now);
    }

    /// Time on the processor of `pid`, in nanoseconds, at `now`; 0 if it was forgotten.
    pub(super) fn busy(&self, pid: ProcessId, now: u64) -> u64 {
        let running = self.kernel.current() == Some(pid);
        let since = if running {
            now.saturating_sub(self.run_started)
        } else {
            0
        };
        self.kernel.payload(pid).map_or(0, |context| context.busy + since)
    }
}

/// The argument of a carrier's own fiber.
pub(super) const NO_PROCESS: usize = usize::MAX;

/// The guest's word of the process that a fiber runs; none for a carrier's own.
#[inline]
fn word_of(fiber: Fiber) -> Option<usize> {
    match fiber.argument() {
        NO_PROCESS => None,
        word => Some(word),
    }
}

#[cold]
#[inline(never)]
pub(super) fn broken(what: &str) -> ! {
    eprintln!("baton: {what} (the executor's bookkeeping is broken)");
    std::process::abort();
}
