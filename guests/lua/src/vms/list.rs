//! The VMs of the program: the first one, and a list of those beside it.
//!
//! | a VM beside the first one | its entry in the list | its record in the C half |
//! |---|---|---|
//! | is started (`start.rs`) | is made | is kept by its guest |
//! | has ended, or is halted (`reports.rs`) | is removed ([`has_ended`]) | is freed with its guest, when its last thread has gone |
//!
//! The list's mutex is a leaf: whoever holds it takes no other lock.

use crate::inside;
use baton_core::vm::Vm;
use baton_observe::report::FIRST_VM;
use baton_sys::forking::{Child, ForkMutex};
use std::collections::HashSet;
use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

unsafe extern "C" {
    fn baton_vms_closes(record: *mut c_void);
}

/// The id of the program's first VM.
pub(super) const FIRST_ID: u64 = 1;

/// How long the program's end waits for each of the other VMs.
const PATIENCE_AT_END: Duration = Duration::from_millis(100);

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

/// A VM beside the first one.
pub(super) fn find(id: u64) -> Option<(Arc<Vm>, Arc<Beside>)> {
    let list = LIST.lock();
    let found = list.iter().find(|listed| listed.beside.id == id);
    found.map(|listed| (Arc::clone(&listed.vm), Arc::clone(&listed.beside)))
}

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
pub(super) fn all_others(own: *const Vm) -> Vec<(Arc<Vm>, Option<Arc<Beside>>)> {
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

/// A VM, for observers.
#[derive(Clone)]
pub(crate) struct ObservedVm {
    pub(crate) vm: Arc<Vm>,
    pub(crate) id: u64,
    /// No two VMs have the same.
    pub(crate) name: String,
}

impl ObservedVm {
    /// A number that no other process of the program has: the process's own one in the first VM.
    pub(crate) fn key_of(&self, number: u64) -> u64 {
        match self.id {
            FIRST_ID => number,
            id => id << 32 | number,
        }
    }

    /// The number in this VM of the process with a key; `None`: it is in another VM.
    pub(crate) fn number_of(&self, key: u64) -> Option<u64> {
        let number = key & u64::from(u32::MAX);
        (self.key_of(number) == key).then_some(number)
    }
}

/// All VMs of the program, the first one at the beginning. None before that is there.
pub(crate) fn observed() -> Vec<ObservedVm> {
    let Some(first) = inside::program() else {
        return Vec::new();
    };
    let mut all = vec![ObservedVm {
        vm: Arc::clone(first),
        id: FIRST_ID,
        name: FIRST_VM.to_owned(),
    }];
    all.extend(LIST.lock().iter().map(|listed| ObservedVm {
        vm: Arc::clone(&listed.vm),
        id: listed.beside.id,
        name: listed.beside.name.clone(),
    }));
    all.sort_by_key(|observed| observed.id);
    tell_apart(&mut all);
    all
}

/// Adds their ids to names that an earlier VM has, too.
fn tell_apart(all: &mut [ObservedVm]) {
    let mut names = HashSet::new();
    for observed in all {
        if !names.insert(observed.name.clone()) {
            observed.name = format!("{} {}", observed.name, observed.id);
        }
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
