//! What a running process may do. All of it inside the VM.

use super::{Context, Inner, Vm};
use crate::kernel::{
    Attempt, Deadline, Kernel, KillOutcome, Next, NotCritical, ProcessId, SuspendOutcome, Wake, WakeReason,
};
use baton_sys::clock::Instant;
use baton_sys::stack::{Stack, StackStats};
use std::ops::Range;
use std::time::Duration;

impl Vm {
    /// To the back of its level; continues equals or more urgent ones first.
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
        let turn = self.inner.with(
            #[inline(always)]
            |inner| self.yield_straight(inner),
        );
        match turn {
            Some(_) => self.take(turn),
            None => self.yield_among_many(),
        }
    }

    /// A yield that is more than a turn among equals.
    #[inline(never)]
    fn yield_among_many(&self) {
        let jump = self.inner.with(|inner| {
            let me = inner.kernel.current()?;
            self.stir(inner, Some(me));
            let next = inner.kernel.yield_current();
            let next = self.pass_over_after(inner, me, next);
            self.plan_yield(inner, me, next)
        });
        self.take(jump);
    }

    /// To the back of its level, and straight to `process` if that can run and nobody is more urgent; else as [`Vm::yield_now`]. Says
    /// whether `process` lived when it was asked.
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
        let (lived, jump) = self.inner.with(|inner| {
            let lived = inner.kernel.is_alive(process);
            let jump = inner.kernel.current().and_then(|me| {
                let next = match inner.kernel.yield_to(process) {
                    Next::Other(pid) if pid != process => self.pass_over_after(inner, me, Next::Other(pid)),
                    next => next,
                };
                self.plan_yield(inner, me, next)
            });
            (lived, jump)
        });
        self.take(jump);
        lived
    }

    /// The calling process enters a critical section: no other process of this VM runs until it has left it, its foreign calls keep the VM, and what
    /// would have to wait is told [`WakeReason::Forbidden`]. Sections nest. Only [`Vm::suspend`] of the process itself leaves them meanwhile.
    ///
    /// ```
    /// use baton_core::kernel::{Deadline, WakeReason};
    /// # mod closures { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/closures.rs")); }
    /// closures::run(|main| {
    ///     let child = main.spawn(|process| process.note("child"));
    ///     main.vm.enter_critical();
    ///     main.vm.yield_now();
    ///     assert!(main.noted().is_empty());
    ///     let wake = main.vm.attempt(|kernel| kernel.join(child, Deadline::Never));
    ///     assert_eq!(wake.reason, WakeReason::Forbidden);
    ///     main.vm.leave_critical().expect("it is inside");
    ///     main.join(child);
    /// });
    /// ```
    pub fn enter_critical(&self) {
        self.kernel(Kernel::enter_critical);
    }

    /// The calling process leaves a critical section, and gives way if somebody more urgent became runnable meanwhile.
    ///
    /// # Errors
    /// Outside of critical sections; nothing has changed then.
    pub fn leave_critical(&self) -> Result<(), NotCritical> {
        self.operate(Kernel::leave_critical)
    }

    /// Does what may block: the calling process waits if the kernel says so. Gives way afterwards if somebody more urgent was woken.
    ///
    /// ```
    /// use baton_core::kernel::{Deadline, WakeReason};
    /// # mod closures { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/closures.rs")); }
    /// closures::run(|main| {
    ///     let semaphore = main.vm.kernel(|kernel| kernel.semaphore_new(0));
    ///     let wait = |deadline| main.vm.attempt(|kernel| kernel.semaphore_wait(semaphore, deadline));
    ///     assert_eq!(wait(Deadline::Now).reason, WakeReason::TimedOut);
    ///     main.spawn(move |process| {
    ///         process.vm.operate(|kernel| kernel.semaphore_signal(semaphore, 1));
    ///     });
    ///     assert_eq!(wait(Deadline::Never).reason, WakeReason::Done);
    /// });
    /// ```
    pub fn attempt(&self, f: impl FnOnce(&mut Kernel<Context>) -> Attempt) -> Wake {
        let outcome = self.inner.with(|inner| {
            let Some(me) = inner.kernel.current() else {
                return Err(Wake::because(WakeReason::Dead));
            };
            match f(&mut inner.kernel) {
                Attempt::Ready(wake) if !inner.has_to_decide() => Err(wake),
                Attempt::Ready(wake) => Ok((me, self.give_way(inner), Some(wake))),
                Attempt::Blocked => Ok((me, self.plan_after_block(inner, me), None)),
            }
        });
        match outcome {
            Err(wake) => wake,
            Ok((me, jump, ready)) => {
                self.take(jump);
                ready.unwrap_or_else(|| self.inner.with(|inner| inner.kernel.take_wake(me)))
            }
        }
    }

    /// Does what may wake others, and gives way if one of them is more urgent than the calling process. [`Vm::attempt`] has an example.
    pub fn operate<R>(&self, f: impl FnOnce(&mut Kernel<Context>) -> R) -> R {
        let (result, jump) = self.inner.with(|inner| {
            let result = f(&mut inner.kernel);
            self.let_go_of_threads(inner);
            let jump = if inner.has_to_decide() {
                self.give_way(inner)
            } else {
                None
            };
            (result, jump)
        });
        self.take(jump);
        result
    }

    /// Sleeps until `until`; at once back if that has passed.
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
        // The clock has been read anyway. The coarse one is from before it began to run, where it sleeps again within a tick: it would never be charged.
        self.inner.with(|inner| {
            if let Some(me) = inner.kernel.current() {
                inner.account(me, now.as_nanos());
            }
        });
        self.attempt(|kernel| kernel.sleep(until))
    }

    /// Suspends a process; the calling one returns when it is resumed. It leaves its critical sections in the same step, and is inside of them again
    /// when it returns.
    ///
    /// ```
    /// use baton_core::kernel::{ResumeOutcome, State};
    /// # mod closures { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/closures.rs")); }
    /// closures::run(|main| {
    ///     let child = main.spawn(|process| {
    ///         let _ = process.vm.suspend(process.id);
    ///         process.note("goes on");
    ///     });
    ///     main.vm.yield_now();
    ///     assert_eq!(main.vm.kernel(|kernel| kernel.state(child)), State::Suspended);
    ///     assert_eq!(main.vm.operate(|kernel| kernel.resume(child)), ResumeOutcome::Resumed);
    ///     main.join(child);
    ///     assert_eq!(main.noted(), ["goes on"]);
    /// });
    /// ```
    #[inline]
    pub fn suspend(&self, process: ProcessId) -> SuspendOutcome {
        let straight = self.inner.with(
            #[inline(always)]
            |inner| match inner.kernel.current() {
                Some(me) if me == process => self.suspend_straight(inner),
                _ => None,
            },
        );
        match straight {
            Some(_) => {
                self.take(straight);
                SuspendOutcome::CurrentMustSwitch
            }
            None => self.suspend_in_general(process),
        }
    }

    /// A suspension that is more than a turn to the next process.
    #[inline(never)]
    fn suspend_in_general(&self, process: ProcessId) -> SuspendOutcome {
        let (outcome, jump, left) = self.inner.with(|inner| {
            let me = inner.kernel.current();
            let outcome = inner.kernel.suspend(process);
            match (outcome, me) {
                (SuspendOutcome::CurrentMustSwitch, Some(me)) => (
                    outcome,
                    self.plan_after_block(inner, me),
                    inner.kernel.has_left_critical(me),
                ),
                _ => {
                    self.forgive(inner, process);
                    self.publish(inner);
                    (outcome, None, false)
                }
            }
        });
        self.take(jump);
        if left {
            self.kernel(Kernel::reenter_critical);
        }
        outcome
    }

    /// Kills a process. What must be raised in it is the guest's to do: it is asked for a safepoint there.
    ///
    /// ```
    /// use baton_core::kernel::{KillOutcome, WakeReason};
    /// use baton_sys::clock::Instant;
    /// # mod closures { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/closures.rs")); }
    /// closures::run(|main| {
    ///     let child = main.spawn(|process| {
    ///         let wake = process.vm.sleep_until(Instant::FAR_FUTURE);
    ///         assert_eq!(wake.reason, WakeReason::Killed); // a guest raises an error of its language now
    ///     });
    ///     main.vm.yield_now();
    ///     assert_eq!(main.vm.kill(child), KillOutcome::Woken);
    ///     main.join(child);
    ///     assert_eq!(main.vm.kill(child), KillOutcome::AlreadyDead);
    /// });
    /// ```
    pub fn kill(&self, process: ProcessId) -> KillOutcome {
        let (outcome, jump) = self.inner.with(|inner| {
            let outcome = inner.kernel.kill(process);
            self.forgive(inner, process);
            if matches!(outcome, KillOutcome::Woken | KillOutcome::Pending) && inner.kernel.kill_is_due(process) {
                self.guest.request_safepoint(inner.kernel.guest(process));
            }
            let jump = self.give_way(inner);
            (outcome, jump)
        });
        self.take(jump);
        outcome
    }

    /// Replaces the guest's word of a process.
    pub fn set_word(&self, process: ProcessId, word: usize) {
        self.inner.with(|inner| {
            inner.kernel.set_guest(process, word);
            if let Some(fiber) = inner.kernel.payload(process).and_then(|context| context.fiber) {
                fiber.set_argument(word);
            }
        });
    }

    /// Foreign frames stand on a process's stack (or do no more): from now on it continues only on the thread that the caller is on.
    pub fn set_pinned(&self, process: ProcessId, pinned: bool) {
        self.inner
            .with(|inner| inner.kernel.set_pinned(process, pinned.then_some(inner.carrier)));
    }

    /// Time on the processor of a process so far; none for a forgotten one.
    pub fn cpu_time(&self, process: ProcessId) -> Duration {
        let now = Instant::now().as_nanos();
        self.inner.with(|inner| Duration::from_nanos(inner.busy(process, now)))
    }

    /// Bytes of C stack that a process has used at most; `None` before its first run and after its end.
    pub fn stack_high_water(&self, process: ProcessId) -> Option<usize> {
        self.inner.with(|inner| {
            let context = inner.kernel.payload_mut(process)?;
            context.fiber.and(context.stack.as_ref()).map(Stack::high_water)
        })
    }

    /// Lowest and highest address of a living process's C stack.
    pub fn stack_bounds(&self, process: ProcessId) -> Option<(usize, usize)> {
        self.inner.with(|inner| {
            let stack = inner.kernel.payload(process)?.stack.as_ref()?;
            Some((stack.bottom() as usize, stack.top() as usize))
        })
    }

    /// The addresses below a living process's C stack that fault on access: where an overflow shows.
    pub fn stack_guard(&self, process: ProcessId) -> Option<Range<usize>> {
        self.inner
            .with(|inner| Some(inner.kernel.payload(process)?.stack.as_ref()?.guard()))
    }

    /// What the stacks take.
    pub fn stack_stats(&self) -> StackStats {
        self.inner.with(|inner| inner.stacks.stats())
    }

    /// Blocks until `f` chose among ready cases with a fresh random number.
    pub fn attempt_random(&self, f: impl FnOnce(&mut Kernel<Context>, u64) -> Attempt) -> Wake {
        let random = self.inner.with(Inner::next_random);
        self.attempt(|kernel| f(kernel, random))
    }

    /// Whether foreign calls may be retaken; the guest switches it off around calls that must not be interrupted.
    pub fn set_retaking(&self, on: bool) {
        // Relaxed: read under the VM's mutex after a take, which orders it.
        self.retaking.store(on, std::sync::atomic::Ordering::Relaxed);
    }

    /// The absolute time of a relative one; `None` is for ever.
    pub fn deadline(timeout: Option<Duration>) -> Deadline {
        match timeout {
            None => Deadline::Never,
            Some(Duration::ZERO) => Deadline::Now,
            Some(timeout) => Deadline::At(Instant::now() + timeout),
        }
    }

    /// The calling process gives way if somebody is more urgent.
    #[inline]
    fn give_way(&self, inner: &mut Inner) -> Option<super::switching::Jump> {
        match self.give_way_straight(inner) {
            None => self.plan_to_give_way(inner),
            jump => jump,
        }
    }

    #[inline(never)]
    fn plan_to_give_way(&self, inner: &mut Inner) -> Option<super::switching::Jump> {
        let me = inner.kernel.current()?;
        let gives_way =
            inner.kernel.current_should_yield() && self.parameters.preemptive() && inner.kernel.is_preemptible(me);
        let next = if gives_way {
            self.note_interrupted(inner, me);
            inner.kernel.preempt_current(crate::kernel::Preemption::MoreUrgent)
        } else {
            Next::Same
        };
        self.plan(inner, me, next)
    }

    #[inline]
    fn plan_yield(&self, inner: &mut Inner, me: ProcessId, next: Next) -> Option<super::switching::Jump> {
        if next == Next::Same && self.exceptions() != 0 {
            return self.plan_to_ask(inner, me);
        }
        let jump = self.plan(inner, me, next);
        if matches!(next, Next::Other(_)) {
            inner.begin_slice(me);
        }
        jump
    }

    /// The calling process waits: somebody else runs.
    #[inline]
    fn plan_after_block(&self, inner: &mut Inner, me: ProcessId) -> Option<super::switching::Jump> {
        match self.succeed_straight(inner) {
            None => self.plan_successor(inner, me),
            jump => jump,
        }
    }

    #[inline(never)]
    fn plan_successor(&self, inner: &mut Inner, me: ProcessId) -> Option<super::switching::Jump> {
        self.stir(inner, Some(me));
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
    /// xorshift64*: for fairness among ready cases, and for simulated runs.
    pub(super) fn next_random(&mut self) -> u64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        self.random.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }
}
