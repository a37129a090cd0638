//! Between two stints of a host's loop nothing polls. A program of its own, as other tests use the
//! monitor.
#![cfg(all(target_os = "linux", not(loom)))]

mod mock_guest;

use baton_core::sched::{Deadline, SemaphoreId};
use baton_core::vm::StintEnd;
use baton_sys::clock::Instant;
use mock_guest::{Finished, hosted, thread_named};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How often the monitor's thread has waited.
fn waits_of_monitor() -> u64 {
    let monitor = thread_named("baton-monitor").expect("it was alerted");
    let status = std::fs::read_to_string(monitor.join("status")).expect("a thread has a status");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    let count = line.and_then(|count| count.trim().parse().ok());
    count.expect("the system counts a thread's waits")
}

/// Guards against polls each 50 us: between two stints the owner has not come, as after a grant.
#[test]
fn between_two_stints_the_monitor_rests_even_after_a_post() {
    let semaphore = Arc::new(AtomicU64::new(0));
    let known = Arc::clone(&semaphore);
    let Finished { vm, .. } = hosted(
        |_| {},
        move |main| {
            let semaphore = main.vm.sched(|sched| sched.semaphore_new(0));
            known.store(semaphore.to_bits(), Ordering::Release);
            main.wait(|sched| sched.semaphore_wait(semaphore, Deadline::Never))?;
            Ok(())
        },
    );
    assert_eq!(vm.run_until(Instant::FAR_FUTURE), Ok(StintEnd::Idle(None)));
    let semaphore = SemaphoreId::from_bits(semaphore.load(Ordering::Acquire)).expect("it exists");
    vm.signal_from_outside(semaphore);
    vm.signal_from_outside(semaphore); // finds the owner notified, and alerts the monitor
    std::thread::sleep(Duration::from_millis(50));
    let before = waits_of_monitor();
    std::thread::sleep(Duration::from_millis(200));
    let polls = waits_of_monitor() - before;
    assert!(polls < 10, "{polls} polls while no process can run");
    assert_eq!(vm.run_until(Instant::FAR_FUTURE), Ok(StintEnd::Ended));
}
