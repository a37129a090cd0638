//! A foreign call that is known to be long: the caller moves, and the VM stays where it is, with its warm cache.
//!
//! The process leaves the VM on one native thread and makes its call on another one, on its own stack. Nobody may run on that stack before
//! the owner's thread has left it, so the process goes by way of the owner's loop:
//!
//! | step | by | the other thread's [`Errand`] |
//! |---|---|---|
//! | a thread is promised the process, which is foreign from then on | the process, in [`Vm::move_out`] | `None` -> `Promised` |
//! | the process's stack is left | the owner's loop, in [`Vm::send_off`] | `Promised` -> `Sent` |
//! | the process goes on, outside the VM | the other thread, in its loop | `Sent` -> `None` |
//!
//! From then on it is as if the call had been retaken there: its return is an enter that finds the VM elsewhere ([`Vm::enter_cold`]).
//!
//! **No wake-up is lost.** `Sent` is set under the VM's mutex, and the thread notified; it looks at its errand under that mutex before it waits.

use super::lock::{CarrierEntry, LockState, Outside};
use super::switching::Jump;
use super::{HOME, Inner, Vm};
use crate::kernel::CarrierId;
use baton_sys::clock::Instant;
use baton_sys::gate;
use std::sync::Arc;

/// What a native thread is to do that is not the owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Errand {
    None,
    /// A process is coming; until then the thread is nobody else's.
    Promised,
    /// The process `out` on it has come, and goes on there.
    Sent,
}

/// What became of an attempt to move.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Departure {
    /// The process is on another native thread, and outside the VM.
    Moved,
    /// It is where it was: it may continue on its own thread only, or nobody may run beside it.
    Stays,
    /// It is where it was: all native threads are out, up to the bound, or are needed by others.
    NoThread,
}

impl Vm {
    /// Moves the calling process to another native thread for its coming foreign call. It is inside the VM, and has no foreign frames on its stack.
    /// When it has moved it is outside, and [`Vm::enter`] brings it back.
    ///
    /// ```
    /// use baton_core::vm::Departure;
    /// # mod closures { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/closures.rs")); }
    /// closures::run(|main| {
    ///     let call = || std::thread::current().id(); // one that lasts
    ///     let home = call();
    ///     let thread_of_call = if main.vm.move_out() == Departure::Moved {
    ///         let result = call();
    ///         main.vm.enter();
    ///         result
    ///     } else {
    ///         main.vm.foreign(call)
    ///     };
    ///     assert_ne!(thread_of_call, home);
    /// });
    /// ```
    pub fn move_out(&self) -> Departure {
        let vm = super::carrier::vm_of_this_thread();
        match self.inner.with(|inner| vm.plan_departure(inner)) {
            Ok(jump) => {
                drop(vm);
                self.counters.moves.increment();
                self.take(Some(jump));
                Departure::Moved
            }
            Err(departure) => departure,
        }
    }

    fn plan_departure(self: &Arc<Vm>, inner: &mut Inner) -> Result<Jump, Departure> {
        let me = inner.kernel.current().ok_or(Departure::Stays)?;
        let fiber = inner.context(me).fiber.ok_or(Departure::Stays)?;
        let stays = inner.kernel.effective_carrier(me).is_some() || inner.prefers_home == Some(me);
        if stays || inner.kernel.is_critical() || self.has_ended() {
            return Err(Departure::Stays);
        }
        let mut state = self.lock_state();
        let to = self.carrier_to_send(inner, &mut state).ok_or(Departure::NoThread)?;
        let entry = state.entry(to).ok_or(Departure::NoThread)?;
        entry.errand = Errand::Promised;
        entry.out = Some(Outside { process: me, fiber });
        // A take that was given up leaves its mark, and the loop would think that the VM is gone.
        gate::here().own();
        drop(state);
        inner.account(me, Instant::now().as_nanos());
        inner.kernel.begin_foreign(me, to);
        inner.departing = Some(to);
        self.publish(inner);
        Ok(Jump {
            from: fiber,
            to: inner.base_fiber(),
        })
    }

    /// A thread for a call that lasts: neither home nor one that somebody else can run on only.
    fn carrier_to_send(self: &Arc<Vm>, inner: &Inner, state: &mut LockState) -> Option<CarrierId> {
        state
            .find_waiting(|carrier, entry| inner.may_take(carrier, entry))
            .or_else(|| self.start_carrier(state, self.parameters.max_threads()))
    }

    /// The owner's loop: a process has left its stack and goes on elsewhere.
    pub(super) fn send_off(&self) {
        let Some(to) = self.inner.with(|inner| inner.departing.take()) else {
            return;
        };
        let mut state = self.lock_state();
        if let Some(entry) = state.entry(to) {
            entry.errand = Errand::Sent;
            entry.granted.notify_one();
        }
    }
}

impl Inner {
    /// Whether a thread that waits may be given a call or a name: it is neither home nor one that somebody can run on only.
    pub(super) fn may_take(&self, carrier: CarrierId, entry: &CarrierEntry) -> bool {
        // The kernel does not know yet of a process that has just come back pinned, and is still in the inbox.
        let is_free = !entry.needed && !entry.is_named && !self.kernel.is_needed(carrier);
        is_free && carrier != HOME && carrier != self.carrier
    }
}
