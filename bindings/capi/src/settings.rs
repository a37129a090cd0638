//! Counters and features, by their names.

use baton_core::counters::Counters;
use baton_core::sched::SchedCounters;
use baton_core::vm::{Inside, View, Vm};
use baton_sys::features::features;
use std::ffi::{CStr, c_char, c_int};
use std::ptr;
use std::time::Duration;

/// The value of a counter.
#[derive(Clone, Copy, Debug)]
pub enum Count {
    /// A number.
    Number(u64),
    /// A number that differs between two runs of one program, because native threads race.
    OfThreads(u64),
    /// A time.
    Time(Duration),
}

/// A counter: its name, and its value.
pub type NamedCount = (&'static CStr, Count);

/// All counters. `threads` is the number of native threads: the view cannot count them.
pub fn counters(view: &View<'_>, threads: usize) -> Vec<NamedCount> {
    let mut counters = of_scheduler(view);
    counters.extend(of_executor(view.vm()));
    counters.extend(of_spinning(view));
    counters.extend(present(view));
    counters.extend(of_threads([(c"threads", threads as u64)]));
    counters
}

fn numbers<const N: usize>(named: [(&'static CStr, u64); N]) -> Vec<NamedCount> {
    named.map(|(name, n)| (name, Count::Number(n))).to_vec()
}

fn of_threads<const N: usize>(named: [(&'static CStr, u64); N]) -> Vec<NamedCount> {
    named.map(|(name, n)| (name, Count::OfThreads(n))).to_vec()
}

/// The scheduler's counters. The pattern has all fields, so a new one does not compile until it is
/// named or left out here.
fn of_scheduler(view: &View<'_>) -> Vec<NamedCount> {
    let SchedCounters {
        switches,
        yields,
        preemptions_by_urgency,
        preemptions_by_slice,
        wakes,
        timeouts,
        sleeps: _,
        kills,
        kills_held,
        holds_cut,
        spawned,
        ended,
        timers_fired,
        timers_skipped,
        foreign_calls: _,
        kept_aside,
        priorities_inherited: _,
    } = *view.sched().counters();
    numbers([
        (c"switches", switches),
        (c"yields", yields),
        (c"preemptions_by_urgency", preemptions_by_urgency),
        (c"preemptions_by_slice", preemptions_by_slice),
        (c"wakes", wakes),
        (c"timeouts", timeouts),
        (c"kills", kills),
        (c"kills_held", kills_held),
        (c"holds_cut", holds_cut),
        (c"spawned", spawned),
        (c"ended", ended),
        (c"timers_fired", timers_fired),
        (c"timers_skipped", timers_skipped),
        (c"pinned_waits", kept_aside),
    ])
}

/// The executor's counters. The pattern has all fields, as in `of_scheduler`.
pub fn of_executor(vm: &Vm) -> Vec<NamedCount> {
    let Counters {
        beats,
        signals,
        retakes,
        gave_way_in_calls,
        moves,
        false_retakes,
        exclusive_calls,
        thread_bound_hits,
        idle_waits,
        handovers,
        homecomings: _,
        threads_started,
        thread_failures: _,
        threads_retired,
        descriptor_waits,
        descriptors_registered,
        monitor_alerts: _,
    } = &vm.counters;
    let mut counters = numbers([
        (c"beats", beats.get()),
        (c"signals", signals.get()),
        (c"retakes", retakes.get()),
        (c"gave_way_in_calls", gave_way_in_calls.get()),
        (c"moves", moves.get()),
        (c"false_retakes", false_retakes.get()),
        (c"exclusive_calls", exclusive_calls.get()),
        (c"thread_bound_hits", thread_bound_hits.get()),
        (c"idle_waits", idle_waits.get()),
        (c"descriptor_waits", descriptor_waits.get()),
        (c"descriptors_registered", descriptors_registered.get()),
    ]);
    counters.extend(of_threads([
        (c"handovers", handovers.get()),
        (c"threads_started", threads_started.get()),
        (c"threads_retired", threads_retired.get()),
    ]));
    counters
}

fn of_spinning(view: &View<'_>) -> Vec<NamedCount> {
    let spin = view.spin_tally();
    let mut counters = numbers([
        (c"spins_hit", spin.accuracy.true_positives),
        (c"spins_failed", spin.accuracy.false_positives),
        (c"parks_long", spin.accuracy.true_negatives),
        (c"parks_short", spin.accuracy.false_negatives),
    ]);
    counters.extend([
        (c"spin_time", Count::Time(spin.spun)),
        (c"spin_budget_left", Count::Time(spin.budget_left)),
        (c"park_cost", Count::Time(spin.park_cost)),
    ]);
    counters
}

/// How many processes and stacks there are now.
fn present(view: &View<'_>) -> Vec<NamedCount> {
    let (sched, stacks) = (view.sched(), view.stack_stats());
    numbers([
        (c"live", sched.live_count() as u64),
        (c"runnable", sched.runnable_count() as u64),
        (c"sleeping", sched.sleeping_count() as u64),
        (c"foreign", sched.foreign_count() as u64),
        (c"waiting_for_thread", sched.kept_aside_count() as u64),
        (c"threads_named", sched.named_count() as u64),
        (c"stacks_in_use", stacks.in_use as u64),
        (c"stacks_free", stacks.free as u64),
    ])
}

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
    let threads = vm.threads();
    let counters = vm.view(|view| counters(view, threads));
    for (index, (name, count)) in counters.iter().take(room).enumerate() {
        let (value, is_time) = match *count {
            // Races between native threads are not a part of a simulated run.
            Count::OfThreads(_) if vm.is_simulated() => (0, 0),
            Count::Number(number) | Count::OfThreads(number) => (number, 0),
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
