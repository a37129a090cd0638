//! Waiting for descriptors.

use super::{CWake, gate};
use baton_core::sched::{Deadline, Readiness, Wake, Watch};
use baton_core::vm::{Keep, Vm};
use baton_sys::clock::Instant;
use baton_sys::reserve;
use std::ffi::{c_int, c_uint, c_void};

/// `struct baton_watch`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct CWatch {
    descriptor: u32,
    wants: u32,
}

/// `baton_attempt`.
type Attempt = unsafe extern "C" fn(argument: *mut c_void, which: c_int, ready: c_uint) -> c_int;

/// The result for a descriptor that cannot be waited for.
const CANNOT_WAIT: c_int = -1;

impl From<CWatch> for Watch {
    fn from(watch: CWatch) -> Watch {
        Watch {
            descriptor: watch.descriptor,
            wants: Readiness::from_bits(watch.wants as u8),
        }
    }
}

fn deadline(nanoseconds: u64) -> Deadline {
    match nanoseconds {
        u64::MAX => Deadline::Never,
        nanoseconds => Deadline::At(Instant::from_nanos(nanoseconds)),
    }
}

/// Waits until one of the descriptors may be ready: see `Inside::await_ready`.
///
/// # Safety
/// `watches` is readable for `count` places.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_await_ready(
    vm: &Vm,
    watches: *const CWatch,
    count: usize,
    keep: c_int,
    harvests: u64,
    until: u64,
) -> c_int {
    // SAFETY: the C half calls this inside the VM (`baton.h`).
    let vm = &unsafe { gate::inside(vm, "baton_await_ready") };
    if reserve::is_short() && !reserve::replenish() {
        return CANNOT_WAIT;
    }
    let keep = if keep != 0 {
        Keep::UntilClosed
    } else {
        Keep::ForThisWait
    };
    let wake = if count == 1 {
        // SAFETY: the caller's condition.
        let watch = unsafe { watches.read() };
        vm.await_ready(&[watch.into()], keep, harvests, deadline(until))
    } else {
        let read = |index| {
            // SAFETY: the caller's condition, as `index` is below `count`.
            unsafe { watches.add(index).read() }.into()
        };
        let watches: Vec<Watch> = (0..count).map(read).collect();
        vm.await_ready(&watches, keep, harvests, deadline(until))
    };
    wake.map_or(CANNOT_WAIT, |wake| CWake::from(wake).reason as c_int)
}

/// Waits until `attempt` succeeds: see `Inside::wait_ready`.
///
/// # Safety
/// `watches` is readable for `count` places. `attempt` may be called with `argument`, inside the
/// VM, until this returns.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_wait_ready(
    vm: &Vm,
    watches: *const CWatch,
    count: usize,
    until: u64,
    attempt: Attempt,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: the C half calls this inside the VM (`baton.h`).
    let vm = &unsafe { gate::inside(vm, "baton_wait_ready") };
    if reserve::is_short() && !reserve::replenish() {
        return CANNOT_WAIT;
    }
    let attempt = |last: Option<Wake>| {
        let (which, ready) =
            last.map_or((-1, 0), |wake| (wake.case as c_int, wake.value as c_uint));
        // SAFETY: the caller's condition.
        unsafe { attempt(argument, which, ready) != 0 }
    };
    let read = |index| {
        // SAFETY: the caller's condition, as `index` is below `count`.
        unsafe { watches.add(index).read() }.into()
    };
    let watches: Vec<Watch> = (0..count).map(read).collect();
    let wake = vm.wait_ready(&watches, deadline(until), attempt);
    wake.map_or(CANNOT_WAIT, |wake| CWake::from(wake).reason as c_int)
}

// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_harvests(vm: &Vm) -> u64 {
    vm.harvests()
}

/// What a kept registration's events have told; negative: no registration is kept.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_descriptor_news(vm: &Vm, descriptor: u32) -> i64 {
    // SAFETY: the C half calls this inside the VM (`baton.h`).
    let vm = &unsafe { gate::inside(vm, "baton_descriptor_news") };
    vm.descriptor_news(descriptor).map_or(-1, |news| {
        i64::from(news.of_more) << 32 | i64::from(news.events)
    })
}

// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_runnable_count(vm: &Vm) -> usize {
    // SAFETY: the C half calls this inside the VM (`baton.h`).
    let vm = &unsafe { gate::inside(vm, "baton_runnable_count") };
    vm.sched(|sched| sched.runnable_count())
}

// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_descriptor_closes(vm: &Vm, descriptor: u32) {
    // SAFETY: the C half calls this inside the VM (`baton.h`).
    let vm = &unsafe { gate::inside(vm, "baton_descriptor_closes") };
    vm.descriptor_closes(descriptor);
}
