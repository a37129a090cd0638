//! The steps of a carrier's loop.

use crate::sched::{CarrierId, ProcessId};
use crate::vm::inside::Jump;

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

#[cold]
#[inline(never)]
pub(in crate::vm) fn broken(what: &str) -> ! {
    eprintln!("baton: {what} (the executor's bookkeeping is broken)");
    std::process::abort();
}
