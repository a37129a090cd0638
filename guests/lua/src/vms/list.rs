//! The VMs of the program: the first one, and a list of those beside it.
//!
//! | a VM beside the first one | its entry in the list | its record in the C half |
//! |---|---|---|
//! | is started (`start.rs`) | is made | is kept by its guest |
//! | has ended, or is halted ([`baton_vms_halt`]) | is removed ([`has_ended`]) | is freed with its guest, when its last thread has gone |
//!
//! The list's mutex is a leaf: whoever holds it takes no other lock.

use crate::inside::{self, instant};
use baton_core::vm::{HaltOutcome, Vm};
use baton_sys::forking::{Child, ForkMutex};
use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

unsafe extern "C" {
    fn baton_vms_closes(record: *mut c_void);
    fn baton_lua_kept_size(record: *const c_void) -> u64;
    fn baton_lua_post_notice(text: *const c_char, size: usize);
}

/// The id of the program's first VM.
pub(super) const FIRST_ID: u64 = 1;

/// How long the program's end waits for each of the other VMs.
const PATIENCE_AT_END: Duration = Duration::from_millis(100);

/// How long a call may take to return after a halt, until it is warned of.
const TO_RETURN: Duration = Duration::from_millis(20);

/// How long a report waits for a VM that is idle.
const PATIENCE: Duration = Duration::from_secs(1);

/// How many calls of VMs that were halted were warned of.
static ABANDONED: AtomicU64 = AtomicU64::new(0);

/// What the guest of a VM beside the first one and its entry in the list share.
#[derive(Debug)]
pub(crate) struct Beside {
    pub(crate) id: u64,
    /// For reports.
    pub(crate) name: String,
    /// `struct baton_lua_vm` of the C half. The guest frees it.
    pub(crate) record: usize,
    /// Whether a report on the VM's processes was asked for.
    must_report: AtomicBool,
}

impl Beside {
    pub(crate) fn new(id: u64, name: &str, record: usize) -> Arc<Beside> {
        Arc::new(Beside {
            id,
            name: name.to_owned(),
            record,
            must_report: AtomicBool::new(false),
        })
    }

    /// Which VM it is, for reports.
    pub(crate) fn title(&self) -> String {
        format!("VM '{}'", self.name)
    }

    /// Whether a report was asked for since the last call.
    pub(crate) fn takes_report(&self) -> bool {
        // AcqRel: pairs with itself in `ask_for_reports`, so that each request is answered once.
        self.must_report.swap(false, Ordering::AcqRel)
    }
}

/// A VM that runs beside the first one.
struct ListedVm {
    vm: Arc<Vm>,
    beside: Arc<Beside>,
}

static LIST: ForkMutex<Vec<ListedVm>> = ForkMutex::new(Vec::new());

pub(super) fn add(vm: Arc<Vm>, beside: Arc<Beside>) {
    LIST.lock().push(ListedVm { vm, beside });
}

/// Removes a VM from the list.
pub(super) fn remove(id: u64) {
    let removed = {
        let mut list = LIST.lock();
        let place = list.iter().position(|listed| listed.beside.id == id);
        place.map(|place| list.swap_remove(place))
    };
    drop(removed); // perhaps the last reference to the VM: not under the mutex
}

/// The VM has ended, or was halted: closes what connects it with others, and removes it from the
/// list. Called once, by the thread that tells of the end.
pub(super) fn has_ended(id: u64) {
    let record = {
        let list = LIST.lock();
        let ended = list.iter().find(|listed| listed.beside.id == id);
        ended.map(|ended| ended.beside.record)
    };
    if let Some(record) = record {
        // SAFETY: the entry holds the VM, and so its record. Only this thread removes it.
        unsafe { baton_vms_closes(record as *mut c_void) };
        remove(id);
    }
}

/// All VMs but this one, with what is known of those beside the first one.
fn all_others(own: *const Vm) -> Vec<(Arc<Vm>, Option<Arc<Beside>>)> {
    let list = LIST.lock();
    let beside = list
        .iter()
        .map(|listed| (Arc::clone(&listed.vm), Some(Arc::clone(&listed.beside))));
    let first = inside::program().map(|vm| (Arc::clone(vm), None));
    beside
        .chain(first)
        .filter(|(vm, _)| !std::ptr::eq(Arc::as_ptr(vm), own))
        .collect()
}

/// What the processes of another VM are doing. `title` says which VM it is.
fn describe(vm: &Vm, title: &str) -> String {
    let processes = vm.look(PATIENCE, instant::of_all);
    format!(
        "baton: processes of {title}\n{}",
        processes.unwrap_or_default()
    )
}

pub(crate) fn write_notice(text: &str) {
    // SAFETY: the text is readable; it is copied.
    unsafe { baton_lua_post_notice(text.as_ptr().cast(), text.len()) };
}

/// Writes what the processes of all other VMs are doing, before a report of this one.
pub(crate) fn report_the_others(own: &Vm) {
    for (vm, beside) in all_others(own) {
        let title = beside.map_or_else(|| "the first VM".to_owned(), |beside| beside.title());
        write_notice(&describe(&vm, &title));
    }
}

/// Has each VM beside the first one report on its processes.
pub(crate) fn ask_for_reports() {
    for listed in LIST.lock().iter() {
        // AcqRel: pairs with itself in `takes_report`.
        listed.beside.must_report.swap(true, Ordering::AcqRel);
        listed.vm.request_signalled();
    }
}

/// Stops a VM wherever its processes are. Returns whether it has ended or was halted: otherwise it
/// did not come to a safepoint within `nanoseconds`. Warns of calls that go on. By a thread that is
/// not the VM's.
// SAFETY: the only definition of this symbol, with the signature in `vms/vms.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_vms_halt(id: u64, nanoseconds: u64) -> c_int {
    let found = {
        let list = LIST.lock();
        let found = list.iter().find(|listed| listed.beside.id == id);
        found.map(|listed| (Arc::clone(&listed.vm), Arc::clone(&listed.beside)))
    };
    let Some((vm, beside)) = found else {
        return 1;
    };
    let before = describe(&vm, &beside.title());
    match vm.halt(Duration::from_nanos(nanoseconds), || has_ended(id)) {
        HaltOutcome::GoesOn => return 0,
        HaltOutcome::HadEnded => {}
        HaltOutcome::Halted => warn_of_what_stays(&vm, &beside, &before),
    }
    1
}

/// What a halted VM has is freed when its last thread has ended. Warns if that is not soon: a call
/// goes on, or the run is a simulated one, where a thread of the VM waits for its turn for ever.
fn warn_of_what_stays(vm: &Vm, beside: &Beside, before: &str) {
    let until = Instant::now() + TO_RETURN;
    while vm.calls_in_progress() > 0 && Instant::now() < until {
        std::thread::sleep(TO_RETURN / 20);
    }
    let calls = vm.calls_in_progress();
    if calls == 0 && !vm.is_simulated() {
        return;
    }
    // Relaxed: a count for people.
    let all = ABANDONED.fetch_add(calls as u64, Ordering::Relaxed) + calls as u64;
    let why = if calls == 0 {
        "In a simulated run, its heap and its native threads stay.".to_owned()
    } else {
        format!(
            "Calls of it have not returned: they keep its heap and their native threads ({calls} \
             now, {all} in all VMs) until they do."
        )
    };
    // SAFETY: the VM keeps its record; nobody is inside.
    let bytes = unsafe { baton_lua_kept_size(beside.record as *const c_void) };
    let title = beside.title();
    write_notice(&format!(
        "baton: warning: {title} was halted after its grace. {why} The heap has {bytes} bytes. \
         Before that:\n{before}"
    ));
}

/// Before the program ends: stops all VMs but the caller's, whose executor is `own`, so that they
/// do not run while the program is torn down.
pub(crate) fn halt_others(own: *const Vm) {
    for (vm, _) in all_others(own) {
        let _ = vm.halt(PATIENCE_AT_END, || {});
    }
}

/// Before a program that embeds Lua ends its last VM, and goes on: halts the VMs beside that, whose
/// executor is `own`.
pub(crate) fn end_others(own: *const Vm) {
    for (vm, beside) in all_others(own) {
        let _ = vm.halt(PATIENCE_AT_END, || {
            if let Some(beside) = beside {
                has_ended(beside.id);
            }
        });
    }
}

/// As [`halt_others`].
// SAFETY: the only definition of this symbol, with the signature in `vms/vms.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_vms_halt_others(own: *const c_void) {
    halt_others(own.cast());
}

/// Whether all processes of a VM wait. A hint. `0` for a VM that has ended.
// SAFETY: the only definition of this symbol, with the signature in `vms/vms.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_vms_is_idle(id: u64) -> c_int {
    let beside = || {
        let list = LIST.lock();
        let listed = list.iter().find(|listed| listed.beside.id == id);
        listed.is_some_and(|listed| listed.vm.is_idle())
    };
    let is_idle = match id {
        FIRST_ID => inside::program().is_some_and(|vm| vm.is_idle()),
        _ => beside(),
    };
    is_idle.into()
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
        let beside = &listed.beside;
        // SAFETY: the entry holds the VM, and so its record; the caller's condition.
        unsafe { visit(argument, beside.id, beside.record as *mut c_void) };
    }
}

/// In a fork's child, only the VM that forked is left.
pub(crate) fn renew_in_child(child: &Child) {
    LIST.renew_in_child(child, Vec::new());
}
