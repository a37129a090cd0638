//! Simulated runs, and their schedules as text.

use super::{negative, write_message};
use baton_core::recording::{Recording, RunDecision};
use baton_core::vm::Vm;
use std::ffi::{CStr, c_char, c_int};
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether there is a VM whose run is simulated. The whole program has one virtual clock, and one
/// place for a schedule.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// Where runs are recorded, one after the other.
static RECORDING: OnceLock<Recording> = OnceLock::new();

/// A simulated VM is gone.
pub(super) fn note_free() {
    // Release: pairs with the swap in `baton_vm_simulate`. What the VM has recorded comes
    // before what the next one does.
    IS_TAKEN.store(false, Ordering::Release);
}

fn recording() -> io::Result<Recording> {
    if let Some(recording) = RECORDING.get() {
        return Ok(*recording);
    }
    let (_, made) = Recording::new()?;
    Ok(*RECORDING.get_or_init(|| made))
}

/// Records the run of a fresh VM: one by the seed, or one that makes the given decisions.
fn record(vm: &Vm, given: Option<&[RunDecision]>) -> c_int {
    if !vm.is_simulated() || vm.has_begun() {
        return -libc::EINVAL;
    }
    match recording() {
        Ok(recording) => {
            recording.prepare(given);
            vm.record(recording);
            0
        }
        Err(error) => negative(&error),
    }
}

/// Reads decisions that are separated by commas.
fn read_schedule(text: &str) -> Result<Vec<RunDecision>, String> {
    let words = text.split(',').filter(|_| !text.is_empty());
    let read = |word: &str| {
        let decision = word.parse();
        decision.map_err(|error| format!("'{word}' is no decision: {error}"))
    };
    let mut decisions = words.map(read).collect::<Result<Vec<RunDecision>, _>>()?;
    decisions.sort_unstable();
    Ok(decisions)
}

fn write_schedule(decisions: &[RunDecision]) -> String {
    let words: Vec<String> = decisions.iter().map(ToString::to_string).collect();
    words.join(",")
}

bridge_from_anywhere! {
    fn baton_vm_simulate(vm, seed: u64) -> c_int {
        if vm.has_begun() || vm.is_simulated() {
            return -libc::EINVAL;
        }
        // Acquire: pairs with the release in `note_free`.
        if IS_TAKEN.swap(true, Ordering::Acquire) {
            return -libc::EBUSY;
        }
        vm.simulate(seed);
        0
    }

    fn baton_vm_record(vm) -> c_int {
        record(vm, None)
    }
}

/// Makes a simulated run follow a schedule.
///
/// # Safety
/// `schedule` is a text that ends with a zero byte, `message` writable for `size` bytes.
// SAFETY: the only definition of this symbol, with the signature of `baton/guest.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_vm_replay(
    vm: &Vm,
    schedule: *const c_char,
    message: *mut c_char,
    size: usize,
) -> c_int {
    // SAFETY: the caller's condition.
    let schedule = unsafe { CStr::from_ptr(schedule) }.to_string_lossy();
    let (result, why) = match read_schedule(&schedule) {
        Ok(decisions) => match record(vm, Some(&decisions)) {
            0 => return 0,
            refused => (
                refused,
                "expected a simulated run that has no process yet".to_owned(),
            ),
        },
        Err(why) => (-libc::EINVAL, why),
    };
    // SAFETY: the caller's condition.
    unsafe { write_message(message, size, &why) };
    result
}

/// Writes the decisions of a recorded run.
///
/// # Safety
/// `text` is writable for `size` bytes.
// SAFETY: the only definition of this symbol, with the signature of `baton/guest.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_vm_schedule(vm: &Vm, text: *mut c_char, size: usize) -> i64 {
    let Some(recording) = vm.recording() else {
        return (-libc::EINVAL).into();
    };
    let Some(decisions) = recording.decisions() else {
        return (-libc::E2BIG).into();
    };
    let written = write_schedule(&decisions);
    // SAFETY: the caller's condition.
    unsafe { write_message(text, size, &written) };
    written.len() as i64
}

bridge! {
    fn baton_count_steps(vm, steps: u32, until_next: *mut u32) -> c_int {
        if !vm.is_simulated() {
            // SAFETY: the C half passes a place of its own.
            unsafe { until_next.write(u32::MAX) };
            return 0;
        }
        let counted = vm.count_steps(steps);
        // SAFETY: the C half passes a place of its own.
        unsafe { until_next.write(counted.until_next) };
        c_int::from(counted.is_safepoint_due)
    }

    fn baton_choose(vm, count: u32) -> u32 {
        vm.choose(count)
    }
}

#[cfg(test)]
mod tests {
    use super::{read_schedule, write_schedule};

    #[test]
    fn a_schedule_is_read_in_any_order_and_written_in_that_of_its_points() {
        let read = read_schedule("s2@9=1,p2@7=3,o1@7.1=2").expect("decisions");
        assert_eq!(write_schedule(&read), "o1@7.1=2,p2@7=3,s2@9=1");
        assert_eq!(read_schedule(""), Ok(Vec::new()));
    }

    #[test]
    fn a_wrong_schedule_is_refused_with_the_wrong_word() {
        for text in [",", "p2@7=3,", "p2@7=3, o1@7=2", "p2@7"] {
            let why = read_schedule(text).expect_err(text);
            assert!(why.contains("is written like p2@57=3"), "{why}");
        }
    }
}
