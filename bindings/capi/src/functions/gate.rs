//! The gate as functions, with messages for mistakes in debug builds; and the calling process.

use super::process;
use baton_core::vm::{ForeignCall, Inside, Vm};
use baton_sys::gate;
use std::ffi::c_int;

/// Ends the program for a mistake of the guest's.
#[cold]
fn mistake(what: &str) -> ! {
    eprintln!("baton: {what}");
    std::process::abort();
}

/// In debug builds, checks that the calling thread runs a process that is inside, or outside.
#[inline(always)]
fn check(function: &str, is_inside: bool) {
    if !cfg!(debug_assertions) {
        return;
    }
    let here = gate::here();
    if here.carrier().is_none() {
        mistake(&format!(
            "{function} was called by a thread that runs no process; expected a thread of the VM; \
             wake processes by a baton_waker from other threads"
        ));
    }
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

    fn baton_wants_safepoint(_vm) -> c_int {
        c_int::from(gate::here().slow() & gate::ATTENTION != 0)
    }
}

bridge! {
    fn baton_self(vm) -> u64 {
        vm.sched(|sched| sched.current()).map_or(0, |process| process.to_bits())
    }

    fn baton_user_data(vm, pid: u64) -> usize {
        process(pid).map_or(0, |pid| vm.sched(|sched| sched.user_data(pid)))
    }

    fn baton_kill_is_due(vm, pid: u64) -> c_int {
        process(pid).is_some_and(|pid| vm.sched(|sched| sched.kill_is_due(pid))).into()
    }
}
