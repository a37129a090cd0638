//! Tests of the kernel: one file for each of its objects, and random operations on all of them.

mod barrier;
mod carriers;
mod channel;
mod condition;
mod critical;
mod deadlines;
mod due_time;
mod event;
mod forking;
mod interrupt;
mod invariants;
mod join;
mod kill;
mod lifetime;
mod mutex;
mod priority;
mod queue;
mod random_numbers;
mod random_operations;
mod readiness;
mod rwlock;
mod scheduling;
mod select;
mod semaphore;
mod starvation;
mod suspend;
mod timer;
mod waiters;
mod waking;

use baton_sys::clock::Instant;

use super::{Attempt, Deadline, Kernel, Next, Priority, ProcessId, SpawnOptions, Wake, WakeReason};

/// A kernel whose payloads say nothing.
fn kernel() -> Kernel<()> {
    Kernel::new(1000)
}

fn priority(level: u8) -> Priority {
    Priority::new(level).expect("a level from 1 to 80")
}

fn at(nanoseconds: u64) -> Instant {
    Instant::from_nanos(nanoseconds)
}

fn until(nanoseconds: u64) -> Deadline {
    Deadline::At(at(nanoseconds))
}

fn spawn(kernel: &mut Kernel<()>) -> ProcessId {
    kernel.spawn(SpawnOptions::default(), ()).expect("the limit is far")
}

fn spawn_at(kernel: &mut Kernel<()>, level: u8) -> ProcessId {
    let options = SpawnOptions {
        priority: priority(level),
        ..SpawnOptions::default()
    };
    kernel.spawn(options, ()).expect("the limit is far")
}

/// Spawns a process and makes it current.
fn spawn_running(kernel: &mut Kernel<()>) -> ProcessId {
    let pid = spawn(kernel);
    run(kernel, pid);
    pid
}

/// Makes a runnable process current, whatever the priorities.
fn run(kernel: &mut Kernel<()>, pid: ProcessId) {
    let _ = kernel.switch_to(pid);
    assert_eq!(kernel.current(), Some(pid), "the process is not runnable");
}

/// Runs `pid` and ends it.
fn end(kernel: &mut Kernel<()>, pid: ProcessId) {
    run(kernel, pid);
    assert_eq!(kernel.exit_current(), Some(pid));
}

/// The processes in the order in which they would run if each ended at once.
fn order_of_ends(kernel: &mut Kernel<()>) -> Vec<ProcessId> {
    let mut order = Vec::new();
    loop {
        if kernel.schedule() == Next::Nothing {
            return order;
        }
        order.extend(kernel.exit_current());
    }
}

#[track_caller]
fn assert_blocked(attempt: Attempt) {
    assert_eq!(attempt, Attempt::Blocked);
}

#[track_caller]
fn reason(attempt: Attempt) -> WakeReason {
    match attempt {
        Attempt::Ready(wake) => wake.reason,
        Attempt::Blocked => panic!("the process was put to wait"),
    }
}

/// Makes a woken process current, and reads how its wait ended.
#[track_caller]
fn resume_with(kernel: &mut Kernel<()>, pid: ProcessId) -> Wake {
    run(kernel, pid);
    kernel.take_wake(pid)
}
