//! Native threads by name, and what processes wait for.

use super::{gate, process, write_message};
use baton_core::sched::{ProcessId, SpawnOptions, describe_wait};
use baton_core::vm::{Inside, Spawned, Vm};
use baton_sys::{forking, thread};
use std::ffi::{CStr, c_char, c_int, c_void};

/// The size of `thread` in `struct baton_spawn_options`.
pub(super) const NAME_SIZE: usize = 64;

const NOT_UTF8: &str = "a thread's name is in UTF-8";

/// Spawns a process that is bound to the thread with this name, or to none if the name is empty.
pub(super) fn spawn(
    vm: &Inside<'_>,
    thread: &[u8; NAME_SIZE],
    options: SpawnOptions,
    stack_size: Option<usize>,
    when: Spawned,
) -> Result<ProcessId, String> {
    let name = CStr::from_bytes_until_nul(thread).map(CStr::to_str);
    let spawned = match name {
        Ok(Ok("")) => vm.spawn(options, stack_size, when),
        Ok(Ok(name)) => vm.spawn_on_thread(name, options, stack_size, when),
        _ => return Err(NOT_UTF8.to_owned()),
    };
    spawned.map_err(|error| error.to_string())
}

bridge! {
    fn baton_threads(vm) -> c_int {
        // A simulated run counts only threads that a program can distinguish. The number of the
        // others differs from run to run.
        let count = if vm.is_simulated() { vm.thread_names().len() } else { vm.threads() };
        count as c_int
    }
}

/// Binds a process to the thread with this name (null: to none). Writes a message if it cannot.
///
/// # Safety
/// `name` is null or a string that ends with a zero byte; `message` is writable for `size` bytes.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_bind(
    vm: &Vm,
    pid: u64,
    name: *const c_char,
    message: *mut c_char,
    size: usize,
) {
    // SAFETY: the C half calls this inside the VM (`baton.h`).
    let vm = &unsafe { gate::inside(vm, "baton_bind") };
    let Some(pid) = process(pid) else { return };
    // SAFETY: the caller's condition.
    let name = (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) }.to_str());
    let refusal = match name.transpose() {
        Ok(name) => vm
            .bind_to_thread(pid, name)
            .err()
            .map(|refusal| refusal.to_string()),
        Err(_) => Some(NOT_UTF8.to_owned()),
    };
    if let Some(refusal) = refusal {
        // SAFETY: the caller's condition.
        unsafe { write_message(message, size, &refusal) };
    }
}

/// Writes the name of the thread that a process is bound to, or nothing.
///
/// # Safety
/// `name` is writable for `size` bytes.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_bound_to(vm: &Vm, pid: u64, name: *mut c_char, size: usize) {
    // SAFETY: the C half calls this inside the VM (`baton.h`).
    let vm = &unsafe { gate::inside(vm, "baton_bound_to") };
    let carrier = process(pid).and_then(|pid| vm.sched(|sched| sched.pin(pid)));
    let bound_to = carrier
        .and_then(|carrier| vm.thread_name(carrier))
        .unwrap_or_default();
    // SAFETY: the caller's condition.
    unsafe { write_message(name, size, &bound_to) };
}

/// Writes the name of a process, or nothing.
///
/// # Safety
/// `name` is writable for `size` bytes.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_process_name(vm: &Vm, pid: u64, name: *mut c_char, size: usize) {
    // SAFETY: the C half calls this inside the VM (`baton.h`).
    let vm = &unsafe { gate::inside(vm, "baton_process_name") };
    let own =
        process(pid).and_then(|pid| vm.sched(|sched| sched.process_name(pid).map(str::to_owned)));
    // SAFETY: the caller's condition.
    unsafe { write_message(name, size, &own.unwrap_or_default()) };
}

/// Writes what a process waits for, or nothing.
///
/// # Safety
/// `text` is writable for `size` bytes.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_blocker(vm: &Vm, pid: u64, text: *mut c_char, size: usize) {
    // SAFETY: the C half calls this inside the VM (`baton.h`).
    let vm = &unsafe { gate::inside(vm, "baton_blocker") };
    let names = vm.thread_names();
    let waits_for =
        process(pid).map(|pid| vm.sched(|sched| describe_wait(sched, vm.wording(), &names, pid)));
    // SAFETY: the caller's condition.
    unsafe { write_message(text, size, &waits_for.unwrap_or_default()) };
}

/// The number of the calling process's thread. Writes its name, or nothing.
///
/// # Safety
/// `name` is writable for `size` bytes.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_thread(vm: &Vm, name: *mut c_char, size: usize) -> c_int {
    // SAFETY: the C half calls this inside the VM (`baton.h`).
    let vm = &unsafe { gate::inside(vm, "baton_thread") };
    let carrier = vm.current_carrier();
    // SAFETY: the caller's condition.
    unsafe { write_message(name, size, &vm.thread_name(carrier).unwrap_or_default()) };
    carrier.0 as c_int
}

/// How many forks are between this program and the one that was started.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_forks() -> u32 {
    forking::generation()
}

/// Starts a native thread without a process. Returns 0 if the system refuses it.
///
/// # Safety
/// `name` is a string that ends with a zero byte. `run` may be called with `argument` on any
/// thread.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_start_helper(
    name: *const c_char,
    run: unsafe extern "C" fn(*mut c_void),
    argument: *mut c_void,
) -> c_int {
    // SAFETY: the caller's condition.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    let argument = argument as usize;
    // SAFETY: the caller's condition.
    let body = move || unsafe { run(argument as *mut c_void) };
    thread::start_helper(&name, body).is_ok().into()
}
