//! The life of a VM whose guest is a table of functions in C.

use super::spawning::{CSpawn, asked_options};
use super::{negative, simulation, write_message};
use crate::guest::{CGuest, CTable};
use baton_core::sched::Priority;
use baton_core::vm::{StintEnd, StintRefused, Vm};
use baton_sys::clock::Instant;
use baton_sys::{gate, overflow, reserve, signals};
use std::ffi::{c_char, c_int, c_void};
use std::ptr;
use std::sync::Arc;

/// The version, ended by a zero byte.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");

// SAFETY: the only definition of this symbol, with the signature of `baton/guest.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_version() -> *const c_char {
    VERSION.as_ptr().cast()
}

/// Makes a VM and writes it.
///
/// # Safety
/// `table` is readable for as many bytes as its first member says. `vm` is writable.
// SAFETY: the only definition of this symbol, with the signature of `baton/guest.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_vm_new(
    table: *const CTable,
    guest: *mut c_void,
    vm: *mut *const Vm,
) -> c_int {
    // SAFETY: the caller's condition.
    let table = unsafe { CTable::read(table) };
    let Some(guest) = table.and_then(|table| CGuest::new(table, guest)) else {
        return -libc::EINVAL;
    };
    if !reserve::replenish() {
        return -libc::ENOMEM;
    }
    let made = signals::handle_preempt_signal()
        .and_then(|()| overflow::set_describe(overflow::describe_process))
        .and_then(|()| Vm::new(Arc::new(guest)));
    match made {
        Ok(made) => {
            made.abandon_calls_at_end();
            // SAFETY: the caller's condition.
            unsafe { vm.write(Arc::into_raw(made)) };
            0
        }
        Err(error) => negative(&error),
    }
}

/// Adds a process before the VM runs.
///
/// # Safety
/// `options` is readable as its first member says, `message` writable for `size` bytes. Nobody else
/// knows the VM yet.
// SAFETY: the only definition of this symbol, with the signature of `baton/guest.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_spawn_first(
    vm: &Vm,
    options: *const CSpawn,
    message: *mut c_char,
    size: usize,
) -> u64 {
    // SAFETY: the caller's condition.
    let asked = unsafe { CSpawn::read(options) };
    let spawned = asked.and_then(|asked| {
        let (options, stack_size, when) = asked_options(&asked, || Priority::DEFAULT);
        let spawned = vm.spawn_first(options, stack_size, when);
        let process = spawned.map_err(|error| error.to_string())?;
        // SAFETY: the caller's condition.
        vm.name_first_process(process, &unsafe { asked.name() });
        Ok(process)
    });
    match spawned {
        Ok(process) => process.to_bits(),
        Err(error) => {
            // SAFETY: the caller's condition.
            unsafe { write_message(message, size, &error) };
            0
        }
    }
}

/// Runs a VM on the calling thread until it has ended.
///
/// # Safety
/// `vm` is of `baton_vm_new`, and was not freed.
// SAFETY: the only definition of this symbol, with the signature of `baton/guest.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_vm_run(vm: *const Vm) -> c_int {
    if gate::here().carrier().is_some() {
        return -libc::EBUSY;
    }
    // SAFETY: the caller's condition.
    let vm = unsafe { shared(vm) };
    if vm.is_stopped() {
        return -libc::ESHUTDOWN;
    }
    if vm.threads() > 0 {
        return -libc::EINVAL;
    }
    vm.run();
    // SAFETY: null is always right.
    unsafe { signals::preempt_this_thread_by(ptr::null()) };
    outcome(&vm)
}

/// A reference of its own to the VM that C has a pointer to.
///
/// # Safety
/// `vm` is of `baton_vm_new`, and was not freed.
unsafe fn shared(vm: *const Vm) -> Arc<Vm> {
    // SAFETY: the caller's condition; the pointer is that of an `Arc`.
    unsafe {
        Arc::increment_strong_count(vm);
        Arc::from_raw(vm)
    }
}

/// How a VM has ended.
fn outcome(vm: &Vm) -> c_int {
    match vm.has_deadlocked() {
        true => -libc::EDEADLK,
        false => ENDED,
    }
}

/// `enum baton_stint`.
pub(super) const ENDED: c_int = 0;
pub(super) const IDLE: c_int = 1;
pub(super) const TIME_IS_UP: c_int = 2;

/// Runs a VM on the calling thread for one stint of a host's loop.
///
/// # Safety
/// `vm` is of `baton_vm_new`, and was not freed.
// SAFETY: the only definition of this symbol, with the signature of `baton/guest.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_vm_run_until(vm: *const Vm, deadline: u64) -> c_int {
    // SAFETY: the caller's condition.
    let vm = unsafe { shared(vm) };
    let stint = match vm.run_until(Instant::from_nanos(deadline)) {
        Ok(stint) => stint,
        Err(StintRefused::InsideVm) => return -libc::EBUSY,
        Err(StintRefused::OtherThread) => return -libc::EPERM,
        Err(StintRefused::Run) => return -libc::EINVAL,
        Err(StintRefused::Simulated) => return -libc::ENOTSUP,
    };
    // SAFETY: null is always right.
    unsafe { signals::preempt_this_thread_by(ptr::null()) };
    match stint {
        StintEnd::Idle(_) => IDLE,
        StintEnd::TimeIsUp => TIME_IS_UP,
        StintEnd::Ended => outcome(&vm),
    }
}

bridge_from_anywhere! {
    fn baton_vm_descriptor(vm) -> c_int {
        vm.descriptor()
    }

    fn baton_vm_next_deadline(vm) -> u64 {
        vm.next_stint().map_or(u64::MAX, Instant::as_nanos)
    }
}

/// Frees a VM that nobody else holds.
///
/// # Safety
/// `vm` is null, or of `baton_vm_new` and was not freed; no other thread uses it any more.
// SAFETY: the only definition of this symbol, with the signature of `baton/guest.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_vm_free(vm: *const Vm) -> c_int {
    if vm.is_null() {
        return 0;
    }
    // SAFETY: the caller's condition.
    let vm = unsafe { Arc::from_raw(vm) };
    // A host that frees its VM between two stints does not need it any more.
    vm.end_between_stints();
    match Arc::try_unwrap(vm) {
        Ok(vm) => {
            let was_simulated = vm.is_simulated();
            drop(vm);
            if was_simulated {
                simulation::note_free();
            }
            0
        }
        Err(vm) => {
            // It is the caller's still.
            let _ = Arc::into_raw(vm);
            -libc::EBUSY
        }
    }
}

bridge! {
    fn baton_stop(vm) {
        vm.stop();
    }
}
