//! The data under the VM's mutex: the owner, and the native threads.

use crate::sched::{CarrierId, ProcessId};
use crate::vm::HOME;
use baton_sys::clock;
use baton_sys::fiber::Fiber;
use baton_sys::gate::Gate;
use baton_sys::signals::ThreadHandle;
use baton_sys::thread::Inheritance;
use std::sync::{Arc, Condvar};
use std::time::Duration;

/// A process whose foreign call was retaken. It is still on its carrier.
#[derive(Debug, Clone, Copy)]
pub(in crate::vm) struct Outside {
    pub(in crate::vm) process: ProcessId,
    pub(in crate::vm) fiber: Fiber,
    /// The processor time of the carrier's thread when others began to run beside the call. `None`:
    /// the call has not begun yet, or the system does not tell.
    pub(in crate::vm) began: Option<Duration>,
}

/// A process that has come back from a call beside which others ran.
#[derive(Debug, Clone, Copy)]
pub(in crate::vm) struct Back {
    pub(in crate::vm) process: ProcessId,
    /// Whether it has foreign frames on the thread.
    pub(in crate::vm) is_pinned: bool,
    /// The processor time of the call.
    pub(in crate::vm) cpu: Duration,
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
    /// The process that is out here. Set also for an offloaded call that has not started yet.
    pub(in crate::vm) out: Option<Outside>,
    pub(in crate::vm) offloading: Offloading,
    /// The processor time of all calls that have come back on this thread, beside which others ran.
    pub(in crate::vm) cpu_of_calls: Duration,
    /// The process that has come back. The thread's loop posts it.
    pub(in crate::vm) returned: Option<Back>,
    /// Whether the thread waits in its loop, ready to get the VM.
    pub(in crate::vm) waiting: bool,
    /// A process had foreign frames here when the thread last gave the VM up. The thread is not
    /// retired.
    pub(in crate::vm) needed: bool,
    /// Reserved for its bound processes (see `lock/affinity.rs`).
    pub(in crate::vm) is_named: bool,
    /// Left to a process that waits with foreign frames here (see `lock/kept.rs`).
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
            cpu_of_calls: Duration::ZERO,
            returned: None,
            waiting: false,
            needed: false,
            is_named: false,
            is_kept: false,
        }
    }
}

impl CarrierEntry {
    /// Takes the call that ends now, on this thread, and its processor time.
    pub(super) fn take_call(&mut self) -> Option<(Outside, Duration)> {
        let out = self.out.take()?;
        let cpu = match out.began {
            Some(began) => clock::thread_cpu_time().saturating_sub(began),
            None => Duration::ZERO,
        };
        self.cpu_of_calls += cpu;
        Some((out, cpu))
    }

    /// Whether the thread waits for the VM, and is left to no process.
    fn is_free(&self) -> bool {
        self.waiting && self.offloading == Offloading::None && !self.is_kept
    }
}

/// Who calls the loop of home.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::vm) enum Driver {
    /// Nobody has called it yet.
    #[default]
    Unknown,
    /// [`Vm::run`](crate::vm::Vm::run).
    Run,
    /// A host, by [`Vm::run_until`](crate::vm::Vm::run_until) on the thread with this number.
    Host(i32),
    /// Nobody any more: the host's VM has ended.
    Over,
}

/// What the VM's mutex guards.
#[derive(Debug, Default)]
pub(in crate::vm) struct LockState {
    pub(in crate::vm) driver: Driver,
    pub(in crate::vm) owner: Option<CarrierId>,
    /// Whether the owner's thread knows that it is the owner. Until then its gate is odd although
    /// it is in no call.
    pub(in crate::vm) owner_has_come: bool,
    /// The owner waits at a safepoint until another thread has forked.
    pub(in crate::vm) stands_aside: bool,
    /// The owner must report its own call as a stall at its next enter.
    pub(in crate::vm) owner_must_warn: bool,
    /// What native threads inherit from home as it was when the VM began.
    pub(in crate::vm) inheritance: Option<Inheritance>,
    /// By carrier id. A retired carrier leaves a hole that is used again.
    pub(in crate::vm) carriers: Vec<Option<CarrierEntry>>,
}

impl LockState {
    /// Makes home the owner. Its thread has not come yet.
    pub(super) fn settle_home(&mut self) {
        if self.carriers.is_empty() {
            self.carriers.push(Some(CarrierEntry::new()));
        }
        self.owner = Some(HOME);
    }

    pub(in crate::vm) fn live_threads(&self) -> usize {
        self.carriers.iter().flatten().count()
    }

    /// How many threads are left to processes that wait with foreign frames.
    pub(super) fn kept_threads(&self) -> usize {
        let all = self.carriers.iter().flatten();
        all.filter(|entry| entry.is_kept && entry.waiting).count()
    }

    pub(in crate::vm) fn entry(&mut self, carrier: CarrierId) -> Option<&mut CarrierEntry> {
        self.carriers.get_mut(carrier.0 as usize)?.as_mut()
    }

    /// Makes `carrier` the owner, and wakes its thread.
    pub(in crate::vm) fn grant(&mut self, carrier: CarrierId) {
        self.owner = Some(carrier);
        self.owner_has_come = false;
        self.owner_must_warn = false;
        if let Some(entry) = self.entry(carrier) {
            entry.granted.notify_one();
        }
    }

    /// Makes all waiting threads check again (the VM has ended).
    pub(in crate::vm) fn wake_all(&self) {
        self.carriers
            .iter()
            .flatten()
            .for_each(|entry| entry.granted.notify_one());
    }

    /// A waiting thread that any process may run on; home if possible.
    pub(super) fn waiting_carrier(&self) -> Option<CarrierId> {
        self.find_waiting(|_, entry| !entry.is_named)
    }

    /// A waiting thread that is reserved for its bound processes.
    pub(super) fn waiting_named_carrier(&self) -> Option<CarrierId> {
        self.find_waiting(|_, entry| entry.is_named)
    }

    /// A waiting thread that is left to a process with foreign frames there.
    pub(super) fn waiting_kept_carrier(&self) -> Option<CarrierId> {
        self.find(|_, entry| entry.waiting && entry.offloading == Offloading::None && entry.is_kept)
    }

    /// The first waiting thread that is promised to no process and `suits`.
    pub(super) fn find_waiting(
        &self,
        suits: impl Fn(CarrierId, &CarrierEntry) -> bool,
    ) -> Option<CarrierId> {
        self.find(|carrier, entry| entry.is_free() && suits(carrier, entry))
    }

    fn find(&self, suits: impl Fn(CarrierId, &CarrierEntry) -> bool) -> Option<CarrierId> {
        let numbered = self.carriers.iter().enumerate();
        numbered
            .filter_map(|(number, entry)| Some((CarrierId(number as u32), entry.as_ref()?)))
            .find(|(carrier, entry)| suits(*carrier, entry))
            .map(|(carrier, _)| carrier)
    }
}

/// The state of an offload to a native thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::vm) enum Offloading {
    None,
    /// A process is coming; the thread takes no other work.
    Promised,
    /// The process `out` has arrived, and continues on the thread.
    Sent,
}
