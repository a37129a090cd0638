//! Calls with a timeout, for the C half.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use baton_core::sched::{Wake, WakeReason};
use baton_core::vm::{Inside, Vm};
use baton_ffi::call::Plan;
use baton_ffi::timed::{CallEnd, TimedCall, TimedCalls};

use super::calls::Prepared;
use baton_capi::CWake;

/// Prepares a VM for calls with a timeout. Inside the VM.
// SAFETY: the only definition of this symbol, with the signature of `c/ffi/inside.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_ffi_timed_calls_new(vm: &Vm) -> *const TimedCalls {
    // SAFETY: the C half calls this inside the VM.
    TimedCalls::new(&unsafe { Inside::assume(vm) })
}

/// Follows the parameter `max_threads`. Inside the VM.
// SAFETY: the only definition of this symbol, with the signature of `c/ffi/inside.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_ffi_timed_limit_changed(calls: &TimedCalls, vm: &Vm) {
    // SAFETY: the C half calls this inside the VM.
    calls.limit_changed(&unsafe { Inside::assume(vm) });
}

/// Begins a call. A negative timeout means none. Inside the VM.
// SAFETY: the only definition of this symbol, with the signature of `c/ffi/inside.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_ffi_timed_begin(calls: &TimedCalls, vm: &Vm, timeout: i64) -> *const TimedCall {
    let timeout = u64::try_from(timeout).ok().map(Duration::from_nanos);
    // SAFETY: the C half calls this inside the VM.
    Arc::into_raw(calls.begin(&unsafe { Inside::assume(vm) }, timeout))
}

/// Waits for a helper. Inside the VM.
// SAFETY: the only definition of this symbol, with the signature of `c/ffi/inside.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_ffi_timed_await_helper(calls: &TimedCalls, vm: &Vm, call: &TimedCall) -> CWake {
    // SAFETY: the C half calls this inside the VM.
    calls
        .await_helper(&unsafe { Inside::assume(vm) }, call)
        .into()
}

/// What a helper calls.
struct Work {
    plan: Arc<Plan>,
    function: *const c_void,
    arguments: *mut *mut c_void,
    result: *mut c_void,
}

// SAFETY: the C half keeps what the pointers lead to alive until the call has returned, and does
// not touch it before.
unsafe impl Send for Work {}

impl Work {
    fn make(self) {
        // SAFETY: the condition of `baton_ffi_timed_start`.
        unsafe { self.plan.call(self.function, self.arguments, self.result) }
    }
}

/// Has a helper make the call. Returns 0 if the system refuses a thread.
///
/// # Safety
/// That of [`Plan::call`]. The arguments and the result are kept until the call has returned.
/// `call` came from `baton_ffi_timed_begin`.
// SAFETY: the only definition of this symbol, with the signature of `c/ffi/inside.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_ffi_timed_start(
    calls: &'static TimedCalls,
    call: *const TimedCall,
    errno: c_int,
    prepared: &Prepared,
    function: *const c_void,
    arguments: *mut *mut c_void,
    result: *mut c_void,
) -> c_int {
    let Some(plan) = prepared.plan() else {
        return 0;
    };
    let work = Work {
        plan,
        function,
        arguments,
        result,
    };
    // SAFETY: the pointer came from an `Arc`, and the C half keeps its share.
    let call = unsafe {
        Arc::increment_strong_count(call);
        Arc::from_raw(call)
    };
    calls
        .start(&call, errno, move || work.make())
        .is_ok()
        .into()
}

/// Gives a helper back that has not got its call.
// SAFETY: the only definition of this symbol, with the signature of `c/ffi/inside.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_ffi_timed_release_helper(calls: &TimedCalls) {
    calls.release_helper();
}

/// Waits until the call is done, or abandons it. If it is done, the reason is "done", and `errno`
/// is written. Inside the VM.
// SAFETY: the only definition of this symbol, with the signature of `c/ffi/inside.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_ffi_timed_await_end(
    calls: &TimedCalls,
    vm: &Vm,
    call: &TimedCall,
    errno: &mut c_int,
) -> CWake {
    // SAFETY: the C half calls this inside the VM.
    match calls.await_end(&unsafe { Inside::assume(vm) }, call) {
        CallEnd::Done(left) => {
            *errno = left;
            Wake::because(WakeReason::Done).into()
        }
        CallEnd::Abandoned(wake) => wake.into(),
    }
}

/// Takes back a call that was not started. Inside the VM.
// SAFETY: the only definition of this symbol, with the signature of `c/ffi/inside.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_ffi_timed_take_back(vm: &Vm, call: &TimedCall) {
    // SAFETY: the C half calls this inside the VM.
    call.free(&unsafe { Inside::assume(vm) });
}

/// Drops the C half's share of a call.
///
/// # Safety
/// `call` came from `baton_ffi_timed_begin`, and is not used any more.
// SAFETY: the only definition of this symbol, with the signature of `c/ffi/inside.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_ffi_timed_free(call: *const TimedCall) {
    // SAFETY: the caller's condition.
    drop(unsafe { Arc::from_raw(call) });
}

/// An abandoned call that has returned; null if there is none. The C half still has its share.
// SAFETY: the only definition of this symbol, with the signature of `c/ffi/inside.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_ffi_timed_next_returned(calls: &TimedCalls) -> *const TimedCall {
    calls
        .next_returned()
        .map_or(ptr::null(), |call| Arc::as_ptr(&call))
}

/// The number of calls in progress, abandoned ones included.
// SAFETY: the only definition of this symbol, with the signature of `c/ffi/inside.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_ffi_timed_in_progress(calls: &TimedCalls) -> c_int {
    calls.in_progress() as c_int
}

/// The number of helper threads without a call.
// SAFETY: the only definition of this symbol, with the signature of `c/ffi/inside.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_ffi_timed_idle_helpers(calls: &TimedCalls) -> c_int {
    calls.idle_helpers() as c_int
}

/// The number of processes that a helper may still wake. Inside the VM.
// SAFETY: the only definition of this symbol, with the signature of `c/ffi/inside.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_ffi_timed_waiting(calls: &TimedCalls) -> c_int {
    calls.waiting() as c_int
}
