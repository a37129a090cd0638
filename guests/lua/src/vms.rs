//! VMs beside the program's first one: each on a home thread of its own, with a guest of its own.
//!
//! | a VM | its entry in the list | its record in the C half |
//! |---|---|---|
//! | is started (`baton_vms_start`) | is made | is kept by its guest |
//! | has ended (`run_at_home`) | is removed | is freed with its guest, when its last thread has gone |
//! | is halted (`halt`) | is removed | stays as long as a call of it does not return |
//!
//! Whoever removes the entry closes what connects the VM with others (`baton_vms_closes`), so that
//! happens once.

use crate::guest::LuaGuest;
use baton_core::guest::Guest;
use baton_core::sched::{ProcessId, SpawnOptions};
use baton_core::vm::{Spawned, Vm};
use baton_sys::forking::{Child, ForkMutex};
use baton_sys::{processors, thread};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::program::set_executor;

unsafe extern "C" {
    fn baton_lua_set_main_id(process: *mut c_void, id: u64);
    fn baton_vms_closes(record: *mut c_void);
    fn baton_lua_post_notice(text: *const c_char, size: usize);
}

/// The stack of a home thread, in bytes. Its loop runs there, never a process.
const HOME_STACK: usize = 256 << 10;

/// How long the program's end waits for each of the other VMs.
const PATIENCE_AT_END: Duration = Duration::from_millis(100);

/// A VM that runs beside the first one.
struct Listed {
    id: u64,
    vm: Arc<Vm>,
    guest: Arc<LuaGuest>,
    /// It has ended, and a thread is closing what connects it with others.
    is_closing: bool,
}

static LIST: ForkMutex<Vec<Listed>> = ForkMutex::new(Vec::new());

/// The id of the VM that was started last. The first VM of the program has the id 1.
static LAST_ID: AtomicU64 = AtomicU64::new(1);

/// Removes a VM from the list.
fn remove(id: u64) -> Option<Listed> {
    let mut list = LIST.lock();
    let place = list.iter().position(|listed| listed.id == id)?;
    Some(list.swap_remove(place))
}

/// The VM has ended, or was halted: closes what connects it with others, and removes it from the
/// list. Until then it counts as one that may wake others.
fn has_ended(id: u64) {
    let record = {
        let mut list = LIST.lock();
        let ended = list
            .iter_mut()
            .find(|listed| listed.id == id && !listed.is_closing);
        ended.map(|ended| {
            ended.is_closing = true;
            ended.guest.record
        })
    };
    if let Some(record) = record {
        // SAFETY: the entry holds the VM, and so its record. Only who marks it comes here.
        unsafe { baton_vms_closes(record as *mut c_void) };
        drop(remove(id));
    }
}

/// An id for a VM that is about to be started.
// SAFETY: the only definition of this symbol, with the signature in `vms/vms.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_vms_next_id() -> u64 {
    // Relaxed: the numbers must only differ.
    LAST_ID.fetch_add(1, Ordering::Relaxed) + 1
}

/// The life of a VM, on its home thread.
fn run_at_home(vm: &Arc<Vm>, id: u64, cpu: Option<usize>) {
    if let Some(cpu) = cpu {
        // Checked before the thread was started. Refused now, the VM runs anywhere.
        let _ = processors::bind_this_thread(cpu);
    }
    vm.run();
    has_ended(id);
}

/// Starts a VM. Its main process has the record `main`, which is not shared yet. Returns its id, or
/// 0 and a message.
///
/// # Safety
/// `starter` is the executor of the calling process's VM. `record` is a fresh `struct baton_vm` that
/// belongs to the VM from now on, and `main` the record of its main process. `name` is a string that ends with a zero byte. `message` is writable for
/// `size` bytes.
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
            unsafe { crate::bridge::write_message(message, size, &why) };
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
    let guest = Arc::new(LuaGuest::beside(record as usize, name.to_owned()));
    let vm = Vm::new(Arc::clone(&guest) as Arc<dyn Guest>)
        .map_err(|error| format!("cannot start a VM: {error}"))?;
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
    LIST.lock().push(Listed {
        id,
        vm: Arc::clone(&vm),
        guest,
        is_closing: false,
    });
    let started = if vm.is_simulated() {
        vm.run_in_turn(name, HOME_STACK, move |vm| run_at_home(&vm, id, cpu))
    } else {
        thread::start(name, HOME_STACK, move || run_at_home(&vm, id, cpu))
    };
    started.map_err(|error| {
        drop(remove(id));
        format!("cannot start a native thread: {error}")
    })?;
    Ok(id)
}

/// Stops a VM wherever its processes are. Returns whether it has ended or was halted: otherwise it
/// did not come to a safepoint within `nanoseconds`. By a thread that is not the VM's.
// SAFETY: the only definition of this symbol, with the signature in `vms/vms.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_vms_halt(id: u64, nanoseconds: u64) -> c_int {
    let found = LIST
        .lock()
        .iter()
        .find(|listed| listed.id == id)
        .map(|listed| Arc::clone(&listed.vm));
    let is_over = found.is_none_or(|vm| vm.halt(Duration::from_nanos(nanoseconds)));
    if is_over {
        has_ended(id);
    }
    is_over.into()
}

/// Before the program ends: stops all VMs but the caller's, whose executor is `own`, so that they do
/// not run while the program is torn down.
// SAFETY: the only definition of this symbol, with the signature in `vms/vms.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_vms_halt_others(own: *const c_void) {
    halt_others(own.cast());
}

/// As [`baton_vms_halt_others`].
pub(crate) fn halt_others(own: *const Vm) {
    for (vm, _) in all_others(own) {
        vm.halt(PATIENCE_AT_END);
    }
}

/// How many VMs there are beside the first one.
// SAFETY: the only definition of this symbol, with the signature in `vms/vms.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_vms_count() -> usize {
    LIST.lock().len()
}

/// Calls `visit` with the record of each VM beside the first one. The function must not start, end
/// or look at VMs itself.
///
/// # Safety
/// `visit` may be called with `argument` and any such record.
// SAFETY: the only definition of this symbol, with the signature in `vms/vms.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_vms_each(
    visit: unsafe extern "C" fn(argument: *mut c_void, id: u64, record: *mut c_void),
    argument: *mut c_void,
) {
    for listed in LIST.lock().iter() {
        // SAFETY: the entry holds the VM, and so its record; the caller's condition.
        unsafe { visit(argument, listed.id, listed.guest.record as *mut c_void) };
    }
}

/// All VMs but this one, with their guests if they are beside the first one.
fn all_others(own: *const Vm) -> Vec<(Arc<Vm>, Option<Arc<LuaGuest>>)> {
    let list = LIST.lock();
    let beside = list
        .iter()
        .map(|listed| (Arc::clone(&listed.vm), Some(Arc::clone(&listed.guest))));
    let first = crate::inside::program().map(|vm| (Arc::clone(vm), None));
    beside
        .chain(first)
        .filter(|(vm, _)| !std::ptr::eq(Arc::as_ptr(vm), own))
        .collect()
}

/// Whether no VM can ever run again: each waits for another one. `own` is marked as stuck.
pub(crate) fn all_are_stuck(own: &Vm) -> bool {
    // Each round lists the VMs anew: a VM may have started one and be stuck since.
    let all = || {
        let of = |vm: &Vm| Some((std::ptr::from_ref(vm), vm.stuck_wait()?));
        let others = all_others(own);
        let others = others.iter().map(|(vm, _)| of(vm));
        others.chain([of(own)]).collect::<Option<Vec<_>>>()
    };
    let before = all();
    before.is_some() && before == all()
}

/// Writes what the processes of all other VMs are doing, before a report of this one.
pub(crate) fn report_the_others(own: &Vm) {
    for (vm, guest) in all_others(own) {
        let title = guest.map_or_else(|| "the first VM".to_owned(), |guest| guest.title());
        let text = LuaGuest::describe(&vm, &title);
        // SAFETY: the text is readable; it is copied.
        unsafe { baton_lua_post_notice(text.as_ptr().cast(), text.len()) };
    }
}

/// Has each VM beside the first one report on its processes.
pub(crate) fn ask_for_reports() {
    for listed in LIST.lock().iter() {
        listed.guest.ask_for_report(&listed.vm);
    }
}

/// In a fork's child, only the VM that forked is left.
pub(crate) fn renew_in_child(child: &Child) {
    LIST.renew_in_child(child, Vec::new());
}
