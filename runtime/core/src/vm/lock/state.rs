//! What the VM's mutex guards: the owner, and the native threads.

use crate::sched::{CarrierId, ProcessId};
use baton_sys::fiber::Fiber;
use baton_sys::gate::Gate;
use baton_sys::signals::ThreadHandle;
use std::sync::{Arc, Condvar};

/// A process whose foreign call was retaken, on the carrier it is out on.
#[derive(Debug, Clone, Copy)]
pub(in crate::vm) struct Outside {
    pub(in crate::vm) process: ProcessId,
    pub(in crate::vm) fiber: Fiber,
}

/// One native thread of the VM.
#[derive(Debug)]
pub(in crate::vm) struct CarrierEntry {
    /// Set by the thread itself when it starts; dropped before it ends.
    pub(in crate::vm) gate: Option<Gate>,
    pub(in crate::vm) thread: Option<ThreadHandle>,
    pub(in crate::vm) base: Option<Fiber>,
    /// Notified when the thread becomes the owner, or when the VM ends.
    pub(in crate::vm) granted: Arc<Condvar>,
    /// Also of a call that moved here and is not taken up yet.
    pub(in crate::vm) out: Option<Outside>,
    pub(in crate::vm) offloading: Offloading,
    /// The process that has come back, and whether it has foreign frames here; the thread's loop
    /// posts it.
    pub(in crate::vm) returned: Option<(ProcessId, bool)>,
    /// Waits in its loop for the VM, ready to be given it.
    pub(in crate::vm) waiting: bool,
    /// When the thread last gave the VM up, a process had foreign frames here: it is not retired.
    pub(in crate::vm) needed: bool,
    /// It is kept for those who are bound to it (see `lock/affinity.rs`).
    pub(in crate::vm) is_named: bool,
    /// It is kept for a process that has given way in the middle of a foreign function on it (see
    /// `lock/in_call.rs`).
    pub(in crate::vm) is_kept: bool,
}

impl CarrierEntry {
    pub(in crate::vm) fn new() -> CarrierEntry {
        CarrierEntry {
            gate: None,
            thread: None,
            base: None,
            granted: Arc::new(Condvar::new()),
            out: None,
            offloading: Offloading::None,
            returned: None,
            waiting: false,
            needed: false,
            is_named: false,
            is_kept: false,
        }
    }
}

impl CarrierEntry {
    /// Waits for the VM, and nobody in particular is to run there.
    fn is_free(&self) -> bool {
        self.waiting && self.offloading == Offloading::None && !self.is_kept
    }
}

/// What the VM's mutex guards.
#[derive(Debug, Default)]
pub(in crate::vm) struct LockState {
    pub(in crate::vm) owner: Option<CarrierId>,
    /// Whether the owner's thread knows that it is. Until then its gate is odd, although it is in
    /// no call.
    pub(in crate::vm) owner_has_come: bool,
    /// The owner waits at a safepoint until another thread has forked.
    pub(in crate::vm) stands_aside: bool,
    /// The owner is to warn of the call that it makes, when it comes in.
    pub(in crate::vm) owner_must_warn: bool,
    /// By number; a retired carrier leaves a hole that is used again.
    pub(in crate::vm) carriers: Vec<Option<CarrierEntry>>,
}

impl LockState {
    pub(in crate::vm) fn live_threads(&self) -> usize {
        self.carriers.iter().flatten().count()
    }

    pub(in crate::vm) fn entry(&mut self, carrier: CarrierId) -> Option<&mut CarrierEntry> {
        self.carriers.get_mut(carrier.0 as usize)?.as_mut()
    }

    /// Makes `carrier` the owner; its thread finds out.
    pub(in crate::vm) fn grant(&mut self, carrier: CarrierId) {
        self.owner = Some(carrier);
        self.owner_has_come = false;
        self.owner_must_warn = false;
        if let Some(entry) = self.entry(carrier) {
            entry.granted.notify_one();
        }
    }

    /// Has all waiting threads check again (the VM has ended).
    pub(in crate::vm) fn wake_all(&self) {
        self.carriers
            .iter()
            .flatten()
            .for_each(|entry| entry.granted.notify_one());
    }

    /// A thread ready to be given the VM, for all to run on: home if it can.
    pub(super) fn waiting_carrier(&self) -> Option<CarrierId> {
        self.find_waiting(|_, entry| !entry.is_named)
    }

    /// One that is kept for those who are bound to it.
    pub(super) fn waiting_named_carrier(&self) -> Option<CarrierId> {
        self.find_waiting(|_, entry| entry.is_named)
    }

    /// The first thread that waits for the VM and is promised to nobody, among those that `suits`.
    pub(super) fn find_waiting(
        &self,
        suits: impl Fn(CarrierId, &CarrierEntry) -> bool,
    ) -> Option<CarrierId> {
        let numbered = self.carriers.iter().enumerate();
        numbered
            .filter_map(|(number, entry)| Some((CarrierId(number as u32), entry.as_ref()?)))
            .find(|(carrier, entry)| entry.is_free() && suits(*carrier, entry))
            .map(|(carrier, _)| carrier)
    }
}

/// How far an offload to a native thread has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::vm) enum Offloading {
    None,
    /// A process is coming; the thread takes no other work.
    Promised,
    /// The process `out` has come, and continues on the thread.
    Sent,
}
