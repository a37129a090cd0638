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
//!
//! A token belongs to a thread, so it is neither `Send` nor `Sync`. A process that continues on
//! another thread keeps its token, because it is inside there, too.
//!
//! This is the only file of the crate with unsafe code. A token is valid because of the VM lock,
//! and that lock's protocol is in this crate (`lock/enter.rs`). So no type of `baton-sys` could
//! check it.
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
use super::{Inner, Vm};
use crate::sched::CarrierId;
use baton_sys::gate;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;

/// Neither `Send` nor `Sync`.
type OfThisThread = PhantomData<*const ()>;

/// A token: the calling thread is inside the VM, and owns guest state and the scheduler.
///
/// Only entering the VM gives it out. It dereferences to the [`Vm`], for what any thread may do.
pub struct Inside<'vm> {
    vm: &'vm Vm,
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
        gate::here().leave();
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
        here.own();
        Inside {
            vm: self,
            of_this_thread: PhantomData,
        }
    }

    /// The token of a process that starts: the switch to it was the owner's.
    pub(in crate::vm) fn inside_of_new_process(&self) -> Inside<'_> {
        Inside {
            vm: self,
            of_this_thread: PhantomData,
        }
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
