//! The VM of the calling thread.

use crate::panics::broken;
use crate::vm::Vm;
use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::sync::Arc;

thread_local! {
    /// The VM whose carrier the calling thread is. It has no destructor, so that its first use
    /// does not take the dynamic loader's lock (see [`baton_sys::thread`]). A carrier clears it.
    static VM: RefCell<ManuallyDrop<Option<Arc<Vm>>>> =
        const { RefCell::new(ManuallyDrop::new(None)) };
}

/// Makes the calling thread a carrier of `vm`, or of none. Returns the VM before.
pub(super) fn exchange(vm: Option<Arc<Vm>>) -> Option<Arc<Vm>> {
    VM.with_borrow_mut(|current| std::mem::replace(&mut **current, vm))
}

/// The VM whose carrier the calling thread is. Read afresh on each call.
#[inline(never)]
pub(in crate::vm) fn vm_of_this_thread() -> Arc<Vm> {
    VM.with_borrow(|vm| Option::clone(vm))
        .unwrap_or_else(|| broken("a process runs on a foreign thread"))
}

impl Vm {
    /// Whether the calling thread is a carrier of this VM; for a thread that is inside a VM by its
    /// gate. Async-signal-safe: the carrier has used the thread-local already, and [`exchange`]
    /// runs outside.
    pub(in crate::vm) fn is_of_this_thread(&self) -> bool {
        VM.try_with(|vm| {
            let vm = vm.try_borrow().ok()?;
            Some(std::ptr::eq(Arc::as_ptr(vm.as_ref()?), self))
        })
        .ok()
        .flatten()
        .unwrap_or(false)
    }
}

/// Blocks a thread whose VM is gone: it must not touch anything again.
pub(in crate::vm) fn sleep_for_ever() -> ! {
    loop {
        std::thread::park();
    }
}
