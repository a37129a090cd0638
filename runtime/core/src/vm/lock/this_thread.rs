//! The VM of the calling thread.

use crate::vm::Vm;
use crate::vm::switch::jump::broken;
use std::cell::RefCell;
use std::sync::Arc;

thread_local! {
    /// The VM whose carrier the calling thread is.
    pub(super) static VM: RefCell<Option<Arc<Vm>>> = const { RefCell::new(None) };
}

/// The VM whose carrier the calling thread is. Read afresh on each call.
#[inline(never)]
pub(in crate::vm) fn vm_of_this_thread() -> Arc<Vm> {
    VM.with_borrow(|vm| vm.clone())
        .unwrap_or_else(|| broken("a process runs on a foreign thread"))
}

/// Where a thread ends up whose VM is gone: it must not touch anything again.
pub(super) fn sleep_for_ever() -> ! {
    loop {
        std::thread::park();
    }
}
