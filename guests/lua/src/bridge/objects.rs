//! Synchronization objects and timers.

use super::{CWake, deadline, misuse, process};
use baton_core::kernel::{
    Attempt, BarrierId, Case, ChannelId, ConditionId, EventId, Kernel, MutexId, RwLockId, SemaphoreId, TimerId,
    WaitQueueId, Wake, WakeReason,
};
use baton_core::vm::{Context, Vm};
use baton_sys::clock::Instant;
use std::ffi::c_int;
use std::time::Duration;

/// `struct baton_case`.
#[repr(C)]
struct CCase {
    channel: u64,
    value: u64,
    sends: c_int,
}

/// What an operation says that refuses to be misused.
fn unless_refused<E>(vm: &Vm, attempt: impl FnOnce(&mut Kernel<Context>) -> Result<Attempt, E>) -> CWake {
    let mut refused = false;
    let wake = vm.attempt(|kernel| {
        attempt(kernel).unwrap_or_else(|_| {
            refused = true;
            Attempt::Ready(Wake::because(WakeReason::Dead))
        })
    });
    if refused { misuse() } else { wake.into() }
}

bridge! {
    fn baton_rs_semaphore_new(vm, count: u64) -> u64 {
        vm.kernel(|kernel| kernel.semaphore_new(count)).to_bits()
    }

    fn baton_rs_semaphore_wait(vm, id: u64, timeout: i64) -> CWake {
        match SemaphoreId::from_bits(id) {
            Some(id) => vm.semaphore_wait(id, deadline(timeout)).into(),
            None => Wake::because(WakeReason::Closed).into(),
        }
    }

    fn baton_rs_semaphore_signal(vm, id: u64, n: u64) {
        if let Some(id) = SemaphoreId::from_bits(id) {
            vm.semaphore_signal(id, n);
        }
    }

    fn baton_rs_signal_from_outside(vm, id: u64) {
        if let Some(id) = SemaphoreId::from_bits(id) {
            vm.signal_from_outside(id);
        }
    }

    fn baton_rs_semaphore_count(vm, id: u64) -> u64 {
        SemaphoreId::from_bits(id).map_or(0, |id| vm.kernel(|kernel| kernel.semaphore_count(id)))
    }

    fn baton_rs_mutex_new(vm) -> u64 {
        vm.kernel(|kernel| kernel.mutex_new()).to_bits()
    }

    fn baton_rs_mutex_lock(vm, id: u64, timeout: i64) -> CWake {
        let Some(id) = MutexId::from_bits(id) else { return Wake::because(WakeReason::Closed).into() };
        unless_refused(vm, |kernel| kernel.mutex_lock(id, deadline(timeout)))
    }

    fn baton_rs_mutex_unlock(vm, id: u64) -> c_int {
        let Some(id) = MutexId::from_bits(id) else { return 1 };
        vm.operate(|kernel| kernel.mutex_unlock(id)).is_err().into()
    }

    fn baton_rs_condition_new(vm) -> u64 {
        vm.kernel(|kernel| kernel.condition_new()).to_bits()
    }

    fn baton_rs_condition_wait(vm, id: u64, mutex: u64, timeout: i64) -> CWake {
        let (Some(id), Some(mutex)) = (ConditionId::from_bits(id), MutexId::from_bits(mutex)) else {
            return Wake::because(WakeReason::Closed).into();
        };
        unless_refused(vm, |kernel| kernel.condition_wait(id, mutex, deadline(timeout)))
    }

    fn baton_rs_condition_signal(vm, id: u64, all: c_int) {
        if let Some(id) = ConditionId::from_bits(id) {
            vm.operate(|kernel| {
                if all != 0 {
                    kernel.condition_broadcast(id);
                } else {
                    kernel.condition_signal(id);
                }
            });
        }
    }

    fn baton_rs_event_new(vm) -> u64 {
        vm.kernel(|kernel| kernel.event_new()).to_bits()
    }

    fn baton_rs_event_wait(vm, id: u64, timeout: i64) -> CWake {
        match EventId::from_bits(id) {
            Some(id) => vm.attempt(|kernel| kernel.event_wait(id, deadline(timeout))).into(),
            None => Wake::because(WakeReason::Closed).into(),
        }
    }

    fn baton_rs_event_set(vm, id: u64, on: c_int) {
        if let Some(id) = EventId::from_bits(id) {
            vm.operate(|kernel| {
                if on != 0 {
                    kernel.event_set(id);
                } else {
                    kernel.event_clear(id);
                }
            });
        }
    }

    fn baton_rs_event_is_set(vm, id: u64) -> c_int {
        EventId::from_bits(id).is_some_and(|id| vm.kernel(|kernel| kernel.event_is_set(id))).into()
    }

    fn baton_rs_rwlock_new(vm) -> u64 {
        vm.kernel(|kernel| kernel.rwlock_new()).to_bits()
    }

    fn baton_rs_rwlock_lock(vm, id: u64, writes: c_int, timeout: i64) -> CWake {
        let Some(id) = RwLockId::from_bits(id) else { return Wake::because(WakeReason::Closed).into() };
        unless_refused(vm, |kernel| match writes {
            0 => kernel.rwlock_read(id, deadline(timeout)),
            _ => kernel.rwlock_write(id, deadline(timeout)),
        })
    }

    fn baton_rs_rwlock_unlock(vm, id: u64) -> c_int {
        let Some(id) = RwLockId::from_bits(id) else { return 1 };
        vm.operate(|kernel| kernel.rwlock_unlock(id)).is_err().into()
    }

    fn baton_rs_barrier_new(vm, size: u64) -> u64 {
        vm.kernel(|kernel| kernel.barrier_new(size)).to_bits()
    }

    fn baton_rs_barrier_wait(vm, id: u64, timeout: i64) -> CWake {
        match BarrierId::from_bits(id) {
            Some(id) => vm.attempt(|kernel| kernel.barrier_wait(id, deadline(timeout))).into(),
            None => Wake::because(WakeReason::Closed).into(),
        }
    }

    fn baton_rs_channel_new(vm, capacity: u64) -> u64 {
        let capacity = usize::try_from(capacity).unwrap_or(usize::MAX);
        vm.kernel(|kernel| kernel.channel_new(capacity)).to_bits()
    }

    fn baton_rs_channel_send(vm, id: u64, value: u64, timeout: i64) -> CWake {
        match ChannelId::from_bits(id) {
            Some(id) => vm.channel_send(id, value, deadline(timeout)).into(),
            None => Wake::because(WakeReason::Closed).into(),
        }
    }

    fn baton_rs_channel_receive(vm, id: u64, timeout: i64) -> CWake {
        match ChannelId::from_bits(id) {
            Some(id) => vm.channel_receive(id, deadline(timeout)).into(),
            None => Wake::because(WakeReason::Closed).into(),
        }
    }

    fn baton_rs_channel_close(vm, id: u64) {
        if let Some(id) = ChannelId::from_bits(id) {
            vm.operate(|kernel| kernel.channel_close(id));
        }
    }

    fn baton_rs_channel_length(vm, id: u64) -> u64 {
        ChannelId::from_bits(id).map_or(0, |id| vm.kernel(|kernel| kernel.channel_len(id)) as u64)
    }

    fn baton_rs_queue_new(vm) -> u64 {
        vm.kernel(|kernel| kernel.wait_queue_new()).to_bits()
    }

    fn baton_rs_queue_wait(vm, id: u64, timeout: i64) -> CWake {
        match WaitQueueId::from_bits(id) {
            Some(id) => vm.attempt(|kernel| kernel.wait(id, deadline(timeout))).into(),
            None => Wake::because(WakeReason::Closed).into(),
        }
    }

    fn baton_rs_visit(vm, pid: u64, queue: u64) {
        if let Some(pid) = process(pid) {
            vm.resume_from_outside(pid);
        }
        if let Some(queue) = WaitQueueId::from_bits(queue) {
            vm.wake_from_outside(queue, 0);
        }
    }

    fn baton_rs_queue_wake_all(vm, id: u64) {
        if let Some(id) = WaitQueueId::from_bits(id) {
            vm.kernel(|kernel| kernel.wake_all(id, WakeReason::Done, 0));
        }
    }

    fn baton_rs_free(vm, kind: c_int, id: u64) {
        vm.operate(|kernel| match kind {
            0 => drop(SemaphoreId::from_bits(id).map(|id| kernel.semaphore_free(id))),
            1 => drop(MutexId::from_bits(id).map(|id| kernel.mutex_free(id))),
            2 => drop(ConditionId::from_bits(id).map(|id| kernel.condition_free(id))),
            3 => drop(EventId::from_bits(id).map(|id| kernel.event_free(id))),
            4 => drop(ChannelId::from_bits(id).map(|id| kernel.channel_free(id))),
            5 => drop(WaitQueueId::from_bits(id).map(|id| kernel.wait_queue_free(id))),
            6 => drop(TimerId::from_bits(id).map(|id| kernel.timer_free(id))),
            7 => drop(RwLockId::from_bits(id).map(|id| kernel.rwlock_free(id))),
            _ => drop(BarrierId::from_bits(id).map(|id| kernel.barrier_free(id))),
        });
    }

    fn baton_rs_timer_new(vm, first: u64, period: u64, prepared: u64) -> u64 {
        let Some(prepared) = process(prepared) else { return 0 };
        let period = (period > 0).then_some(Duration::from_nanos(period));
        vm.kernel(|kernel| kernel.timer_new(Instant::from_nanos(first), period, prepared)).to_bits()
    }

    fn baton_rs_timer_prepare(vm, timer: u64, prepared: u64) -> c_int {
        let (Some(timer), Some(prepared)) = (TimerId::from_bits(timer), process(prepared)) else { return 0 };
        vm.kernel(|kernel| kernel.timer_prepare(timer, prepared)).into()
    }

    fn baton_rs_timer_cancel(vm, timer: u64) -> usize {
        let Some(timer) = TimerId::from_bits(timer) else { return 0 };
        vm.operate(|kernel| {
            let prepared = kernel.timer_cancel(timer);
            prepared.map_or(0, |prepared| kernel.guest(prepared))
        })
    }
}

/// Waits for one of several cases.
///
/// # Safety
/// `cases` is readable for `count` elements.
// SAFETY: the only definition of this symbol, with the signature of `c/runtime.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_rs_select(vm: &Vm, cases: *const CCase, count: usize, timeout: i64) -> CWake {
    // SAFETY: the caller's condition.
    let cases = unsafe { std::slice::from_raw_parts(cases, count) };
    let cases: Option<Vec<Case>> = cases
        .iter()
        .map(|case| {
            let channel = ChannelId::from_bits(case.channel)?;
            Some(if case.sends != 0 {
                Case::Send(channel, case.value)
            } else {
                Case::Receive(channel)
            })
        })
        .collect();
    match cases {
        Some(cases) => vm
            .attempt_random(|kernel, random| kernel.select(&cases, deadline(timeout), random))
            .into(),
        None => Wake::because(WakeReason::Closed).into(),
    }
}

/// What a timer has done.
///
/// # Safety
/// `fired` and `skipped` are writable.
// SAFETY: the only definition of this symbol, with the signature of `c/runtime.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_rs_timer_stats(vm: &Vm, timer: u64, fired: *mut u64, skipped: *mut u64) {
    let stats = TimerId::from_bits(timer).and_then(|timer| vm.kernel(|kernel| kernel.timer_stats(timer)));
    if let Some(stats) = stats {
        // SAFETY: the caller's condition.
        unsafe {
            fired.write(stats.fired);
            skipped.write(stats.skipped);
        }
    }
}
