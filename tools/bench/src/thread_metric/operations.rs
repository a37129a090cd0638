//! Repeats one operation of the runtime, so that its instructions can be counted: `baton-bench
//! operation NAME TIMES`.
//!
//! Some operations can be repeated for ever, such as two processes that yield to each other. One
//! that leaves a process waiting cannot, unless another process wakes it. So each of many processes
//! performs it once. The cost of the operation is what this takes beyond a yield in its place.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Result, bail};
use baton_core::sched::{Priority, SemaphoreId, SpawnOptions};

use super::calls;
use crate::lab::{Lab, Process};

/// An operation that a process performs once, with a semaphore that is never signalled.
type Once = fn(&Process, SemaphoreId);

/// Runs the operation `times` times.
pub(crate) fn run(name: &str, times: u64) -> Result<()> {
    match name {
        "switch" => super::runtime::switch_stacks(times)?,
        "yield" => yields(times)?,
        "hand-off" => hand_off(times)?,
        "preemption" => preemption(times)?,
        "once-yield" => once(times, false, |process, _| calls::yield_now(process))?,
        "once-suspend" => once(times, false, |process, _| calls::suspend_self(process))?,
        "once-suspend-in-general" => once(times, true, |process, _| calls::suspend_self(process))?,
        "once-wait" => once(times, false, calls::semaphore_wait)?,
        _ => bail!("no such operation: {name}"),
    }
    Ok(())
}

/// Two semaphores, which exist when the processes of an operation run.
type Semaphores = Arc<OnceLock<[SemaphoreId; 2]>>;

/// Runs a VM with the processes that `add` spawns. A process that is more urgent than all others
/// makes the semaphores, and waits until the monitor is at work, as it is when processes run for
/// some time. From then on the runtime gets the time from the monitor, and not from the system.
fn in_a_lab(add: impl FnOnce(&Lab, Semaphores) -> Result<()>) -> Result<()> {
    let lab = Lab::new()?;
    let semaphores = Semaphores::default();
    let made = Arc::clone(&semaphores);
    lab.spawn(80, false, move |process| {
        let _ = made.set([0, 0].map(|count| process.vm.sched(|sched| sched.semaphore_new(count))));
        std::thread::sleep(Duration::from_millis(50));
    })?;
    add(&lab, semaphores)?;
    lab.vm.run();
    Ok(())
}

/// Two processes yield to each other.
fn yields(times: u64) -> Result<()> {
    in_a_lab(|lab, _| {
        let left = Arc::new(AtomicU64::new(times));
        for _ in 0..2 {
            let left = Arc::clone(&left);
            lab.spawn(40, false, move |process| {
                until_none_is_left(process, &left, || calls::yield_now(process))
            })?;
        }
        Ok(())
    })
}

/// Repeats `step` until none is left. The process that takes the last one stops the VM.
fn until_none_is_left(process: &Process, left: &AtomicU64, mut step: impl FnMut()) {
    // Relaxed: all of this runs on one thread.
    while left.load(Ordering::Relaxed) > 0 {
        left.store(left.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
        step();
        process.checkpoint();
    }
    process.vm.stop();
}

/// Two processes wake each other through two semaphores, and wait for their own.
fn hand_off(times: u64) -> Result<()> {
    in_a_lab(|lab, semaphores| {
        let left = Arc::new(AtomicU64::new(times));
        for number in 0..2 {
            let (left, semaphores) = (Arc::clone(&left), Arc::clone(&semaphores));
            lab.spawn(40, false, move |process| {
                let semaphores = semaphores.wait();
                until_none_is_left(process, &left, || {
                    calls::semaphore_signal(process, semaphores[1 - number]);
                    calls::semaphore_wait(process, semaphores[number]);
                });
            })?;
        }
        Ok(())
    })
}

/// A process resumes a more urgent one, which runs at once and suspends itself.
fn preemption(times: u64) -> Result<()> {
    in_a_lab(|lab, _| {
        let urgent = lab.spawn(60, true, |process| {
            loop {
                calls::suspend_self(process);
            }
        })?;
        let left = Arc::new(AtomicU64::new(times));
        lab.spawn(40, false, move |process| {
            until_none_is_left(process, &left, || calls::resume(process, urgent));
        })?;
        Ok(())
    })
}

/// `times` processes run one after another, and each performs the operation once. One more process
/// stops the VM before any of them continues. With `turns`, every second process is not
/// preemptible, so that the scheduler has more to decide.
fn once(times: u64, turns: bool, operation: Once) -> Result<()> {
    in_a_lab(|lab, semaphores| {
        for number in 0..times {
            let options = SpawnOptions {
                priority: Priority::DEFAULT,
                preemptible: !turns || number % 2 == 0,
                ..SpawnOptions::default()
            };
            let semaphores = Arc::clone(&semaphores);
            lab.spawn_with(options, move |process| {
                operation(process, semaphores.wait()[0])
            })?;
        }
        lab.spawn(Priority::DEFAULT.get(), false, |process| process.vm.stop())?;
        Ok(())
    })
}
