//! Wakers. C holds each by a pointer.

use super::process;
use baton_core::sched::SemaphoreId;
use baton_core::vm::{Inside, Vm, WakeAction, Waker};
use std::ptr;

fn boxed(vm: &Inside<'_>, action: Option<WakeAction>) -> *mut Waker {
    action.map_or(ptr::null_mut(), |action| {
        Box::into_raw(Box::new(vm.new_waker(action)))
    })
}

bridge! {
    fn baton_waker_resume(vm, pid: u64) -> *mut Waker {
        boxed(&vm, process(pid).map(WakeAction::Resume))
    }

    fn baton_waker_signal(vm, semaphore: u64) -> *mut Waker {
        boxed(&vm, SemaphoreId::from_bits(semaphore).map(WakeAction::Signal))
    }
}

// SAFETY: the only definition of this symbol, with the signature of `baton/guest.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_waker_wake(waker: &Waker) {
    waker.wake();
}

/// # Safety
/// `waker` is null, or of one of the functions above and not used any more.
// SAFETY: the only definition of this symbol, with the signature of `baton/guest.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_waker_free(waker: *mut Waker) {
    if !waker.is_null() {
        // SAFETY: the caller's condition.
        drop(unsafe { Box::from_raw(waker) });
    }
}
