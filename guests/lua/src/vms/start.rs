//! The start of a VM beside the first one, and its home thread.

use super::list::{self, Beside, FIRST_ID};
use crate::guest::{LuaGuest, set_executor};
use baton_capi::write_message;
use baton_core::sched::{ProcessId, SpawnOptions};
use baton_core::vm::{Spawned, Vm};
use baton_sys::{processors, thread};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

unsafe extern "C" {
    fn baton_lua_set_main_id(process: *mut c_void, id: u64);
}

/// The stack of a home thread, in bytes. Its loop runs there, never a process.
const HOME_STACK: usize = 256 << 10;

/// The id of the VM that was started last.
static LAST_ID: AtomicU64 = AtomicU64::new(FIRST_ID);

/// An id for a VM that is about to be started.
// SAFETY: the only definition of this symbol, with the signature in `vms/vms.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_vms_next_id() -> u64 {
    // Relaxed: the numbers must only differ.
    LAST_ID.fetch_add(1, Ordering::Relaxed) + 1
}

/// The life of a VM, on its home thread.
fn run_at_home(vm: &Arc<Vm>, id: u64, cpu: Option<usize>) {
    // The thread has inherited the processors of the VM that starts it, which may be bound. The
    // number was checked before the thread was started. Refused now, the VM runs anywhere.
    let _ = match cpu {
        Some(cpu) => processors::bind_this_thread(cpu),
        None => processors::free_this_thread(),
    };
    vm.run_and_then(|| list::has_ended(id));
}

/// Starts a VM. Its main process has the record `main`, which is not shared yet. Returns its id, or
/// 0 and a message.
///
/// # Safety
/// `starter` is the executor of the calling process's VM. `record` is a fresh `struct baton_lua_vm`
/// that belongs to the VM from now on, and `main` the record of its main process. `name` is a
/// string that ends with a zero byte. `message` is writable for `size` bytes.
// SAFETY: the only definition of this symbol, with the signature in `vms/vms.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_vms_start(
    starter: &Vm,
    record: *mut c_void,
    main: *mut c_void,
    id: u64,
    name: *const c_char,
    cpu: c_int,
    message: *mut c_char,
    size: usize,
) -> u64 {
    // SAFETY: the caller's conditions.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    // SAFETY: the caller's conditions.
    unsafe { start(starter, record, main, id, &name, usize::try_from(cpu).ok()) }.unwrap_or_else(
        |why| {
            // SAFETY: the caller's condition.
            unsafe { write_message(message, size, &why) };
            0
        },
    )
}

/// # Safety
/// As for [`baton_vms_start`].
unsafe fn start(
    starter: &Vm,
    record: *mut c_void,
    main: *mut c_void,
    id: u64,
    name: &str,
    cpu: Option<usize>,
) -> Result<u64, String> {
    // From here on, dropping the guest frees the record.
    let beside = Beside::new(id, name, record as usize);
    let vm = Vm::new(Arc::new(LuaGuest::beside(Arc::clone(&beside))))
        .map_err(|error| format!("cannot start a VM: {error}"))?;
    vm.abandon_calls_at_end();
    if starter.is_simulated() {
        vm.simulate_beside(starter, id);
    }
    // SAFETY: the record is fresh, and its guest lives as long as the VM.
    unsafe { set_executor(record, &vm) };
    let options = SpawnOptions {
        user_data: main as usize,
        ..SpawnOptions::default()
    };
    let pid: ProcessId = vm
        .spawn_first(options, None, Spawned::Now)
        .map_err(|error| format!("cannot make the main process of a VM: {error}"))?;
    vm.prefer_home(pid);
    // SAFETY: the record is that of the process just made, which has not started.
    unsafe { baton_lua_set_main_id(main, pid.to_bits()) };
    list::add(Arc::clone(&vm), beside);
    let started = if vm.is_simulated() {
        vm.run_in_turn(name, HOME_STACK, move |vm| run_at_home(&vm, id, cpu))
    } else {
        thread::start(name, HOME_STACK, move || run_at_home(&vm, id, cpu))
    };
    started.map_err(|error| {
        list::remove(id);
        format!("cannot start a native thread: {error}")
    })?;
    Ok(id)
}

/// How many cores the program's quota of processor time keeps busy, rounded up; 0: it has none.
// SAFETY: the only definition of this symbol, with the signature in `vms/vms.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_vms_quota() -> c_int {
    processors::quota().map_or(0, |cpus| cpus.ceil().max(1.0) as c_int)
}
