//! The gate as functions, which `baton/inline.h` replaces where it can, with messages for mistakes
//! in debug builds; and the calling process.

use super::process;
use baton_core::vm::{ForeignCall, Inside, Vm};
use baton_sys::gate;
use std::cell::Cell;
use std::ffi::c_int;

thread_local! {
    /// In debug builds: the callback of the guest's that is running and that may call no function
    /// of the runtime; empty if there is none.
    static CALLBACK: Cell<&'static str> = const { Cell::new("") };
}

/// Ends the program for a mistake of the guest's.
#[cold]
pub(crate) fn mistake(what: &str) -> ! {
    eprintln!("baton: {what}");
    std::process::abort();
}

/// Runs a callback of the guest's that may call no function of the runtime. Debug builds check
/// that.
#[inline(always)]
pub(crate) fn in_callback<R>(name: &'static str, callback: impl FnOnce() -> R) -> R {
    if !cfg!(debug_assertions) {
        return callback();
    }
    CALLBACK.set(name);
    let result = callback();
    CALLBACK.set("");
    result
}

/// The token of a guest that calls `function` inside the VM. Debug builds check that it is.
///
/// # Safety
/// As for [`Inside::assume`].
#[inline(always)]
pub(super) unsafe fn inside<'vm>(vm: &'vm Vm, function: &str) -> Inside<'vm> {
    if cfg!(debug_assertions) {
        check_inside(function);
    }
    // SAFETY: the caller's condition.
    unsafe { Inside::assume(vm) }
}

fn check_inside(function: &str) {
    let callback = CALLBACK.get();
    if !callback.is_empty() {
        mistake(&format!(
            "{function} was called in the guest's `{callback}`; expected no call of the runtime \
             there; do it in the process that runs next"
        ));
    }
    let here = gate::here();
    if here.value() & 1 == 0 {
        return;
    }
    if here.carrier().is_none() {
        mistake(&format!(
            "{function} was called by a thread that runs no process; expected a thread of the VM, \
             inside; wake processes by a baton_waker from other threads"
        ));
    }
    mistake(&format!(
        "{function} was called outside the VM; expected a call inside; call baton_enter before"
    ));
}

/// In debug builds, checks that the guest's `run` has come back in.
pub(crate) fn check_return_of_run() {
    if cfg!(debug_assertions) && gate::here().value() & 1 != 0 {
        mistake(
            "the guest's `run` returned outside the VM; expected a baton_enter after each \
             baton_leave",
        );
    }
}

/// In debug builds, checks that the calling thread runs a process.
#[inline(always)]
pub(super) fn check_thread(function: &str) {
    if cfg!(debug_assertions) && gate::here().carrier().is_none() {
        mistake(&format!(
            "{function} was called by a thread that runs no process; expected a thread of the VM; \
             wake processes by a baton_waker from other threads"
        ));
    }
}

/// In debug builds, checks that the calling thread runs a process that is inside, or outside.
#[inline(always)]
fn check(function: &str, is_inside: bool) {
    if !cfg!(debug_assertions) {
        return;
    }
    check_thread(function);
    let here = gate::here();
    let is_even = here.value() & 1 == 0;
    if is_even && !is_inside {
        mistake(&format!(
            "{function} was called inside the VM; expected a call after baton_leave; remove one \
             of two calls in a row, or call baton_leave before"
        ));
    }
    if !is_even && is_inside {
        mistake(&format!(
            "{function} was called outside the VM; expected a call after baton_enter; remove one \
             of two calls in a row, or call baton_enter before"
        ));
    }
}

bridge_from_anywhere! {
    fn baton_leave(_vm) {
        check("baton_leave", true);
        // SAFETY: the guest calls this inside, and touches nothing of the owner's until it enters.
        unsafe { gate::here().leave() };
    }

    fn baton_enter(vm) {
        check("baton_enter", false);
        // SAFETY: the guest is outside, in the process that has left.
        let _inside = unsafe { ForeignCall::assume(vm) }.enter();
    }

    fn baton_gate_mistaken(_vm, enters: c_int) {
        match enters {
            0 => check("baton_leave", true),
            _ => check("baton_enter", false),
        }
    }

    fn baton_is_revoked(_vm) -> c_int {
        gate::here().is_revoked().into()
    }

    fn baton_wants_safepoint(_vm) -> c_int {
        c_int::from(gate::here().slow() & gate::ATTENTION != 0)
    }
}

bridge! {
    fn baton_self(vm) -> u64 {
        vm.sched(|sched| sched.current()).map_or(0, |process| process.to_bits())
    }

    fn baton_user_data(vm, pid: u64) -> usize {
        process(pid).and_then(|pid| vm.sched(|sched| sched.user_data(pid))).unwrap_or(0)
    }

    fn baton_kill_is_due(vm, pid: u64) -> c_int {
        process(pid).is_some_and(|pid| vm.sched(|sched| sched.kill_is_due(pid))).into()
    }
}
