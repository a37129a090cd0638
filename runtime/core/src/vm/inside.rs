//! The tokens that say where the calling thread is: [`Inside`] the VM, or out in a [`ForeignCall`].
//!
//! What touches guest state or the scheduler is a method of [`Inside`], or takes `&mut Inner`. Only
//! `Inside::with_inner` and `Vm::with_mutex_held` lend that. So the compiler refuses to touch the
//! scheduler from another thread, or during a foreign call. What any thread may do (kicks, posts,
//! wakers, parameters, counters) is a method of [`Vm`].
//!
//! | edge | made by |
//! |---|---|
//! | no token -> `Inside` | the start of a process, a grant of the VM (`Vm::own_gate`) |
//! | `Inside` -> `ForeignCall` | [`Inside::leave`] |
//! | `ForeignCall` -> `Inside` | [`ForeignCall::enter`], `enter_cold`, `enter_cold_pinned` |
//! | `Inside` -> no token | a process ends; the VM is handed over (`Inside::give_up`) |
//!
//! A token belongs to a thread, so it is neither `Send` nor `Sync`. A process that continues on
//! another thread keeps its token, because it is inside there, too.
//!
//! This is the only file of the crate with unsafe code. A token is valid because of the VM lock,
//! and that lock's protocol is in this crate (`lock/enter.rs`). So no type of `baton-sys` could
//! check it. What that crate lets only the owner do is done here, for a token or under the mutex:
//! the switch of fibers, and the steps of the calling thread's gate.
//!
//! Another thread cannot get in with a token of this one:
//!
//! ```compile_fail,E0277
//! use baton_core::vm::Inside;
//! fn share(inside: &Inside<'_>) {
//!     std::thread::scope(|threads| {
//!         threads.spawn(|| inside.yield_now());
//!     });
//! }
//! ```
//!
//! A token cannot be kept past leaving:
//!
//! ```compile_fail,E0382
//! use baton_core::vm::Inside;
//! fn keep(inside: Inside<'_>) {
//!     let call = inside.leave();
//!     inside.yield_now();
//!     call.enter();
//! }
//! ```
//!
//! A foreign call cannot use it:
//!
//! ```compile_fail,E0502
//! use baton_core::vm::Inside;
//! fn call(inside: &mut Inside<'_>) {
//!     inside.foreign(|| inside.yield_now());
//! }
//! ```
//!
//! The scheduler cannot be touched without a token:
//!
//! ```compile_fail,E0599
//! use baton_core::vm::Vm;
//! fn touch(vm: &Vm) {
//!     vm.sched(|sched| sched.current());
//! }
//! ```
//!
//! All of these compile where the thread is inside, and stays there:
//!
//! ```
//! use baton_core::vm::{Inside, Vm};
//! fn touch(mut inside: Inside<'_>) {
//!     inside.sched(|sched| sched.current());
//!     inside.foreign(|| ());
//!     let call = inside.leave();
//!     let inside = call.enter();
//!     inside.yield_now();
//!     inside.kick(); // as any thread may
//! }
//! ```
#![allow(unsafe_code, reason = "see the module's text")]

use super::lock::state::LockState;
use super::{Context, HOME, Inner, Vm};
use crate::panics::broken;
use crate::sched::{CarrierId, ProcessId, State};
use baton_sys::fiber::{Fiber, ThreadFiber};
use baton_sys::gate::{self, Gate};
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;

/// Neither `Send` nor `Sync`.
type OfThisThread = PhantomData<*const ()>;

/// A token: the calling thread is inside the VM, and owns guest state and the scheduler.
///
/// Only entering the VM gives it out. It dereferences to the [`Vm`], for what any thread may do.
#[repr(transparent)]
pub struct Inside<'vm> {
    pub(in crate::vm) vm: &'vm Vm,
    of_this_thread: OfThisThread,
}

/// A token: the calling process is out in a foreign call. Others may run meanwhile.
#[must_use = "the process is outside the VM until it enters again"]
pub struct ForeignCall<'vm> {
    pub(in crate::vm) vm: &'vm Vm,
    of_this_thread: OfThisThread,
}

impl<'vm> Inside<'vm> {
    /// The token of a thread that is inside, for code that an interpreter in C calls.
    ///
    /// # Safety
    /// The caller is inside `vm`: on one of its threads, between an enter and the next leave, or
    /// called by it (such as in [`Guest::signalled`](crate::guest::Guest::signalled)). Or `vm` does
    /// not run yet, and no other thread knows it. The token is not used after the next leave, nor
    /// on another thread.
    #[inline(always)]
    pub unsafe fn assume(vm: &'vm Vm) -> Inside<'vm> {
        Inside {
            vm,
            of_this_thread: PhantomData,
        }
    }

    /// Leaves the VM before a foreign call (a guest's own fast path does the same by the gate
    /// alone). The token is gone until [`ForeignCall::enter`].
    ///
    /// ```
    /// use baton_core::vm::Inside;
    /// fn read(inside: Inside<'_>) -> (Inside<'_>, String) {
    ///     let call = inside.leave();
    ///     let text = std::fs::read_to_string("/etc/hostname"); // nothing of the guest is touched
    ///     (call.enter(), text.unwrap_or_default())
    /// }
    /// ```
    #[inline]
    pub fn leave(self) -> ForeignCall<'vm> {
        // SAFETY: the token is gone, and without it the compiler lends nothing of the owner's.
        unsafe { gate::here().leave() };
        ForeignCall {
            vm: self.vm,
            of_this_thread: PhantomData,
        }
    }

    /// After the process was moved out, to another thread (`lock/offload.rs`).
    pub(in crate::vm) fn moved(self) -> ForeignCall<'vm> {
        ForeignCall {
            vm: self.vm,
            of_this_thread: PhantomData,
        }
    }

    /// Gives the VM up, under its mutex.
    pub(in crate::vm) fn give_up(self, _state: &mut LockState) -> &'vm Vm {
        // SAFETY: as in `leave`.
        unsafe { gate::here().disown() };
        self.vm
    }

    /// The VM, for other threads.
    pub fn to_arc(&self) -> Arc<Vm> {
        super::lock::this_thread::vm_of_this_thread()
    }

    /// Runs `f` on the owner's data.
    ///
    /// # Panics
    /// If called from within another access.
    #[inline(always)] // Each caller has an `f` of its own, and a switch should be one function.
    pub(in crate::vm) fn with_inner<R>(&self, f: impl FnOnce(&mut Inner) -> R) -> R {
        // SAFETY: the token says that the calling thread is inside.
        unsafe { self.vm.inner.with(f) }
    }

    /// The same token by value, which is one word: slow paths take it so.
    #[inline(always)]
    pub(in crate::vm) fn reborrow(&self) -> Inside<'_> {
        Inside {
            vm: self.vm,
            of_this_thread: PhantomData,
        }
    }
}

impl<'vm> ForeignCall<'vm> {
    /// The token of a thread that is out in a foreign call, for what an interpreter in C calls.
    ///
    /// # Safety
    /// One of these holds:
    ///
    /// - The caller is a process of `vm` in a foreign call.
    /// - It has begun to enter by its gate, and has found a reason for a cold path.
    /// - `vm` does not run yet, and no other thread knows it.
    ///
    /// No token [`Inside`] of the process is used until it has entered.
    #[inline(always)]
    pub unsafe fn assume(vm: &'vm Vm) -> ForeignCall<'vm> {
        ForeignCall {
            vm,
            of_this_thread: PhantomData,
        }
    }

    /// Gives the VM up to the thread that has taken it, under the mutex.
    pub(in crate::vm) fn give_up(&self, _state: &mut LockState) {
        // SAFETY: the process is outside, so no token `Inside` lends it anything of the owner's.
        unsafe { gate::here().disown() };
    }

    /// Leaves the calling process for the loop of its thread. Returns when it is continued, inside.
    pub(in crate::vm) fn wait_in_loop(&self, process: Fiber, base: Fiber) {
        // SAFETY: 1. `process` is what the entry of this thread says is out here: this one. 2.
        // `base` is this thread's loop, which lives as long as the thread is a carrier, and is
        // suspended while a process is on the thread. 3. The caller returns right away.
        unsafe { process.switch_to(base) };
    }

    /// After the thread has entered.
    #[inline(always)]
    pub(in crate::vm) fn entered(self) -> Inside<'vm> {
        Inside {
            vm: self.vm,
            of_this_thread: PhantomData,
        }
    }
}

impl Vm {
    /// Makes the calling thread's gate say that it is inside. The VM's mutex is held.
    ///
    /// # Panics
    /// If the calling thread is not the owner.
    pub(in crate::vm) fn own_gate(&self, state: &LockState) -> Inside<'_> {
        let here = gate::here();
        assert!(
            here.carrier().is_some() && state.owner == here.carrier().map(CarrierId),
            "a thread comes in that does not own the VM (the executor is broken)"
        );
        // SAFETY: `state` is lent by the mutex, and says that this thread is the owner.
        unsafe { here.own() };
        Inside {
            vm: self,
            of_this_thread: PhantomData,
        }
    }

    /// Makes the calling thread the carrier `me`. Returns its gate, for its entry.
    pub(in crate::vm) fn become_carrier(&self, me: CarrierId) -> Gate {
        let here = gate::here();
        // SAFETY: the entry `me` was made for this thread, which has not entered yet; or this is
        // the only thread of a fork's child.
        unsafe { here.set_carrier(Some(me.0)) };
        // SAFETY: the gate stays in the entry, where it is used under the mutex. The thread removes
        // the entry before it ends, in `cease_to_be_carrier`.
        unsafe { here.for_others() }
    }

    /// Ends what [`Vm::become_carrier`] began: the loop of the calling thread is over.
    pub(in crate::vm) fn cease_to_be_carrier(&self, state: &mut LockState, me: CarrierId) {
        let here = gate::here();
        // SAFETY: no process is on the thread and its loop is over, so their tokens are gone.
        unsafe { here.disown() };
        // SAFETY: the id is given up, outside.
        unsafe { here.set_carrier(None) };
        if let Some(slot) = state.carriers.get_mut(me.0 as usize) {
            *slot = None;
        }
    }

    /// As [`Vm::cease_to_be_carrier`], but home will be a carrier again: its entry stays.
    pub(in crate::vm) fn rest_from_carrying(&self, state: &mut LockState) {
        let here = gate::here();
        // SAFETY: no process is on the thread and its loop is over, so their tokens are gone.
        unsafe { here.disown() };
        // SAFETY: the id is given up, outside.
        unsafe { here.set_carrier(None) };
        if let Some(entry) = state.entry(HOME) {
            (entry.gate, entry.thread, entry.base) = (None, None, None);
        }
    }

    /// Continues an offloaded process outside the VM, from the calling thread's loop. Returns when
    /// the process has entered the VM again.
    pub(in crate::vm) fn run_outside(&self, base: &ThreadFiber, process: Fiber) {
        // SAFETY: the process lives, and only this thread may use its fiber: the entry of the
        // thread has just handed it out, once (`Offloading::Sent`).
        let user_data = unsafe { process.argument() };
        self.guest.arrived(user_data);
        // SAFETY: 1. The loop calls this on its own stack. 2. As above; the process was left before
        // it was sent, under the mutex. 3. The caller only keeps what belongs to the loop's thread,
        // on which it is continued.
        unsafe { base.fiber().switch_to(process) };
    }

    /// Runs `f` on the owner's data, under the VM's mutex, which `state` proves. Nobody is inside:
    /// the VM was taken or is being granted, or does not run yet.
    ///
    /// # Panics
    /// If called from within another access.
    pub(in crate::vm) fn with_mutex_held<R>(
        &self,
        state: &mut LockState,
        f: impl FnOnce(&mut Inner, &mut LockState) -> R,
    ) -> R {
        // SAFETY: nobody else accesses the data: the mutex is held, so no thread becomes the
        // owner meanwhile, and none is inside.
        unsafe { self.inner.with_mutex_held(|inner| f(inner, state)) }
    }
}

impl Inside<'_> {
    /// The end of the C stack of a process that others run beside: its registers and frames are at
    /// this address and above, up to the higher one of [`Inside::stack_bounds`]. For a collector
    /// that scans stacks. `None` if the process is the running one or in a foreign call, has not
    /// begun, or has ended.
    ///
    /// ```
    /// use std::sync::mpsc::channel;
    /// # mod closures { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/closures.rs")); }
    /// closures::run(|main| {
    ///     let (give, take) = channel();
    ///     let other = main.spawn(move |other| {
    ///         let local = 7_u8;
    ///         give.send(&raw const local as usize).expect("there is a receiver");
    ///         other.vm.yield_now();
    ///     });
    ///     assert_eq!(main.vm.stack_pointer(other), None, "it has not begun");
    ///     main.vm.yield_now();
    ///     let local = take.recv().expect("it has begun");
    ///     let end = main.vm.stack_pointer(other).expect("it has yielded");
    ///     let (_, highest) = main.vm.stack_bounds(other).expect("it lives");
    ///     assert!(end <= local && local < highest);
    ///     assert_eq!(main.vm.stack_pointer(main.id), None, "it runs");
    /// });
    /// ```
    pub fn stack_pointer(&self, process: ProcessId) -> Option<usize> {
        self.with_inner(|inner| {
            let fiber = inner.sched.payload(process)?.fiber?;
            match inner.sched.state(process) {
                State::Running | State::Foreign | State::Dead => None,
                State::Runnable | State::Waiting | State::Sleeping | State::Suspended => {
                    // SAFETY: the process lives, and with it its fiber. It neither runs nor is in a
                    // call, so it was left, and only a thread that is inside continues it. What its
                    // last switch wrote came with the VM.
                    Some(unsafe { fiber.stack_pointer() } as usize)
                }
            }
        })
    }
}

impl Vm {
    /// Runs `f` on the owner's data before [`Vm::run`], when nobody is inside yet.
    ///
    /// # Panics
    /// While the VM runs.
    pub(in crate::vm) fn before_run<R>(&self, f: impl FnOnce(&mut Inner) -> R) -> R {
        let mut state = self.lock_state();
        assert!(
            state.live_threads() == 0,
            "this is for a VM that does not run yet"
        );
        self.with_mutex_held(&mut state, |inner, _| f(inner))
    }
}

/// The argument of a carrier's own fiber.
pub(in crate::vm) const NO_PROCESS: usize = usize::MAX;

/// A switch that has been decided. It is carried out once the owner's data is no longer borrowed.
///
/// Two words, so that it travels in registers; the guest's data goes with the fibers.
#[must_use]
#[derive(Debug)]
pub(in crate::vm) struct Jump {
    from: Fiber,
    to: Fiber,
}

impl Jump {
    /// A switch from the calling fiber to one that `inner` keeps suspended: that of a process, or
    /// of the owner's loop. Nothing is done with `inner` between this and the switch.
    #[inline(always)]
    pub(in crate::vm) fn new(_inner: &mut Inner, from: Fiber, to: Fiber) -> Jump {
        Jump { from, to }
    }

    /// The user data of the process that is left and of the one that is continued; `None` for a
    /// carrier's own loop.
    #[inline(always)]
    pub(in crate::vm) fn user_data(&self) -> (Option<usize>, Option<usize>) {
        let user_data = |fiber: Fiber| {
            // SAFETY: both fibers live until the switch, and only the owner sets their arguments.
            match unsafe { fiber.argument() } {
                NO_PROCESS => None,
                user_data => Some(user_data),
            }
        };
        (user_data(self.from), user_data(self.to))
    }
}

impl Inner {
    /// The process on whose stack the owner's thread is. `None`: the thread is in its own loop.
    /// There, too, a process may be current: one that was chosen, and that hooks come before, or
    /// that runs on another thread (`lock/kept.rs`).
    pub(in crate::vm) fn process_on_stack(&self) -> Option<ProcessId> {
        let process = self.sched.current()?;
        let fiber = self.context(process).fiber?;
        // SAFETY: the fiber lives as long as its process. `Inner` is the owner's, or that of a
        // thread that has taken the VM from it.
        unsafe { fiber.is_running() }.then_some(process)
    }
}

impl Inside<'_> {
    /// Carries a decided switch out. Returns when the calling process is continued.
    #[inline]
    pub(in crate::vm) fn take(&self, jump: Option<Jump>) {
        if let Some(jump) = jump {
            let (from, to) = jump.user_data();
            self.guest.switched(from, to);
            let jump = self.around_foreign_frames(jump);
            // SAFETY: 1. and 2. as `Jump::new` demands: the scheduler knows one current process,
            // and the token says that only this thread decides. The VM lock made the last owner's
            // writes visible. 3. Invariant 8 of `ARCHITECTURE.md`.
            unsafe { jump.from.switch_to(jump.to) };
        }
    }

    /// As [`Inside::take`], from the loop of the owner's thread, which has decided that the process
    /// runs on this thread.
    pub(in crate::vm) fn take_from_loop(&self, jump: Jump) {
        let (from, to) = jump.user_data();
        self.guest.switched(from, to);
        // SAFETY: as in `Inside::take`.
        unsafe { jump.from.switch_to(jump.to) };
    }
}

impl Inside<'_> {
    /// As [`Inside::take`], of a switch on the fast path: it goes from one process to another, so
    /// both have data of the guest.
    #[inline(always)]
    pub(in crate::vm) fn take_handoff(&self, jump: Jump) {
        // SAFETY: as in `Jump::user_data`.
        let [from, to] = [jump.from, jump.to].map(|fiber| unsafe { fiber.argument() });
        self.guest.switched(Some(from), Some(to));
        let jump = self.around_foreign_frames(jump);
        // SAFETY: as in `Inside::take`.
        unsafe { jump.from.switch_to(jump.to) };
    }

    /// The switch to make, after the guest has said whether the process that is left has foreign
    /// frames. If they keep this thread from the process that was chosen, its thread's loop is
    /// continued instead, which gives the VM to another thread.
    #[inline(always)]
    fn around_foreign_frames(&self, jump: Jump) -> Jump {
        // Relaxed: the owner's own; those of an earlier owner are visible by the VM lock.
        if self
            .vm
            .may_be_pinned
            .load(std::sync::atomic::Ordering::Relaxed)
        {
            return self.around_kept_thread(jump);
        }
        jump
    }

    #[cold]
    #[inline(never)]
    fn around_kept_thread(&self, jump: Jump) -> Jump {
        let (_, Some(to)) = jump.user_data() else {
            return jump;
        };
        let Some(base) = self.with_inner(|inner| self.loop_if_kept(inner)) else {
            return jump;
        };
        self.guest.switched(Some(to), None);
        Jump { to: base, ..jump }
    }
}

/// The entry of every process's fiber.
fn process_entry(_user_data: usize) -> ! {
    // The VM is found through the calling thread: only an owner switches to a new process.
    let vm = Arc::as_ptr(&super::lock::this_thread::vm_of_this_thread());
    // SAFETY: each carrier keeps its VM, and a process runs on carriers only. A reference of its
    // own on this stack would keep the VM of a process that never ends.
    let vm = unsafe { &*vm };
    let inside = Inside {
        vm,
        of_this_thread: PhantomData,
    };
    let jump = inside.run_process();
    let (from, to) = jump.user_data();
    vm.guest.switched(from, to);
    // SAFETY: as in `Inside::take`; the process ended inside. Its stack is kept until the next end
    // or spawn (`Inner::retired`).
    unsafe { jump.from.end(jump.to) }
}

impl Context {
    /// Makes the fiber of a process that runs for the first time.
    pub(in crate::vm) fn make_fiber(&mut self, user_data: usize) -> Fiber {
        let Some(stack) = self.stack.as_ref().filter(|_| self.fiber.is_none()) else {
            broken("a process starts without a stack, or twice")
        };
        // SAFETY: the stack is the process's alone, and nothing was on it. The context gives up
        // both at once (`plan_exit`, a fork).
        let fiber = unsafe { Fiber::prepare(stack, process_entry, user_data) };
        self.fiber = Some(fiber);
        fiber
    }

    /// Replaces the guest's data in the fiber, if there is one.
    pub(in crate::vm) fn set_user_data(&mut self, user_data: usize) {
        if let Some(fiber) = self.fiber {
            // SAFETY: the fiber lives with its context, which belongs to the owner.
            unsafe { fiber.set_argument(user_data) };
        }
    }
}

impl Inner {
    /// Labels the fiber of a process that has not run yet, for the report of an overflow.
    pub(in crate::vm) fn label(&self, fiber: Fiber, process: ProcessId) {
        let name = self.sched.process_name(process).unwrap_or_default();
        // SAFETY: the fiber is alive, and only the owner knows it. A process has its name until the
        // scheduler forgets it, after its end.
        unsafe { fiber.set_label(process.to_bits(), name) };
    }
}

impl Deref for Inside<'_> {
    type Target = Vm;

    #[inline(always)]
    fn deref(&self) -> &Vm {
        self.vm
    }
}

impl fmt::Debug for Inside<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Inside").field(self.vm).finish()
    }
}

impl fmt::Debug for ForeignCall<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ForeignCall").field(self.vm).finish()
    }
}
