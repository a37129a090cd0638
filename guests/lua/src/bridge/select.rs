//! Waiting for one of several cases.

use super::{CWake, deadline, misuse, process, write_message};
use baton_core::sched::{
    Case, ChannelId, Edition, EventId, MutexId, Readiness, SemaphoreId, TimerId, Wake, WakeReason,
    Watch,
};
use baton_core::vm::{Inside, Vm};
use std::ffi::{c_char, c_int};

/// `struct baton_case`.
#[repr(C)]
pub(crate) struct CCase {
    /// `enum baton_case_kind`.
    kind: c_int,
    /// What a descriptor is waited for.
    wants: u32,
    /// The id of the object, or the number of a descriptor.
    id: u64,
    /// The value to send.
    value: u64,
}

/// As many cases need no memory beside the stack.
const FEW: usize = 8;

/// Converts a case. An id that no object ever had is ready, as that of a freed object.
fn case_of(case: &CCase) -> Case {
    let bits = case.id;
    let object = match case.kind {
        0 => ChannelId::from_bits(bits).map(Case::Receive),
        1 => ChannelId::from_bits(bits).map(|id| Case::Send(id, case.value)),
        2 => return process(bits).map_or(Case::Ready(WakeReason::Done, 0), Case::Join),
        3 => EventId::from_bits(bits).map(Case::Event),
        4 => SemaphoreId::from_bits(bits).map(Case::Semaphore),
        5 => MutexId::from_bits(bits).map(Case::Mutex),
        6 => TimerId::from_bits(bits).map(Case::Alarm),
        9 => return Case::Ready(WakeReason::Done, 0),
        7 => watch_of(case).map(|watch| Case::Descriptor(watch, Edition::default())),
        _ => None,
    };
    object.unwrap_or(Case::Ready(WakeReason::Closed, 0))
}

fn watch_of(case: &CCase) -> Option<Watch> {
    let descriptor = u32::try_from(case.id).ok()?;
    let wants = Readiness::from_bits(case.wants as u8);
    Some(Watch { descriptor, wants })
}

/// Waits for one of several cases. Writes a message if one of them cannot be waited for.
///
/// # Safety
/// `cases` is readable for `count` elements, and `message` writable for `size` bytes.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_select(
    vm: &Vm,
    cases: *const CCase,
    count: usize,
    timeout: i64,
    message: *mut c_char,
    size: usize,
) -> CWake {
    // SAFETY: the C half calls this inside the VM (`baton.h`).
    let vm = &unsafe { Inside::assume(vm) };
    // SAFETY: the caller's condition.
    let asked = unsafe { std::slice::from_raw_parts(cases, count) };
    let mut few = [Case::Ready(WakeReason::Closed, 0); FEW];
    let mut many = Vec::new();
    let cases: &mut [Case] = match few.get_mut(..count) {
        Some(few) => {
            for (place, case) in few.iter_mut().zip(asked) {
                *place = case_of(case);
            }
            few
        }
        None => {
            many.extend(asked.iter().map(case_of));
            &mut many
        }
    };
    let mut watches = Vec::new();
    for (place, case) in cases.iter().enumerate() {
        if let Case::Descriptor(watch, _) = case {
            watches.push((place, *watch));
        }
    }
    match vm.select(cases, &watches, deadline(timeout)) {
        // The process holds one of the mutexes, or would join itself.
        Ok(wake) if wake.reason == WakeReason::Dead && count > 0 => CWake {
            case_index: wake.case,
            ..misuse()
        },
        Ok(wake) => wake.into(),
        Err(error) => {
            // SAFETY: the caller's condition.
            unsafe { write_message(message, size, &error.to_string()) };
            Wake::because(WakeReason::TimedOut).into()
        }
    }
}
