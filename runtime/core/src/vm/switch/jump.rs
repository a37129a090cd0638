//! Switches that have been decided, and the other steps of a carrier's loop.

use crate::sched::{CarrierId, ProcessId};
use baton_sys::fiber::Fiber;

/// A switch that has been decided. It is carried out once the owner's data is no longer borrowed.
///
/// Two words, so that it travels in registers; the guest's data goes with the fibers.
#[must_use]
#[derive(Debug, Clone, Copy)]
pub(in crate::vm) struct Jump {
    pub(in crate::vm) from: Fiber,
    pub(in crate::vm) to: Fiber,
}

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
    /// Nothing is runnable.
    Idle,
}

/// The argument of a carrier's own fiber.
pub(in crate::vm) const NO_PROCESS: usize = usize::MAX;

/// The user data of a fiber's process; `None` for a carrier's own fiber.
#[inline]
pub(super) fn user_data_of(fiber: Fiber) -> Option<usize> {
    match fiber.argument() {
        NO_PROCESS => None,
        user_data => Some(user_data),
    }
}

#[cold]
#[inline(never)]
pub(in crate::vm) fn broken(what: &str) -> ! {
    eprintln!("baton: {what} (the executor's bookkeeping is broken)");
    std::process::abort();
}
