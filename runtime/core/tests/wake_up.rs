//! Wake-ups of the monitor by the owner. One test per program: the monitor serves all VMs of a
//! program, and its wake-ups are counted.

mod mock_guest;

use baton_core::sched::{Priority, SpawnOptions};
use baton_sys::clock::Instant;
use baton_sys::poller::WakeUpTimer;
use mock_guest::{Life, Process, run};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often the monitor's thread has gone to sleep; `None` until the thread has its name.
fn sleeps_of_monitor() -> Option<u64> {
    let tasks = std::fs::read_dir("/proc/self/task").expect("the system lists threads");
    let is_monitor = |status: &String| status.contains("baton-monitor");
    let status = tasks
        .flatten()
        .filter_map(|task| std::fs::read_to_string(task.path().join("status")).ok())
        .find(is_monitor)?;
    let mut lines = status.lines();
    let count = lines.find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    count?.trim().parse().ok()
}

/// A process that a timer wakes, and that soon waits for the next one, does not need the monitor.
/// Once the monitor was woken each time and ticked for a while: a timer of 1 kHz cost as much for
/// the monitor as for the process.
#[test]
fn timers_do_not_wake_the_monitor_but_long_runs_do() {
    run(|main| {
        // The monitor's thread starts with the first need.
        let two = [
            main.spawn(|process| process.yield_now()),
            main.spawn(|process| process.yield_now()),
        ];
        main.join_all(two)?;
        if WakeUpTimer::new().is_ok() {
            await_timers_without_a_wake_up(main)?;
        }
        outlast_a_deadline(main)
    });
}

/// On a loaded machine a process may run for longer than a moment, and then the monitor ticks. But
/// not always; before the fix it always did.
fn await_timers_without_a_wake_up(main: &Process) -> Life {
    const TRIALS: u32 = 2000;
    for _ in 0..TRIALS {
        let before = sleeps_of_monitor();
        main.sleep_until(Instant::now() + Duration::from_millis(1))?;
        if before.is_some() && sleeps_of_monitor() == before {
            return Ok(());
        }
    }
    panic!("the monitor woke up during each of {TRIALS} timers");
}

/// The monitor sleeps; a process computes beyond the deadline of a more urgent one.
fn outlast_a_deadline(main: &Process) -> Life {
    let urgent = SpawnOptions {
        priority: Priority::new(70).expect("a level of the scale"),
        ..SpawnOptions::default()
    };
    let has_run = Arc::new(AtomicBool::new(false));
    let of_sleeper = Arc::clone(&has_run);
    let sleeper = main.spawn_with(urgent, move |process| {
        process.sleep_until(Instant::now() + Duration::from_millis(3))?;
        // Release: pairs with the load below.
        of_sleeper.store(true, Ordering::Release);
        Ok(())
    });
    main.yield_now()?;
    // Acquire: pairs with the store above.
    main.spin_until(|| has_run.load(Ordering::Acquire))?;
    main.join(sleeper)
}
