//! Operations of a running process. All are called inside the VM.

use crate::panics::broken;
use crate::recording::SwitchCause;
use crate::sched::{
    Attempt, Deadline, KillOutcome, Next, NotCritical, ProcessId, ResumeOutcome, Scheduler, State,
    SuspendOutcome, Wake, WakeReason,
};
use crate::vm::inside::Jump;
use crate::vm::{Context, Inner, Inside, Vm};
use baton_sys::clock::Instant;
use baton_sys::stack::{Stack, StackStats};
use std::ops::Range;
use std::time::Duration;

impl Inside<'_> {
    /// Moves the calling process to the back of its level, and runs an equal or more urgent process
    /// first, if there is one.
    ///
    /// ```
    /// # mod closures { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/closures.rs")); }
    /// closures::run(|main| {
    ///     main.spawn(|process| process.note("another one"));
    ///     main.note("main");
    ///     main.vm.yield_now();
    ///     assert_eq!(main.noted(), ["main", "another one"]);
    /// });
    /// ```
    #[inline]
    pub fn yield_now(&self) {
        let jump = self.with_inner(
            #[inline(always)]
            |inner| self.yield_fast(inner),
        );
        match jump {
            Some(jump) => self.take_handoff(jump),
            None => self.reborrow().yield_slow(),
        }
    }

    /// The slow path of a yield: more than a handoff among equals.
    #[inline(never)]
    fn yield_slow(self) {
        let jump = self.with_inner(|inner| self.plan_slow_yield(inner));
        self.take(jump);
    }

    /// Moves the calling process to the back of its level, and runs `process` next. If `process`
    /// cannot run, or another process is more urgent, this acts like [`Inside::yield_now`]. Returns
    /// whether `process` was alive.
    ///
    /// ```
    /// # mod closures { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/closures.rs")); }
    /// closures::run(|main| {
    ///     main.spawn(|process| process.note("first"));
    ///     let second = main.spawn(|process| process.note("second"));
    ///     assert!(main.vm.yield_to(second));
    ///     assert_eq!(main.noted(), ["second", "first"]);
    /// });
    /// ```
    pub fn yield_to(&self, process: ProcessId) -> bool {
        let (lived, jump) = self.with_inner(|inner| {
            let lived = inner.sched.is_alive(process);
            if self.is_simulated() {
                inner.note_cause(SwitchCause::Yields);
            }
            let jump = inner.sched.current().and_then(|me| {
                let next = match inner.sched.yield_to(process) {
                    Next::Other(pid) if pid != process => {
                        self.skip_deficits_after(inner, me, Next::Other(pid))
                    }
                    next => next,
                };
                self.plan_yield(inner, me, next)
            });
            (lived, jump)
        });
        self.take(jump);
        lived
    }

    /// Enters a critical section. Until the calling process leaves it:
    ///
    /// - no other process of this VM runs;
    /// - the VM stays with the process during its foreign calls;
    /// - an operation that would wait ends with [`WakeReason::Forbidden`].
    ///
    /// Sections nest. [`Inside::suspend`] of the process itself leaves them while it is suspended.
    ///
    /// ```
    /// use baton_core::sched::{Deadline, WakeReason};
    /// # mod closures { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/closures.rs")); }
    /// closures::run(|main| {
    ///     let child = main.spawn(|process| process.note("child"));
    ///     main.vm.enter_critical();
    ///     main.vm.yield_now();
    ///     assert!(main.noted().is_empty());
    ///     let wake = main.vm.block_on(|sched| sched.join(child, Deadline::Never));
    ///     assert_eq!(wake.reason, WakeReason::Forbidden);
    ///     main.vm.leave_critical().expect("it is inside");
    ///     main.join(child);
    /// });
    /// ```
    pub fn enter_critical(&self) {
        self.sched(Scheduler::enter_critical);
    }

    /// Leaves a critical section. The calling process then gives way if a more urgent process
    /// became runnable meanwhile.
    ///
    /// # Errors
    /// Outside of critical sections. Nothing changes.
    pub fn leave_critical(&self) -> Result<(), NotCritical> {
        self.with_sched(Scheduler::leave_critical)
    }

    /// Runs an operation that may block, and returns its outcome. The calling process waits if `f`
    /// returns [`Attempt::Blocked`]. Afterwards it gives way if a more urgent process was woken.
    ///
    /// ```
    /// use baton_core::sched::{Deadline, WakeReason};
    /// # mod closures { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/closures.rs")); }
    /// closures::run(|main| {
    ///     let semaphore = main.vm.sched(|sched| sched.semaphore_new(0));
    ///     let wait =
    ///         |deadline| main.vm.block_on(|sched| sched.semaphore_wait(semaphore, deadline));
    ///     assert_eq!(wait(Deadline::Now).reason, WakeReason::TimedOut);
    ///     main.spawn(move |process| {
    ///         process.vm.with_sched(|sched| sched.semaphore_signal(semaphore, 1));
    ///     });
    ///     assert_eq!(wait(Deadline::Never).reason, WakeReason::Done);
    /// });
    /// ```
    // A frame of its own would be one more between C and the switch: see `await_wake`.
    #[inline(always)]
    pub fn block_on(&self, f: impl FnOnce(&mut Scheduler<Context>) -> Attempt) -> Wake {
        let attempt = self.with_inner(|inner| match inner.sched.current() {
            Some(_) => f(&mut inner.sched),
            None => Attempt::Ready(Wake::because(WakeReason::Dead)),
        });
        match attempt {
            Attempt::Blocked => self.reborrow().await_wake(),
            Attempt::Ready(wake) => {
                if self.with_inner(|inner| inner.has_to_decide()) {
                    self.reborrow().settle();
                }
                wake
            }
        }
    }

    /// Runs another process, as the calling one has begun to wait. Returns how the wait ended.
    ///
    /// Each return after a switch costs a misprediction. So this is the last call of an operation,
    /// and by the convention of C, in which a [`Wake`] is returned in registers up to the caller in
    /// C.
    #[inline(never)]
    extern "C-unwind" fn await_wake(self) -> Wake {
        let (me, jump) = self.with_inner(|inner| {
            debug_assert!(
                inner.sched.current().is_none(),
                "`Blocked` comes from a process that runs"
            );
            let me = inner
                .sched
                .last_current()
                .unwrap_or_else(|| broken("no process has begun to wait"));
            (me, self.plan_after_block(inner, me))
        });
        self.take(jump);
        self.with_inner(|inner| inner.sched.take_wake(me))
    }

    /// After an operation that did not wait: gives way if it has woken a more urgent process, and
    /// updates the hints.
    #[inline(never)]
    fn settle(self) {
        let jump = self.with_inner(|inner| self.give_way(inner));
        self.take(jump);
    }

    /// Runs an operation that may wake other processes, and returns its result. The calling process
    /// gives way if one of them is more urgent. [`Inside::block_on`] has an example.
    #[inline]
    pub fn with_sched<R>(&self, f: impl FnOnce(&mut Scheduler<Context>) -> R) -> R {
        let (result, has_to_decide) = self.with_inner(|inner| {
            let result = f(&mut inner.sched);
            self.let_go_of_threads(inner);
            (result, inner.has_to_decide())
        });
        if has_to_decide {
            self.reborrow().settle();
        }
        result
    }

    /// Sleeps until `until`. Returns at once if that time has passed.
    ///
    /// ```
    /// use baton_sys::clock::Instant;
    /// use std::time::Duration;
    /// # mod closures { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/closures.rs")); }
    /// closures::run(|main| {
    ///     let until = Instant::now() + Duration::from_millis(1);
    ///     main.vm.sleep_until(until);
    ///     assert!(Instant::now() >= until);
    /// });
    /// ```
    pub fn sleep_until(&self, until: Instant) -> Wake {
        let now = Instant::now();
        if until <= now {
            self.safepoint();
            return Wake::because(WakeReason::Done);
        }
        // The clock was read just now, so the exact time costs nothing. The coarse time may be from
        // before this run began. Then a process that sleeps again within a tick would never be
        // charged.
        self.with_inner(|inner| {
            if let Some(me) = inner.sched.current() {
                inner.account(me, now.as_nanos());
            }
        });
        self.block_on(|sched| sched.sleep(until))
    }

    /// Suspends a process. If it is the calling process, this returns when it is resumed. It leaves
    /// its critical sections in the same step, and enters them again before this returns.
    ///
    /// ```
    /// use baton_core::sched::{ResumeOutcome, State};
    /// # mod closures { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/closures.rs")); }
    /// closures::run(|main| {
    ///     let child = main.spawn(|process| {
    ///         let _ = process.vm.suspend(process.id);
    ///         process.note("goes on");
    ///     });
    ///     main.vm.yield_now();
    ///     assert_eq!(main.vm.sched(|sched| sched.state(child)), State::Suspended);
    ///     assert_eq!(main.vm.resume(child), ResumeOutcome::Resumed);
    ///     main.join(child);
    ///     assert_eq!(main.noted(), ["goes on"]);
    /// });
    /// ```
    #[inline]
    pub fn suspend(&self, process: ProcessId) -> SuspendOutcome {
        let fast = self.with_inner(
            #[inline(always)]
            |inner| match inner.sched.is_current(process) {
                true => self.suspend_fast(inner),
                false => None,
            },
        );
        match fast {
            Some(jump) => {
                self.take_handoff(jump);
                SuspendOutcome::CurrentMustSwitch
            }
            None => self.reborrow().suspend_slow(process),
        }
    }

    /// Resumes a suspended process. It runs at once if it is more urgent than the calling one.
    ///
    /// ```
    /// use baton_core::sched::ResumeOutcome;
    /// # mod closures { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/closures.rs")); }
    /// closures::run(|main| {
    ///     let child = main.spawn(|process| {
    ///         let _ = process.vm.suspend(process.id);
    ///     });
    ///     assert_eq!(main.vm.resume(child), ResumeOutcome::NotSuspended);
    ///     main.vm.yield_now();
    ///     assert_eq!(main.vm.resume(child), ResumeOutcome::Resumed);
    ///     main.join(child);
    ///     assert_eq!(main.vm.resume(child), ResumeOutcome::Dead);
    /// });
    /// ```
    #[inline]
    pub fn resume(&self, process: ProcessId) -> ResumeOutcome {
        let fast = self.with_inner(
            #[inline(always)]
            |inner| self.resume_fast(inner, process),
        );
        match fast {
            Some(jump) => {
                self.take_handoff(jump);
                ResumeOutcome::Resumed
            }
            None => self.reborrow().resume_slow(process),
        }
    }

    /// The slow path of a resumption: more than a handoff to the resumed process.
    #[inline(never)]
    fn resume_slow(self, process: ProcessId) -> ResumeOutcome {
        self.with_sched(|sched| sched.resume(process))
    }

    /// The slow path of a suspension: more than a handoff to the next process.
    #[inline(never)]
    fn suspend_slow(self, process: ProcessId) -> SuspendOutcome {
        let (outcome, jump, left) = self.with_inner(|inner| {
            let me = inner.sched.current();
            let outcome = inner.sched.suspend(process);
            match (outcome, me) {
                (SuspendOutcome::CurrentMustSwitch, Some(me)) => (
                    outcome,
                    self.plan_after_block(inner, me),
                    inner.sched.has_left_critical(me),
                ),
                _ => {
                    self.clear_deficit(inner, process);
                    self.update_hints(inner);
                    (outcome, None, false)
                }
            }
        });
        self.take(jump);
        if left {
            self.sched(Scheduler::reenter_critical);
        }
        outcome
    }

    /// Kills a process. The guest raises the kill there: the process is asked for a safepoint.
    ///
    /// ```
    /// use baton_core::sched::{KillOutcome, WakeReason};
    /// use baton_sys::clock::Instant;
    /// # mod closures { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/closures.rs")); }
    /// closures::run(|main| {
    ///     let child = main.spawn(|process| {
    ///         let wake = process.vm.sleep_until(Instant::FAR_FUTURE);
    ///         // A guest raises an error of its language now.
    ///         assert_eq!(wake.reason, WakeReason::Killed);
    ///     });
    ///     main.vm.yield_now();
    ///     assert_eq!(main.vm.kill(child), KillOutcome::Woken);
    ///     main.join(child);
    ///     assert_eq!(main.vm.kill(child), KillOutcome::AlreadyDead);
    /// });
    /// ```
    pub fn kill(&self, process: ProcessId) -> KillOutcome {
        let (outcome, jump) = self.with_inner(|inner| {
            let outcome = inner.sched.kill(process);
            self.clear_deficit(inner, process);
            if matches!(outcome, KillOutcome::Woken | KillOutcome::Pending) {
                self.request_end(inner, process);
            }
            let jump = self.give_way(inner);
            (outcome, jump)
        });
        self.take(jump);
        outcome
    }

    /// Asks a process for a safepoint at `due`, once, in place of an earlier request; `None`: not
    /// any more. If it runs then, it comes there soon, alone or not.
    pub fn request_safepoint_at(&self, process: ProcessId, due: Option<Instant>) {
        self.with_inner(|inner| {
            inner.sched.request_safepoint_at(process, due);
            self.update_hints(inner);
        });
    }

    /// Replaces the guest's data of a process.
    pub fn set_user_data(&self, process: ProcessId, user_data: usize) {
        self.with_inner(|inner| {
            let lives = inner.sched.state(process) != State::Dead;
            if let Some(before) = inner.sched.user_data(process).filter(|_| lives) {
                self.guest.user_data_changed(before, user_data);
            }
            inner.sched.set_user_data(process, user_data);
            if let Some(context) = inner.sched.payload_mut(process) {
                context.set_user_data(user_data);
            }
        });
    }

    /// Names a process that has not begun, for reports. An empty name is none.
    pub fn name_process(&self, process: ProcessId, name: &str) {
        self.with_inner(|inner| inner.sched.set_process_name(process, name));
    }

    /// Records that a process has foreign frames on its stack, or (`false`) has none any more. A
    /// pinned process continues only on the thread of the caller. While it waits, no other process
    /// runs there. At the latest, the guest calls this when it is told of the switch
    /// ([`Guest::switched`](crate::guest::Guest::switched)).
    pub fn set_pinned(&self, process: ProcessId, pinned: bool) {
        self.with_inner(|inner| {
            self.pin(inner, process, pinned.then_some(inner.carrier));
            if inner.carrier == crate::vm::HOME {
                inner.settle_homebody();
            }
        });
    }

    /// How long a process has not run, to a few milliseconds. `None` while it runs, and before its
    /// first run.
    pub fn idle_for(&self, process: ProcessId) -> Option<Duration> {
        let now = Instant::now().as_nanos();
        self.with_inner(|inner| inner.idle_for(process, now))
    }

    /// The most bytes of C stack that a process has used. `None` before its first run and after its
    /// end.
    pub fn stack_high_water(&self, process: ProcessId) -> Option<usize> {
        self.with_inner(|inner| {
            let context = inner.sched.payload_mut(process)?;
            context
                .fiber
                .and(context.stack.as_ref())
                .map(Stack::high_water)
        })
    }

    /// Lowest and highest address of a living process's C stack.
    pub fn stack_bounds(&self, process: ProcessId) -> Option<(usize, usize)> {
        self.with_inner(|inner| {
            let stack = inner.sched.payload(process)?.stack.as_ref()?;
            Some((stack.bottom() as usize, stack.top() as usize))
        })
    }

    /// The guard pages of a living process's C stack: addresses below it that fault on access, so
    /// that an overflow is caught.
    pub fn stack_guard(&self, process: ProcessId) -> Option<Range<usize>> {
        self.with_inner(|inner| Some(inner.sched.payload(process)?.stack.as_ref()?.guard()))
    }

    /// Statistics of the stack pool.
    pub fn stack_stats(&self) -> StackStats {
        self.with_inner(|inner| inner.stacks.stats())
    }

    /// Gives back the memory of free stacks, except of a few hundred. For a guest that is asked for
    /// memory, as in a full garbage collection. About a microsecond for each stack.
    pub fn trim_stacks(&self) {
        self.with_inner(|inner| inner.stacks.trim_spare());
    }

    /// Gives back the address space of free stacks, except of a few, for a guest that finds no
    /// memory. Returns how many bytes that is.
    pub fn unmap_stacks(&self) -> usize {
        self.with_inner(|inner| inner.stacks.unmap_free())
    }

    /// As [`Inside::block_on`]; `f` also gets a random number, to choose among ready cases.
    // As above.
    #[inline(always)]
    pub fn block_on_random(&self, f: impl FnOnce(&mut Scheduler<Context>, u64) -> Attempt) -> Wake {
        let random = self.with_inner(Inner::number_for_select);
        self.block_on(|sched| f(sched, random))
    }

    /// Sets whether foreign calls may be retaken. The guest turns it off around calls that must
    /// keep the VM.
    pub fn set_retaking(&self, on: bool) {
        // Relaxed: read under the VM's mutex after a take, which orders it.
        self.retaking
            .store(on, std::sync::atomic::Ordering::Relaxed);
    }
}

impl Vm {
    /// The deadline that a timeout means, from now; `None` means [`Deadline::Never`].
    pub fn deadline(timeout: Option<Duration>) -> Deadline {
        match timeout {
            None => Deadline::Never,
            Some(Duration::ZERO) => Deadline::Now,
            Some(timeout) => Deadline::At(Instant::now() + timeout),
        }
    }

    /// Makes the calling process give way if another process is more urgent.
    #[inline]
    pub(super) fn give_way(&self, inner: &mut Inner) -> Option<Jump> {
        if !inner.sched.current_should_yield() {
            self.hint_run_queue(inner, inner.sched.run_queue_summary());
            return None;
        }
        match self.give_way_fast(inner) {
            None => self.plan_to_give_way(inner),
            jump => jump,
        }
    }

    #[inline(never)]
    pub(in crate::vm) fn plan_to_give_way(&self, inner: &mut Inner) -> Option<Jump> {
        let me = inner.sched.current()?;
        let gives_way = inner.sched.current_should_yield()
            && self.parameters.preemptive()
            && inner.sched.is_preemptible(me);
        let next = if gives_way {
            self.note_interrupted(inner, me);
            inner
                .sched
                .preempt_current(crate::sched::Preemption::MoreUrgent)
        } else {
            Next::Same
        };
        self.plan(inner, me, next)
    }

    pub(in crate::vm) fn plan_slow_yield(&self, inner: &mut Inner) -> Option<Jump> {
        let me = inner.sched.current()?;
        self.shuffle(inner, me, SwitchCause::Yields);
        let next = inner.sched.yield_current();
        let next = self.skip_deficits_after(inner, me, next);
        self.plan_yield(inner, me, next)
    }

    #[inline]
    fn plan_yield(&self, inner: &mut Inner, me: ProcessId, next: Next) -> Option<Jump> {
        if next == Next::Same && self.must_end_stint(inner) {
            return self.plan(inner, me, Next::Nothing);
        }
        if next == Next::Same && self.slow_reasons() != 0 {
            return self.plan_for_scheduler_hook(inner, me);
        }
        let jump = self.plan(inner, me, next);
        if matches!(next, Next::Other(_)) {
            inner.begin_slice(me);
        }
        jump
    }

    /// If a process must end, requests a safepoint of it.
    pub(in crate::vm) fn request_end(&self, inner: &Inner, process: ProcessId) {
        if inner.sched.kill_is_due(process)
            && let Some(user_data) = inner.sched.user_data(process)
        {
            self.guest.request_safepoint(user_data);
        }
    }

    /// Makes the calling process wait, and runs another process.
    #[inline]
    fn plan_after_block(&self, inner: &mut Inner, me: ProcessId) -> Option<Jump> {
        match self.succeed_fast(inner) {
            None => self.plan_successor(inner, me),
            jump => jump,
        }
    }

    #[inline(never)]
    pub(in crate::vm) fn plan_successor(&self, inner: &mut Inner, me: ProcessId) -> Option<Jump> {
        self.shuffle(inner, me, SwitchCause::Waits);
        let next = match self.schedule(inner) {
            Next::Other(pid) if pid == me => Next::Same,
            other => other,
        };
        let jump = self.plan(inner, me, next);
        inner.begin_slice(me);
        jump
    }
}

impl Inner {
    /// The next random number, for fairness among ready cases and for simulated runs.
    pub(in crate::vm) fn next_random(&mut self) -> u64 {
        next_number(&mut self.random)
    }
}

/// The next number of a generator (xorshift64*), whose state is not 0.
pub(in crate::vm) fn next_number(state: &mut u64) -> u64 {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    state.wrapping_mul(0x2545_F491_4F6C_DD1D)
}
