//! The life of a VM whose guest is a table of functions in C.

use super::{CSpawn, asked_options, write_message};
use crate::guest::{CGuest, CTable};
use baton_core::sched::Priority;
use baton_core::vm::Vm;
use baton_sys::{gate, reserve, signals};
use std::ffi::{c_char, c_int, c_void};
use std::io;
use std::ptr;
use std::sync::Arc;

/// The version, ended by a zero byte.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");

// SAFETY: the only definition of this symbol, with the signature of `baton/guest.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_version() -> *const c_char {
    VERSION.as_ptr().cast()
}

fn negative(error: &io::Error) -> c_int {
    -error.raw_os_error().unwrap_or(libc::ENOMEM)
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
    let made = signals::handle_preempt_signal().and_then(|()| Vm::new(Arc::new(guest)));
    match made {
        Ok(made) => {
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
/// `options` is readable, `message` writable for `size` bytes. Nobody else knows the VM yet.
// SAFETY: the only definition of this symbol, with the signature of `baton/guest.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_spawn_first(
    vm: &Vm,
    options: *const CSpawn,
    message: *mut c_char,
    size: usize,
) -> u64 {
    // SAFETY: the caller's condition.
    let asked = unsafe { &*options };
    let (options, stack_size, when) = asked_options(asked, || Priority::DEFAULT);
    match vm.spawn_first(options, stack_size, when) {
        Ok(process) => process.to_bits(),
        Err(error) => {
            // SAFETY: the caller's condition.
            unsafe { write_message(message, size, &error.to_string()) };
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
    // SAFETY: the caller's condition; the pointer is that of an `Arc`.
    let vm = unsafe {
        Arc::increment_strong_count(vm);
        Arc::from_raw(vm)
    };
    if vm.is_stopped() {
        return -libc::ESHUTDOWN;
    }
    vm.run();
    // SAFETY: null is always right.
    unsafe { signals::preempt_this_thread_by(ptr::null()) };
    0
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
    match Arc::try_unwrap(vm) {
        Ok(_) => 0,
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
