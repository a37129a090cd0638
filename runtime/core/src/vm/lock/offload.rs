//! Offloads a foreign call that is known to be long: the caller moves to another native thread. The
//! VM stays on its thread, with its warm cache.
//!
//! The process leaves the VM on one native thread and makes its call on another one, on its own
//! stack. The owner's thread must leave that stack first, so the process goes through the owner's
//! loop:
//!
//! | step | by | the other thread's [`Offloading`] |
//! |---|---|---|
//! | a thread is promised to the process, now foreign | [`Inside::offload`] | `None` -> `Promised` |
//! | its stack is left | the owner's loop, [`Inside::complete_offload`] | `Promised` -> `Sent` |
//! | it continues, outside the VM | the other thread, in its loop | `Sent` -> `None` |
//!
//! From then on the call is like one that was retaken there. It returns by an enter that finds the
//! VM on another thread ([`ForeignCall::enter_cold`]).
//!
//! **No wake-up is lost.** `Sent` is set under the VM's mutex, and the thread is notified. The
//! thread reads its state under that mutex before it waits.

use super::enter::EnterAtEnd;
use super::state::{CarrierEntry, LockState, Offloading, Outside};
use super::this_thread::vm_of_this_thread;
use crate::sched::CarrierId;
use crate::vm::inside::Jump;
use crate::vm::{ForeignCall, HOME, Inner, Inside, Vm};
use baton_sys::clock::Instant;
use std::sync::Arc;

/// The outcome of [`Inside::offload`].
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offloaded {
    /// The process is on another native thread, and outside the VM.
    Moved,
    /// It stays: it may run only on its own thread, or no other process may run during its call, as
    /// in a simulated run.
    Stays,
    /// It stays: every native thread up to the bound is out in a call, or other processes need it.
    NoThread,
}

impl<'vm> Inside<'vm> {
    /// Makes a foreign call that is known to be long: on another native thread, if it can be. The
    /// calling process has no foreign frames on its stack.
    ///
    /// ```
    /// use baton_core::vm::Offloaded;
    /// # mod closures { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/closures.rs")); }
    /// closures::run(|main| {
    ///     let call = || std::thread::current().id(); // one that lasts
    ///     let home = call();
    ///     let (thread_of_call, offloaded) = main.vm.foreign_elsewhere(call);
    ///     assert_eq!(offloaded, Offloaded::Moved);
    ///     assert_ne!(thread_of_call, home);
    /// });
    /// ```
    pub fn foreign_elsewhere<R>(&mut self, f: impl FnOnce() -> R) -> (R, Offloaded) {
        match self.reborrow().offload() {
            Ok(call) => {
                let _call = EnterAtEnd(Some(call));
                (f(), Offloaded::Moved)
            }
            Err(refused) => (self.foreign(f), refused),
        }
    }

    /// Moves the calling process to another native thread for its coming foreign call. It has no
    /// foreign frames on its stack. After a move it is outside.
    ///
    /// # Errors
    /// Why it has not moved, which is never [`Offloaded::Moved`]: it is still inside, but its token
    /// is gone. [`Inside::foreign_elsewhere`] keeps it.
    pub fn offload(self) -> Result<ForeignCall<'vm>, Offloaded> {
        let vm = vm_of_this_thread();
        match self.with_inner(|inner| vm.plan_offload(inner)) {
            Ok(jump) => {
                drop(vm);
                self.counters.moves.increment();
                self.take(Some(jump));
                // The owner's loop has let the process go on outside.
                Ok(self.moved())
            }
            Err(refused) => Err(refused),
        }
    }
}

impl Vm {
    fn plan_offload(self: &Arc<Vm>, inner: &mut Inner) -> Result<Jump, Offloaded> {
        let me = inner.sched.current().ok_or(Offloaded::Stays)?;
        let fiber = inner.context(me).fiber.ok_or(Offloaded::Stays)?;
        let stays = inner.sched.effective_carrier(me).is_some() || inner.prefers_home == Some(me);
        if stays || inner.sched.is_critical() || self.has_ended() || self.is_simulated() {
            return Err(Offloaded::Stays);
        }
        let mut state = self.lock_state();
        let to = self
            .carrier_for_call(inner, &mut state)
            .ok_or(Offloaded::NoThread)?;
        let entry = state.entry(to).ok_or(Offloaded::NoThread)?;
        entry.offloading = Offloading::Promised;
        entry.out = Some(Outside {
            process: me,
            fiber,
            began: None,
        });
        // An abandoned retake leaves its mark in the gate. The loop would conclude that the VM is
        // gone.
        let _inside = self.own_gate(&state);
        drop(state);
        inner.account(me, Instant::now().as_nanos());
        inner.sched.begin_foreign(me, to);
        if inner.tracer.is_some() {
            inner.trace_call(me, to, self.guest.wording());
        }
        inner.offloads_to = Some(to);
        self.update_hints(inner);
        let base = inner.base_fiber();
        Ok(Jump::new(inner, fiber, base))
    }

    /// A thread for a long call: neither home nor one that another process needs.
    fn carrier_for_call(self: &Arc<Vm>, inner: &Inner, state: &mut LockState) -> Option<CarrierId> {
        state
            .find_waiting(|carrier, entry| inner.may_take(carrier, entry))
            .or_else(|| self.start_carrier(state, self.parameters.max_threads()))
    }
}

impl Inside<'_> {
    /// Completes an offload in the owner's loop: the process has left its stack, and continues on
    /// the other thread.
    pub(super) fn complete_offload(&self) {
        let Some(to) = self.with_inner(|inner| inner.offloads_to.take()) else {
            return;
        };
        let mut state = self.lock_state();
        if let Some(entry) = state.entry(to) {
            entry.offloading = Offloading::Sent;
            entry.granted.notify_one();
        }
    }
}

impl Inner {
    /// Whether a waiting thread may get a call or a name: it is neither home nor one that a process
    /// needs.
    pub(super) fn may_take(&self, carrier: CarrierId, entry: &CarrierEntry) -> bool {
        // A process that has just come back pinned is still in the inbox, so the scheduler does not
        // know of it.
        let is_free = !entry.needed && !entry.is_named && !self.sched.is_needed(carrier);
        is_free && carrier != HOME && carrier != self.carrier
    }
}
