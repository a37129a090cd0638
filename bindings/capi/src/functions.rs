//! The functions of `baton.h`, which a guest in C calls.
//!
//! Each takes the executor as a pointer. They are called inside the VM, unless `baton.h` says
//! otherwise; `gate::inside` relies on that, and checks it in debug builds. None of them unwinds or
//! jumps. The functions for synchronization objects and timers are in `objects`.

use baton_core::sched::{
    ChannelId, Deadline, KillOutcome, Priority, ProcessId, ResumeOutcome, Scheduler, SemaphoreId,
    State, SuspendOutcome, Wake, WakeReason,
};
use baton_core::vm::{ForeignCall, Offloaded, TimeUsed, Vm};
use baton_sys::clock::Instant;
use baton_sys::reserve;
use std::ffi::{c_char, c_int};
use std::io;
use std::time::Duration;

/// `struct baton_wake`.
#[repr(C)]
#[derive(Debug)]
pub struct CWake {
    reason: u32,
    case_index: u32,
    value: u64,
}

/// Seconds.
#[repr(C)]
struct CTimeUsed {
    running: f64,
    cpu: f64,
}

impl From<TimeUsed> for CTimeUsed {
    fn from(used: TimeUsed) -> CTimeUsed {
        CTimeUsed {
            running: used.running.as_secs_f64(),
            cpu: used.cpu.as_secs_f64(),
        }
    }
}

/// `struct baton_last_account`.
#[repr(C)]
struct CLastAccount {
    time: CTimeUsed,
    priority: c_int,
}

const MISUSE: u32 = 7;

impl From<Wake> for CWake {
    #[inline]
    fn from(wake: Wake) -> CWake {
        CWake {
            reason: wake.reason as u32,
            case_index: wake.case,
            value: wake.value,
        }
    }
}

fn misuse() -> CWake {
    CWake {
        reason: MISUSE,
        case_index: 0,
        value: 0,
    }
}

/// A deadline from a duration of the C half, in nanoseconds. Negative means no deadline.
#[inline]
fn deadline(timeout: i64) -> Deadline {
    match u64::try_from(timeout) {
        Err(_) => Deadline::Never,
        Ok(nanoseconds) => deadline_after(nanoseconds),
    }
}

#[inline(never)]
fn deadline_after(nanoseconds: u64) -> Deadline {
    Vm::deadline(Some(Duration::from_nanos(nanoseconds)))
}

/// The system's error as a result.
fn negative(error: &io::Error) -> c_int {
    -error.raw_os_error().unwrap_or(libc::ENOMEM)
}

fn process(bits: u64) -> Option<ProcessId> {
    ProcessId::from_bits(bits)
}

/// Writes a message for the C half: cut to fit, ended by a zero byte.
///
/// # Safety
/// `buffer` is writable for `size` bytes.
pub unsafe fn write_message(buffer: *mut c_char, size: usize, message: &str) {
    let Some(room) = size.checked_sub(1) else {
        return;
    };
    let length = message.len().min(room);
    // SAFETY: the caller's condition; `length + 1 <= size`.
    unsafe {
        std::ptr::copy_nonoverlapping(message.as_ptr(), buffer.cast::<u8>(), length);
        buffer.add(length).write(0);
    }
}

/// Defines functions that C calls inside the VM. Each has its token as `vm: Inside`.
macro_rules! bridge {
    ($(
        $(#[$doc:meta])*
        fn $name:ident($vm:ident $(, $argument:ident: $type:ty)* $(,)?) $(-> $result:ty)?
        $body:block
    )*) => {$(
        $(#[$doc])*
        // SAFETY: the only definition of this symbol, with the signature of `baton.h`.
        #[unsafe(no_mangle)]
        extern "C" fn $name($vm: &Vm $(, $argument: $type)*) $(-> $result)? {
            // SAFETY: the C half calls this inside the VM (`baton.h`).
            let $vm = unsafe { $crate::functions::gate::inside($vm, stringify!($name)) };
            $body
        }
    )*};
}

/// Defines functions that C calls on any thread, or outside the VM. Each has the executor as
/// `vm: &Vm`.
macro_rules! bridge_from_anywhere {
    ($(
        $(#[$doc:meta])*
        fn $name:ident($vm:ident $(, $argument:ident: $type:ty)* $(,)?) $(-> $result:ty)?
        $body:block
    )*) => {$(
        $(#[$doc])*
        // SAFETY: the only definition of this symbol, with the signature of `baton.h`.
        #[unsafe(no_mangle)]
        extern "C" fn $name($vm: &Vm $(, $argument: $type)*) $(-> $result)? $body
    )*};
}

mod commands;
mod cycles;
mod descriptors;
mod dict;
pub(crate) mod gate;
#[cfg(test)]
mod layout;
mod life;
mod objects;
mod select;
mod shared;
mod signals;
mod simulation;
mod spawning;
mod threads;
mod turns;
mod wakers;

bridge! {
    fn baton_end(vm) -> CLastAccount {
        let last = vm.end();
        CLastAccount { time: last.time.into(), priority: last.priority.get().into() }
    }

    fn baton_forget(vm, pid: u64) {
        if let Some(pid) = process(pid) {
            vm.forget(pid);
        }
    }

    fn baton_set_user_data(vm, pid: u64, user_data: usize) {
        if let Some(pid) = process(pid) {
            vm.set_user_data(pid, user_data);
        }
    }

    fn baton_yield(vm) {
        vm.yield_now();
    }

    fn baton_yield_to(vm, pid: u64) {
        match process(pid) {
            // For a process that has ended, it is a yield.
            Some(pid) => _ = vm.yield_to(pid),
            None => vm.yield_now(),
        }
    }

    fn baton_enter_critical(vm) {
        vm.enter_critical();
    }

    fn baton_leave_critical(vm) {
            // C leaves only what it has entered. In a scheduler or a switch hook, no process is
            // current, and nothing was entered.
        let is_wrong =
            vm.sched(|sched| sched.leave_critical().is_err() && sched.current().is_some());
        debug_assert!(!is_wrong, "a critical section is left that was not entered");
    }

    fn baton_trim_stacks(vm) {
        vm.trim_stacks();
    }

    fn baton_unmap_stacks(vm) -> usize {
        vm.unmap_stacks()
    }

    fn baton_give_way(vm) {
        vm.with_sched(|_| ());
    }

    fn baton_set_scheduler_hook(vm, on: c_int) {
        vm.set_scheduler_hook(on != 0);
    }

    fn baton_set_switch_hook(vm, pid: u64, on: c_int) {
        if let Some(pid) = process(pid) {
            vm.set_switch_hook(pid, on != 0);
        }
    }

    fn baton_safepoint(vm) {
        vm.safepoint();
    }

    fn baton_safepoint_in_call(vm) {
        vm.safepoint_in_call();
    }

    fn baton_trace_garbage(vm, begins: c_int) {
        vm.trace_garbage(begins != 0);
    }

    fn baton_step_aside(vm) {
        vm.step_aside();
    }

    fn baton_offload(vm) -> c_int {
        match vm.offload() {
            Ok(_) | Err(Offloaded::Moved) => 0,
            Err(Offloaded::Stays) => 1,
            Err(Offloaded::NoThread) => 2,
        }
    }

    fn baton_sleep_until(vm, nanoseconds: u64) -> CWake {
        vm.sleep_until(Instant::from_nanos(nanoseconds)).into()
    }

    fn baton_postpone(vm, nanoseconds: u64) {
        vm.sched(|sched| sched.postpone(Duration::from_nanos(nanoseconds)));
    }

    fn baton_join(vm, pid: u64, timeout: i64) -> CWake {
        match process(pid) {
            Some(pid) => vm.block_on(|sched| sched.join(pid, deadline(timeout))).into(),
            None => Wake::because(WakeReason::Done).into(),
        }
    }

    fn baton_wait_for_rest(vm, timeout: i64) -> CWake {
        vm.block_on(|sched| sched.wait_for_rest(deadline(timeout))).into()
    }

    fn baton_joiners(vm, pid: u64) -> c_int {
        process(pid).map_or(0, |pid| vm.sched(|sched| sched.joiner_count(pid)) as c_int)
    }

    fn baton_release_joiners(vm, pid: u64) {
        if let Some(pid) = process(pid) {
            vm.with_sched(|sched| sched.release_joiners_of(pid));
        }
    }

    fn baton_suspend(vm, pid: u64) -> c_int {
        match process(pid).map(|pid| vm.suspend(pid)) {
            None | Some(SuspendOutcome::Dead) => 1,
            Some(SuspendOutcome::Killed) => 2,
            Some(
                SuspendOutcome::Suspended
                | SuspendOutcome::CurrentMustSwitch
                | SuspendOutcome::Already,
            ) => 0,
        }
    }

    fn baton_resume(vm, pid: u64) -> c_int {
        match process(pid).map(|pid| vm.resume(pid)) {
            None | Some(ResumeOutcome::Dead) => 1,
            Some(ResumeOutcome::Resumed | ResumeOutcome::NotSuspended) => 0,
        }
    }

    fn baton_kill(vm, pid: u64) -> c_int {
        match process(pid).map(|pid| vm.kill(pid)) {
            None | Some(KillOutcome::AlreadyDead) => 1,
            Some(KillOutcome::IsCurrent) => 2,
            Some(KillOutcome::Woken | KillOutcome::Pending | KillOutcome::Held) => 0,
        }
    }

    fn baton_end_unstarted(vm, pid: u64) -> c_int {
        process(pid).is_some_and(|pid| vm.sched(|sched| sched.end_unstarted(pid))).into()
    }

    fn baton_request_safepoint_at(vm, pid: u64, due: u64) {
        if let Some(pid) = process(pid) {
            let due = (due != u64::MAX).then(|| Instant::from_nanos(due));
            vm.request_safepoint_at(pid, due);
        }
    }

    fn baton_set_kill_hold(vm, pid: u64, holds: c_int) {
        if let Some(pid) = process(pid) {
            vm.sched(|sched| sched.set_kill_hold(pid, holds != 0));
        }
    }

    fn baton_withdraw_kill(vm, pid: u64) {
        if let Some(pid) = process(pid) {
            vm.sched(|sched| sched.pardon(pid));
        }
    }

    fn baton_wait_for_thread(vm) -> CWake {
        vm.wait_for_thread().into()
    }

    fn baton_interrupt(vm, pid: u64) -> c_int {
        process(pid).is_some_and(|pid| vm.sched(|sched| sched.interrupt(pid))).into()
    }

    fn baton_priority(vm, pid: u64) -> c_int {
        process(pid).map_or(0, |pid| c_int::from(vm.sched(|sched| sched.priority(pid)).get()))
    }

    fn baton_set_priority(vm, pid: u64, priority: c_int) {
        let level = u8::try_from(priority).ok().and_then(Priority::new);
        if let (Some(pid), Some(priority)) = (process(pid), level) {
            vm.with_sched(|sched| sched.set_priority(pid, priority));
        }
    }

    fn baton_set_pinned(vm, pid: u64, pinned: c_int) {
        if let Some(pid) = process(pid) {
            vm.set_pinned(pid, pinned != 0);
        }
    }

    fn baton_state(vm, pid: u64) -> c_int {
        let state = process(pid).map_or(State::Dead, |pid| vm.sched(|sched| sched.state(pid)));
        match state {
            State::Running => 0,
            State::Runnable => 1,
            State::Waiting => 2,
            State::Sleeping => 3,
            State::Suspended => 4,
            State::Foreign => 5,
            State::Dead => 6,
        }
    }

    fn baton_time_used(vm, pid: u64) -> CTimeUsed {
        process(pid).map(|pid| vm.time_used(pid)).unwrap_or_default().into()
    }

    fn baton_stack_pointer(vm, pid: u64) -> usize {
        process(pid).and_then(|pid| vm.stack_pointer(pid)).unwrap_or(0)
    }

    fn baton_slice(vm, pid: u64) -> u64 {
        let slice = process(pid).map_or(Duration::ZERO, |pid| vm.slice(pid));
        u64::try_from(slice.as_nanos()).unwrap_or(u64::MAX)
    }

    fn baton_set_slice(vm, pid: u64, nanoseconds: u64) {
        if let Some(pid) = process(pid) {
            let own = (nanoseconds > 0).then(|| Duration::from_nanos(nanoseconds));
            vm.set_slice(pid, own);
        }
    }

    fn baton_set_retaking(vm, on: c_int) {
        vm.set_retaking(on != 0 && !vm.is_simulated());
    }

    fn baton_stack_used(vm, pid: u64) -> usize {
        process(pid).and_then(|pid| vm.stack_high_water(pid)).unwrap_or(0)
    }
}

bridge_from_anywhere! {
    fn baton_enter_cold(vm) {
        gate::check_thread("baton_enter");
        // SAFETY: the process is in a foreign call, whose enter has found a reason for this.
        unsafe { ForeignCall::assume(vm) }.enter_cold();
    }

    fn baton_window(vm) -> u64 {
        u64::try_from(vm.parameters.window.get().as_nanos()).unwrap_or(u64::MAX)
    }

    fn baton_warn_blocked(vm) -> u64 {
        u64::try_from(vm.parameters.warn_blocked.get().as_nanos()).unwrap_or(u64::MAX)
    }

    fn baton_enter_cold_pinned(vm) {
        // SAFETY: as for `baton_enter_cold`.
        unsafe { ForeignCall::assume(vm) }.enter_cold_pinned();
    }

    fn baton_request_signalled(vm) {
        vm.request_signalled();
    }

    fn baton_signal_from_outside(vm, id: u64) {
        if let Some(id) = SemaphoreId::from_bits(id) {
            vm.signal_from_outside(id);
        }
    }

    fn baton_threads_for_calls(vm) -> usize {
        vm.threads_for_calls()
    }
}

/// Writes the lowest and the highest address of the C stack of a living process, and the lowest
/// address of its guard.
///
/// # Safety
/// `guard`, `low` and `high` are writable.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_stack_bounds(
    vm: &Vm,
    pid: u64,
    guard: *mut usize,
    low: *mut usize,
    high: *mut usize,
) {
    // SAFETY: the C half calls this inside the VM (`baton.h`).
    let vm = &unsafe { gate::inside(vm, "baton_stack_bounds") };
    let bounds = process(pid).and_then(|pid| Some((vm.stack_guard(pid)?, vm.stack_bounds(pid)?)));
    if let Some((below, (bottom, top))) = bounds {
        // SAFETY: the caller's condition.
        unsafe {
            guard.write(below.start);
            low.write(bottom);
            high.write(top);
        }
    }
}

/// Writes the records of all living processes, at most `capacity`, and returns how many there are.
///
/// # Safety
/// `records` is writable for `capacity` records.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_list(vm: &Vm, records: *mut usize, capacity: usize) -> usize {
    // SAFETY: the C half calls this inside the VM (`baton.h`).
    let vm = &unsafe { gate::inside(vm, "baton_list") };
    vm.sched(|sched| {
        let mut count = 0;
        for record in sched.iter().filter_map(|pid| sched.user_data(pid)) {
            if count < capacity {
                // SAFETY: the caller's condition; `count < capacity`.
                unsafe { records.add(count).write(record) };
            }
            count += 1;
        }
        count
    })
}

/// Fills the reserve of memory. Returns 0 if it cannot.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_replenish() -> c_int {
    reserve::replenish().into()
}

/// Fills a part of the reserve, so that the guest may allocate. Returns 0 if it cannot.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_hold_least() -> c_int {
    reserve::hold_least().into()
}

/// Whether there is memory for one more object or process, and for one more value in a channel (0:
/// no channel). Free places in tables count. Inside the VM.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_replenish_for_object(vm: &Vm, channel: u64) -> c_int {
    // SAFETY: the C half calls this inside the VM (`baton.h`).
    let vm = &unsafe { gate::inside(vm, "baton_replenish_for_object") };
    let channel = ChannelId::from_bits(channel);
    let make_room = |sched: &mut Scheduler<_>| {
        sched.make_room() && channel.is_none_or(|channel| sched.channel_make_room(channel))
    };
    reserve::replenish_for(|| vm.sched(make_room)).into()
}

/// Whether this many bytes can be allocated.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_has_room(size: usize) -> c_int {
    reserve::has_room(size).into()
}

/// The monotonic clock in nanoseconds.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_now() -> u64 {
    Instant::now().as_nanos()
}
