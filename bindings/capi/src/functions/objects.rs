//! Synchronization objects and timers. Select is in `select`.

use super::{CWake, deadline, gate, misuse, process, write_message};
use baton_core::sched::{
    Attempt, BarrierId, Blocker, ChannelId, ConditionId, EventId, FirstLook, FirstWaiter, MutexId,
    RwLockId, Scheduler, SemaphoreId, TimerId, WaitPlace, WaitQueueId, Wake, WakeReason,
    describe_cycle,
};
use baton_core::vm::{Context, Inside, Vm};
use baton_sys::clock::Instant;
use std::ffi::{CStr, c_char, c_int};
use std::time::Duration;

/// Waits for the result of `attempt`, or returns `MISUSE` if that refuses.
fn unless_refused<E>(
    vm: &Inside<'_>,
    attempt: impl FnOnce(&mut Scheduler<Context>) -> Result<Attempt, E>,
) -> CWake {
    let mut refused = false;
    let wake = vm.block_on(|sched| {
        attempt(sched).unwrap_or_else(|_| {
            refused = true;
            Attempt::Ready(Wake::because(WakeReason::Dead))
        })
    });
    if refused { misuse() } else { wake.into() }
}

// Where a process has to wait or to be woken. These are functions of their own, so that those of
// `baton.h` save no registers for them, and by C's convention, so that they can be called last.

#[inline(never)]
extern "C" fn semaphore_wait(vm: Inside<'_>, id: u64, timeout: i64) -> CWake {
    match SemaphoreId::from_bits(id) {
        Some(id) => vm
            .block_on(|sched| sched.semaphore_wait(id, deadline(timeout)))
            .into(),
        None => Wake::because(WakeReason::Closed).into(),
    }
}

/// Returns whether the count stays below the limit of an integer of Lua.
#[inline(never)]
extern "C" fn semaphore_signal(vm: Inside<'_>, id: u64, n: u64) -> c_int {
    let Some(id) = SemaphoreId::from_bits(id) else {
        return 1;
    };
    let count = vm.sched(|sched| sched.semaphore_count(id));
    let fits = count
        .checked_add(n)
        .is_some_and(|sum| sum <= i64::MAX as u64);
    if fits {
        vm.with_sched(|sched| sched.semaphore_signal(id, n));
    }
    fits.into()
}

/// Wakes a waiter. Returns the value that it wanted to send.
#[inline(never)]
extern "C" fn wake_waiter(vm: Inside<'_>, waiter: FirstWaiter, value: u64) -> CWake {
    let value = vm.wake_waiter(waiter, value);
    done(value)
}

#[inline(never)]
extern "C" fn wait_at(vm: Inside<'_>, place: WaitPlace, value: u64, timeout: i64) -> CWake {
    vm.wait_at(place, value, deadline(timeout)).into()
}

#[inline]
fn done(value: u64) -> CWake {
    Wake {
        value,
        ..Wake::because(WakeReason::Done)
    }
    .into()
}

#[inline(never)]
extern "C" fn channel_send(vm: Inside<'_>, id: u64, value: u64, timeout: i64) -> CWake {
    match ChannelId::from_bits(id) {
        Some(id) => vm
            .block_on(|sched| sched.channel_send(id, value, deadline(timeout)))
            .into(),
        None => Wake::because(WakeReason::Closed).into(),
    }
}

#[inline(never)]
extern "C" fn event_wait(vm: Inside<'_>, id: u64, timeout: i64) -> CWake {
    match EventId::from_bits(id) {
        Some(id) => vm
            .block_on(|sched| sched.event_wait(id, deadline(timeout)))
            .into(),
        None => Wake::because(WakeReason::Closed).into(),
    }
}

#[inline(never)]
extern "C" fn channel_receive(vm: Inside<'_>, id: u64, timeout: i64) -> CWake {
    match ChannelId::from_bits(id) {
        Some(id) => vm
            .block_on(|sched| sched.channel_receive(id, deadline(timeout)))
            .into(),
        None => Wake::because(WakeReason::Closed).into(),
    }
}

/// The object of a handle of the C half (`enum baton_object`), as names and reports know it.
fn object(kind: c_int, id: u64) -> Option<Blocker> {
    match kind {
        0 => SemaphoreId::from_bits(id).map(Blocker::Semaphore),
        1 => MutexId::from_bits(id).map(Blocker::Mutex),
        2 => ConditionId::from_bits(id).map(Blocker::Condition),
        3 => EventId::from_bits(id).map(Blocker::Event),
        4 => ChannelId::from_bits(id).map(Blocker::Receive),
        7 => RwLockId::from_bits(id).map(Blocker::Read),
        8 => BarrierId::from_bits(id).map(Blocker::Barrier),
        9 => TimerId::from_bits(id).map(Blocker::Alarm),
        _ => None,
    }
}

fn free(sched: &mut Scheduler<Context>, kind: c_int, id: u64) {
    match kind {
        0 => drop(SemaphoreId::from_bits(id).map(|id| sched.semaphore_free(id))),
        1 => drop(MutexId::from_bits(id).map(|id| sched.mutex_free(id))),
        2 => drop(ConditionId::from_bits(id).map(|id| sched.condition_free(id))),
        3 => drop(EventId::from_bits(id).map(|id| sched.event_free(id))),
        4 => drop(ChannelId::from_bits(id).map(|id| sched.channel_free(id))),
        5 => drop(WaitQueueId::from_bits(id).map(|id| sched.wait_queue_free(id))),
        6 => drop(TimerId::from_bits(id).map(|id| sched.timer_free(id))),
        9 => drop(TimerId::from_bits(id).map(|id| sched.alarm_free(id))),
        7 => drop(RwLockId::from_bits(id).map(|id| sched.rwlock_free(id))),
        _ => drop(BarrierId::from_bits(id).map(|id| sched.barrier_free(id))),
    }
}

bridge! {
    fn baton_semaphore_new(vm, count: u64) -> u64 {
        vm.sched(|sched| sched.semaphore_new(count)).to_bits()
    }

    fn baton_semaphore_wait(vm, id: u64, timeout: i64) -> CWake {
        match SemaphoreId::from_bits(id).map(|id| vm.semaphore_begin_wait(id)) {
            Some(FirstLook::Done(_)) => done(0),
            Some(FirstLook::Waits(place)) => wait_at(vm, place, 0, timeout),
            _ => semaphore_wait(vm, id, timeout),
        }
    }

    fn baton_semaphore_signal(vm, id: u64, n: u64) -> c_int {
        match SemaphoreId::from_bits(id).map(|id| vm.semaphore_begin_signal(id, n)) {
            Some(FirstLook::Done(_)) => 1,
            Some(FirstLook::Wakes(waiter)) => {
                wake_waiter(vm, waiter, 0);
                1
            }
            _ => semaphore_signal(vm, id, n),
        }
    }

    fn baton_semaphore_count(vm, id: u64) -> u64 {
        SemaphoreId::from_bits(id).map_or(0, |id| vm.sched(|sched| sched.semaphore_count(id)))
    }

    fn baton_mutex_new(vm) -> u64 {
        vm.sched(|sched| sched.mutex_new()).to_bits()
    }

    fn baton_mutex_lock(vm, id: u64, timeout: i64) -> CWake {
        let Some(id) = MutexId::from_bits(id) else {
            return Wake::because(WakeReason::Closed).into();
        };
        unless_refused(&vm, |sched| sched.mutex_lock(id, deadline(timeout)))
    }

    fn baton_mutex_unlock(vm, id: u64) -> c_int {
        let Some(id) = MutexId::from_bits(id) else { return 1 };
        vm.with_sched(|sched| sched.mutex_unlock(id)).is_err().into()
    }

    fn baton_mutex_give_back(vm, id: u64, is_abandoned: c_int) {
        if let Some(id) = MutexId::from_bits(id) {
            let _ = vm.with_sched(|sched| sched.mutex_give_back(id, is_abandoned != 0));
        }
    }

    fn baton_condition_new(vm) -> u64 {
        vm.sched(|sched| sched.condition_new()).to_bits()
    }

    fn baton_condition_wait(vm, id: u64, mutex: u64, timeout: i64) -> CWake {
        let (Some(id), Some(mutex)) = (ConditionId::from_bits(id), MutexId::from_bits(mutex)) else {
            return Wake::because(WakeReason::Closed).into();
        };
        unless_refused(&vm, |sched| sched.condition_wait(id, mutex, deadline(timeout)))
    }

    fn baton_condition_signal(vm, id: u64, all: c_int) -> c_int {
        let woke = ConditionId::from_bits(id).map_or(0, |id| vm.condition_signal(id, all != 0));
        c_int::try_from(woke).unwrap_or(c_int::MAX)
    }

    fn baton_event_new(vm) -> u64 {
        vm.sched(|sched| sched.event_new()).to_bits()
    }

    fn baton_event_wait(vm, id: u64, timeout: i64) -> CWake {
        match EventId::from_bits(id).map(|id| vm.event_begin_wait(id)) {
            Some(FirstLook::Done(_)) => done(0),
            Some(FirstLook::Waits(place)) => wait_at(vm, place, 0, timeout),
            _ => event_wait(vm, id, timeout),
        }
    }

    fn baton_event_set(vm, id: u64, on: c_int) {
        if let Some(id) = EventId::from_bits(id) {
            vm.with_sched(|sched| {
                if on != 0 {
                    sched.event_set(id);
                } else {
                    sched.event_clear(id);
                }
            });
        }
    }

    fn baton_event_is_set(vm, id: u64) -> c_int {
        EventId::from_bits(id).is_some_and(|id| vm.sched(|sched| sched.event_is_set(id))).into()
    }

    fn baton_rwlock_new(vm) -> u64 {
        vm.sched(|sched| sched.rwlock_new()).to_bits()
    }

    fn baton_rwlock_lock(vm, id: u64, writes: c_int, timeout: i64) -> CWake {
        let Some(id) = RwLockId::from_bits(id) else {
            return Wake::because(WakeReason::Closed).into();
        };
        unless_refused(&vm, |sched| match writes {
            0 => sched.rwlock_read(id, deadline(timeout)),
            _ => sched.rwlock_write(id, deadline(timeout)),
        })
    }

    fn baton_rwlock_unlock(vm, id: u64) -> c_int {
        let Some(id) = RwLockId::from_bits(id) else { return 1 };
        vm.with_sched(|sched| sched.rwlock_unlock(id)).is_err().into()
    }

    fn baton_rwlock_give_back(vm, id: u64, is_abandoned: c_int) {
        if let Some(id) = RwLockId::from_bits(id) {
            let _ = vm.with_sched(|sched| sched.rwlock_give_back(id, is_abandoned != 0));
        }
    }

    fn baton_barrier_new(vm, size: u64) -> u64 {
        vm.sched(|sched| sched.barrier_new(size)).to_bits()
    }

    fn baton_barrier_wait(vm, id: u64, timeout: i64) -> CWake {
        match BarrierId::from_bits(id) {
            Some(id) => vm.block_on(|sched| sched.barrier_wait(id, deadline(timeout))).into(),
            None => Wake::because(WakeReason::Closed).into(),
        }
    }

    fn baton_channel_new(vm, capacity: u64) -> u64 {
        let capacity = usize::try_from(capacity).unwrap_or(usize::MAX);
        vm.sched(|sched| sched.channel_new(capacity)).to_bits()
    }

    fn baton_channel_send(vm, id: u64, value: u64, timeout: i64) -> CWake {
        match ChannelId::from_bits(id).map(|id| vm.channel_begin_send(id, value)) {
            Some(FirstLook::Done(_)) => done(0),
            Some(FirstLook::Wakes(receiver)) => wake_waiter(vm, receiver, value),
            Some(FirstLook::Waits(place)) => wait_at(vm, place, value, timeout),
            _ => channel_send(vm, id, value, timeout),
        }
    }

    fn baton_channel_receive(vm, id: u64, timeout: i64) -> CWake {
        match ChannelId::from_bits(id).map(|id| vm.channel_begin_receive(id)) {
            Some(FirstLook::Done(value)) => done(value),
            Some(FirstLook::Wakes(sender)) => wake_waiter(vm, sender, 0),
            Some(FirstLook::Waits(place)) => wait_at(vm, place, 0, timeout),
            _ => channel_receive(vm, id, timeout),
        }
    }

    fn baton_channel_close(vm, id: u64) {
        if let Some(id) = ChannelId::from_bits(id) {
            vm.with_sched(|sched| sched.channel_close(id));
        }
    }

    fn baton_channel_post(vm, id: u64, value: u64) -> c_int {
        let post = |id| vm.sched(|sched| sched.channel_post(id, value));
        ChannelId::from_bits(id).is_some_and(post).into()
    }

    fn baton_channel_give_back(vm, id: u64, value: u64) {
        if let Some(id) = ChannelId::from_bits(id) {
            vm.with_sched(|sched| sched.channel_give_back(id, value));
        }
    }

    fn baton_channel_post_once(vm, id: u64, value: u64) {
        if let Some(id) = ChannelId::from_bits(id) {
            vm.sched(|sched| sched.channel_post_once(id, value));
        }
    }

    fn baton_channel_clear(vm, id: u64) {
        if let Some(id) = ChannelId::from_bits(id) {
            vm.sched(|sched| sched.channel_clear(id));
        }
    }

    fn baton_channel_set_fed(vm, id: u64, is_fed: c_int) {
        if let Some(id) = ChannelId::from_bits(id) {
            vm.sched(|sched| sched.channel_set_fed(id, is_fed != 0));
        }
    }

    fn baton_channel_length(vm, id: u64) -> u64 {
        ChannelId::from_bits(id).map_or(0, |id| vm.sched(|sched| sched.channel_len(id)) as u64)
    }

    fn baton_queue_new(vm) -> u64 {
        vm.sched(|sched| sched.wait_queue_new()).to_bits()
    }

    fn baton_queue_wait(vm, id: u64, timeout: i64) -> CWake {
        match WaitQueueId::from_bits(id) {
            Some(id) => vm.block_on(|sched| sched.wait(id, deadline(timeout))).into(),
            None => Wake::because(WakeReason::Closed).into(),
        }
    }

    fn baton_wake_from_outside(vm, pid: u64, queue: u64) {
        if let Some(pid) = process(pid) {
            vm.resume_from_outside(pid);
        }
        if let Some(queue) = WaitQueueId::from_bits(queue) {
            vm.wake_from_outside(queue, 0);
        }
    }

    fn baton_queue_wake_all(vm, id: u64) {
        if let Some(id) = WaitQueueId::from_bits(id) {
            vm.sched(|sched| sched.wake_all(id, WakeReason::Done, 0));
        }
    }

    fn baton_free(vm, kind: c_int, id: u64) {
        // Finalizers call this in the middle of a collection, so it lets no other process run.
        vm.sched(|sched| {
            if let Some(object) = object(kind, id) {
                sched.set_name(object, "");
            }
            free(sched, kind, id);
        });
    }

    fn baton_alarm_new(vm, due: u64) -> u64 {
        vm.sched(|sched| sched.alarm_new(Instant::from_nanos(due))).to_bits()
    }

    fn baton_alarm_set(vm, id: u64, due: u64) {
        if let Some(id) = TimerId::from_bits(id) {
            vm.sched(|sched| sched.alarm_set(id, Instant::from_nanos(due)));
        }
    }

    fn baton_alarm_cancel(vm, id: u64) -> c_int {
        TimerId::from_bits(id).is_some_and(|id| vm.sched(|sched| sched.alarm_cancel(id))).into()
    }

    fn baton_alarm_has_gone_off(vm, id: u64) -> c_int {
        let has_gone_off = |id| vm.sched(|sched| sched.alarm_has_gone_off(id));
        TimerId::from_bits(id).is_some_and(has_gone_off).into()
    }

    fn baton_alarm_wait(vm, id: u64, timeout: i64) -> CWake {
        match TimerId::from_bits(id) {
            Some(id) => vm.block_on(|sched| sched.alarm_wait(id, deadline(timeout))).into(),
            None => Wake::because(WakeReason::Closed).into(),
        }
    }

    fn baton_timer_new(vm, first: u64, period: u64, prepared: u64) -> u64 {
        let Some(prepared) = process(prepared) else { return 0 };
        let period = (period > 0).then_some(Duration::from_nanos(period));
        vm.sched(|sched| sched.timer_new(Instant::from_nanos(first), period, prepared)).to_bits()
    }

    fn baton_timer_prepare(vm, timer: u64, prepared: u64) -> c_int {
        let (Some(timer), Some(prepared)) = (TimerId::from_bits(timer), process(prepared)) else {
            return 0;
        };
        vm.sched(|sched| sched.timer_prepare(timer, prepared)).into()
    }

    fn baton_timer_cancel(vm, timer: u64) -> usize {
        let Some(timer) = TimerId::from_bits(timer) else { return 0 };
        vm.with_sched(|sched| {
            let prepared = sched.timer_cancel(timer);
            prepared.and_then(|prepared| sched.user_data(prepared)).unwrap_or(0)
        })
    }
}

/// Writes how often a timer has fired, and how often it has skipped.
///
/// # Safety
/// `fired` and `skipped` are writable.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_timer_stats(vm: &Vm, timer: u64, fired: *mut u64, skipped: *mut u64) {
    // SAFETY: the C half calls this inside the VM (`baton.h`).
    let vm = &unsafe { gate::inside(vm, "baton_timer_stats") };
    let stats =
        TimerId::from_bits(timer).and_then(|timer| vm.sched(|sched| sched.timer_stats(timer)));
    if let Some(stats) = stats {
        // SAFETY: the caller's condition.
        unsafe {
            fired.write(stats.fired);
            skipped.write(stats.skipped);
        }
    }
}

/// Names an object.
///
/// # Safety
/// `name` is a C string.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_set_object_name(vm: &Vm, kind: c_int, id: u64, name: *const c_char) {
    // SAFETY: the C half calls this inside the VM (`baton.h`).
    let vm = &unsafe { gate::inside(vm, "baton_set_object_name") };
    // SAFETY: the caller's condition.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    if let Some(object) = object(kind, id) {
        vm.sched(|sched| sched.set_name(object, &name));
    }
}

/// Says where the program has signalled a condition when that last woke nobody.
///
/// # Safety
/// `place` is a C string.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_condition_set_place(vm: &Vm, id: u64, place: *const c_char) {
    // SAFETY: the C half calls this inside the VM (`baton.h`).
    let vm = &unsafe { gate::inside(vm, "baton_condition_set_place") };
    // SAFETY: the caller's condition.
    let place = unsafe { CStr::from_ptr(place) }.to_string_lossy();
    if let Some(id) = ConditionId::from_bits(id) {
        vm.sched(|sched| sched.condition_set_place(id, &place));
    }
}

/// Writes the name of an object, or nothing.
///
/// # Safety
/// `name` is writable for `size` bytes.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_object_name(
    vm: &Vm,
    kind: c_int,
    id: u64,
    name: *mut c_char,
    size: usize,
) {
    // SAFETY: the C half calls this inside the VM (`baton.h`).
    let vm = &unsafe { gate::inside(vm, "baton_object_name") };
    vm.sched(|sched| {
        let text = object(kind, id)
            .and_then(|object| sched.name_of(object))
            .unwrap_or("");
        // SAFETY: the caller's condition.
        unsafe { write_message(name, size, text) };
    });
}

/// Whether the calling process would close a cycle of locks by waiting for this one. Returns 0 for
/// no, 1 for yes with a warning, 2 for yes with an error. Writes the cycle.
///
/// # Safety
/// `text` is writable for `size` bytes.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_closes_cycle(
    vm: &Vm,
    kind: c_int,
    id: u64,
    text: *mut c_char,
    size: usize,
) -> c_int {
    // SAFETY: the C half calls this inside the VM (`baton.h`).
    let vm = &unsafe { gate::inside(vm, "baton_closes_cycle") };
    let told = vm.sched(|sched| {
        let links = sched.cycle_closed_by(object(kind, id)?)?;
        Some(describe_cycle(sched, vm.wording(), &links))
    });
    let Some(told) = told else { return 0 };
    // SAFETY: the caller's condition.
    unsafe { write_message(text, size, &told) };
    if vm.parameters.refuses_deadlock() {
        2
    } else {
        1
    }
}
