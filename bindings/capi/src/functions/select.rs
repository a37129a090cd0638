//! Waiting for one of several cases.

use super::shared::{CMessage, CSharedChannel};
use super::{CWake, deadline, gate, misuse, process, write_message};
use baton_core::sched::{
    Case, ChannelId, Edition, EventId, MutexId, Readiness, SemaphoreId, TimerId, Wake, WakeReason,
    Watch,
};
use baton_core::vm::{SharedCase, Vm};
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

/// Of `enum baton_case_kind`: a descriptor, and channels between VMs.
const DESCRIPTOR: c_int = 7;
const SHARED_RECEIVE: c_int = 10;
const SHARED_SEND: c_int = 11;

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
        DESCRIPTOR => watch_of(case).map(|watch| Case::Descriptor(watch, Edition::default())),
        _ => None,
    };
    object.unwrap_or(Case::Ready(WakeReason::Closed, 0))
}

fn watch_of(case: &CCase) -> Option<Watch> {
    let descriptor = u32::try_from(case.id).ok()?;
    let wants = Readiness::from_bits(case.wants as u8);
    Some(Watch { descriptor, wants })
}

/// Whether one of the cases needs more than the scheduler: a descriptor, or a channel between VMs.
fn has_special(asked: &[CCase]) -> bool {
    asked
        .iter()
        .any(|case| matches!(case.kind, DESCRIPTOR | SHARED_RECEIVE | SHARED_SEND))
}

fn watches_in(cases: &[Case]) -> Vec<(usize, Watch)> {
    let watch = |(place, case): (usize, &Case)| match case {
        Case::Descriptor(watch, _) => Some((place, *watch)),
        _ => None,
    };
    cases.iter().enumerate().filter_map(watch).collect()
}

/// The cases that are channels between VMs. The messages to send are the caller's no longer.
///
/// # Safety
/// The ids of such cases are channels to which the caller has references.
unsafe fn shared_cases(asked: &[CCase]) -> Vec<(usize, SharedCase<'_, CMessage>)> {
    let mut shared = Vec::new();
    for (place, case) in asked.iter().enumerate() {
        if case.kind != SHARED_RECEIVE && case.kind != SHARED_SEND {
            continue;
        }
        // SAFETY: the caller's condition.
        let channel = unsafe { &*(case.id as *const CSharedChannel) };
        shared.push((
            place,
            match case.kind {
                SHARED_RECEIVE => SharedCase::Receive(&channel.channel),
                _ => SharedCase::Send(&channel.channel, channel.message(case.value)),
            },
        ));
    }
    shared
}

/// Waits for one of several cases. Writes a message if one of them cannot be waited for.
///
/// # Safety
/// `cases` is readable for `count` elements, and `message` writable for `size` bytes. The ids of
/// channels between VMs are pointers to which the caller has references.
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
    let vm = &unsafe { gate::inside(vm, "baton_select") };
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
    let (watches, shared) = match has_special(asked) {
        false => (Vec::new(), Vec::new()),
        // SAFETY: the caller's condition.
        true => (watches_in(cases), unsafe { shared_cases(asked) }),
    };
    let deadline = deadline(timeout);
    let result = match shared.is_empty() {
        true => vm.select(cases, &watches, deadline),
        false => vm
            .select_shared(cases, &watches, shared, deadline)
            .map(|(wake, message)| {
                let value = message.map_or(wake.value, |message| message.into_pointer() as u64);
                Wake { value, ..wake }
            }),
    };
    match result {
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
