//! Counters and features, by their names in Lua programs.

use baton_core::vm::{Inside, Vm};
use baton_sys::features::features;
use std::ffi::{CStr, c_char, c_int};
use std::ptr;
use std::time::Duration;

/// The value of a counter.
#[derive(Clone, Copy)]
enum Count {
    Number(u64),
    Time(Duration),
}

/// The executor's and the scheduler's counters, in the order of their names below.
fn counters(vm: &Inside<'_>) -> Vec<(&'static CStr, Count)> {
    let c = &vm.counters;
    let (k, live, runnable, sleeping, foreign, aside) = vm.sched(|sched| {
        let kept = (
            sched.live_count(),
            sched.runnable_count(),
            sched.sleeping_count(),
            sched.foreign_count(),
        );
        (
            *sched.counters(),
            kept.0,
            kept.1,
            kept.2,
            kept.3,
            sched.kept_aside_count(),
        )
    });
    let named = vm.sched(|sched| sched.named_count());
    let (stacks, spin) = (vm.stack_stats(), vm.spin_tally());
    let numbers = [
        (c"switches", k.switches),
        (c"yields", k.yields),
        (c"preemptions_by_urgency", k.preemptions_by_urgency),
        (c"preemptions_by_slice", k.preemptions_by_slice),
        (c"wakes", k.wakes),
        (c"timeouts", k.timeouts),
        (c"kills", k.kills),
        (c"spawned", k.spawned),
        (c"ended", k.ended),
        (c"timers_fired", k.timers_fired),
        (c"timers_skipped", k.timers_skipped),
        (c"pinned_waits", k.kept_aside),
        (c"live", live as u64),
        (c"runnable", runnable as u64),
        (c"sleeping", sleeping as u64),
        (c"foreign", foreign as u64),
        (c"waiting_for_thread", aside as u64),
        (c"beats", c.beats.get()),
        (c"signals", c.signals.get()),
        (c"retakes", c.retakes.get()),
        (c"false_retakes", c.false_retakes.get()),
        (c"exclusive_calls", c.exclusive_calls.get()),
        (c"gave_way_in_calls", c.gave_way_in_calls.get()),
        (c"moves", c.moves.get()),
        (c"thread_bound_hits", c.thread_bound_hits.get()),
        (c"idle_waits", c.idle_waits.get()),
        (c"descriptor_waits", c.descriptor_waits.get()),
        (c"descriptors_registered", c.descriptors_registered.get()),
        (c"handovers", c.handovers.get()),
        (c"threads", vm.threads() as u64),
        (c"threads_named", named as u64),
        (c"threads_started", c.threads_started.get()),
        (c"threads_retired", c.threads_retired.get()),
        (c"stacks_in_use", stacks.in_use as u64),
        (c"stacks_free", stacks.free as u64),
        (c"spins_hit", spin.accuracy.true_positives),
        (c"spins_failed", spin.accuracy.false_positives),
        (c"parks_long", spin.accuracy.true_negatives),
        (c"parks_short", spin.accuracy.false_negatives),
    ];
    let times = [
        (c"spin_time", spin.spun),
        (c"spin_budget_left", spin.budget_left),
        (c"park_cost", spin.park_cost),
    ];
    let numbers = numbers
        .into_iter()
        .map(|(name, count)| (name, Count::Number(count)));
    let times = times
        .into_iter()
        .map(|(name, time)| (name, Count::Time(time)));
    numbers.chain(times).collect()
}

/// Counters of native threads. They differ between two runs of one program.
const OF_THREADS: [&CStr; 4] = [
    c"threads",
    c"threads_started",
    c"threads_retired",
    c"handovers",
];

/// A counter as C sees it.
#[repr(C)]
struct Counter {
    name: *const c_char,
    /// A time is in nanoseconds.
    value: u64,
    is_time: c_int,
}

/// Writes the counters, up to `room` of them. Returns how many there are.
///
/// # Safety
/// `places` is writable for `room` counters.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_counters(vm: &Vm, places: *mut Counter, room: usize) -> usize {
    // SAFETY: the C half calls this inside the VM (`baton.h`).
    let vm = &unsafe { Inside::assume(vm) };
    let counters = counters(vm);
    for (index, (name, count)) in counters.iter().take(room).enumerate() {
        let (value, is_time) = match *count {
            // Races between native threads are not a part of a simulated run.
            Count::Number(_) if vm.is_simulated() && OF_THREADS.contains(name) => (0, 0),
            Count::Number(number) => (number, 0),
            Count::Time(time) => (u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), 1),
        };
        let counter = Counter {
            name: name.as_ptr(),
            value,
            is_time,
        };
        // SAFETY: the caller's condition, as `index` is below `room`.
        unsafe { places.add(index).write(counter) };
    }
    counters.len()
}

fn named(text: &str) -> *const c_char {
    match text {
        "madvise" => c"madvise",
        "mprotect" => c"mprotect",
        "epoll_pwait2" => c"epoll_pwait2",
        "timerfd" => c"timerfd",
        "polling" => c"polling",
        "CLOCK_MONOTONIC" => c"CLOCK_MONOTONIC",
        "simulated" => c"simulated",
        "x86_64" => c"x86_64",
        "aarch64" => c"aarch64",
        _ => c"unknown",
    }
    .as_ptr()
}

/// Feature `index`: a text, or a flag if `text` becomes null. Returns null after the last one.
///
/// # Safety
/// `text` and `flag` are writable.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_feature(
    index: usize,
    text: *mut *const c_char,
    flag: *mut c_int,
) -> *const c_char {
    let offered = features();
    let table: [(&'static CStr, Result<bool, &str>); 6] = [
        (c"membarrier", Ok(offered.membarrier)),
        (c"guard_pages", Err(offered.guard_pages)),
        (c"poller", Err(offered.poller)),
        (c"clock", Err(offered.clock)),
        (c"architecture", Err(offered.architecture)),
        (c"preemption", Ok(true)),
    ];
    let Some((name, value)) = table.get(index) else {
        return ptr::null();
    };
    // SAFETY: the caller's condition.
    unsafe {
        match value {
            Ok(on) => {
                text.write(ptr::null());
                flag.write((*on).into());
            }
            Err(word) => text.write(named(word)),
        }
    }
    name.as_ptr()
}
