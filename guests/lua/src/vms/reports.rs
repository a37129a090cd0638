//! Reports on other VMs than the caller's, and halts, which report what they leave.

use super::list::{self, Beside};
use crate::inside::instant;
use baton_core::vm::{HaltOutcome, Vm};
use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

unsafe extern "C" {
    fn baton_lua_kept_size(record: *const c_void) -> u64;
    fn baton_lua_post_notice(text: *const c_char, size: usize);
}

/// How long a call may take to return after a halt, until it is warned of.
const TO_RETURN: Duration = Duration::from_millis(20);

/// How long a report waits for a VM that is idle.
const PATIENCE: Duration = Duration::from_secs(1);

/// How many calls of VMs that were halted were warned of.
static ABANDONED: AtomicU64 = AtomicU64::new(0);

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
    for (vm, beside) in list::all_others(own) {
        let title = beside.map_or_else(|| "the first VM".to_owned(), |beside| beside.title());
        write_notice(&describe(&vm, &title));
    }
}

/// Stops a VM wherever its processes are. Returns whether it has ended or was halted: otherwise it
/// did not come to a safepoint within `nanoseconds`. Warns of calls that go on. By a thread that is
/// not the VM's.
// SAFETY: the only definition of this symbol, with the signature in `vms/vms.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_vms_halt(id: u64, nanoseconds: u64) -> c_int {
    let Some((vm, beside)) = list::find(id) else {
        return 1;
    };
    let before = describe(&vm, &beside.title());
    match vm.halt(Duration::from_nanos(nanoseconds), || list::has_ended(id)) {
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
