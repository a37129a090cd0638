//! When the owner calls the monitor. One test a program: the monitor serves all VMs of a program, and its wake-ups are counted.

mod mock_guest;

use baton_core::kernel::{Priority, SpawnOptions};
use baton_sys::clock::Instant;
use baton_sys::poller::Alarm;
use mock_guest::{Life, Process, run};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often the monitor's thread has gone to sleep.
fn sleeps_of_monitor() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").expect("the system lists threads");
    let is_monitor = |status: &String| status.contains("baton-monitor");
    let status = tasks
        .flatten()
        .filter_map(|task| std::fs::read_to_string(task.path().join("status")).ok())
        .find(is_monitor)
        .expect("the monitor has been started");
    let count = status
        .lines()
        .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    count
        .and_then(|count| count.trim().parse().ok())
        .expect("a thread has counts")
}

/// A process that a timer wakes, and that soon waits for the next one, is nothing for the monitor to look at. It once was woken each time, and ticked for a
/// while: a timer of a kilohertz cost more for the monitor than for the process.
#[test]
fn timers_do_not_wake_the_monitor_and_what_outlasts_a_moment_does() {
    const TIMERS: u64 = 300;
    run(|main| {
        // The monitor's thread starts with the first need.
        let two = [main.spawn(Process::yield_now), main.spawn(Process::yield_now)];
        main.join_all(two)?;
        main.sleep_until(Instant::now() + Duration::from_millis(100))?;
        if Alarm::new().is_ok() {
            let before = sleeps_of_monitor();
            for _ in 0..TIMERS {
                main.sleep_until(Instant::now() + Duration::from_millis(1))?;
            }
            // On a machine under load some last longer than their time.
            let woken = sleeps_of_monitor() - before;
            assert!(
                woken < TIMERS / 3,
                "the monitor slept {woken} times during {TIMERS} timers"
            );
        }
        outlast_a_deadline(main)
    });
}

/// The monitor sleeps; a process computes beyond the time at which a more urgent one is due.
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
