//! Tests of the scheduler: one file for each of its objects, and random operations on all of them.

mod barrier;
mod carriers;
mod channel;
mod condition;
mod critical;
mod cycles;
mod deadlines;
mod decay;
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
mod rings;
mod rwlock;
mod scheduling;
mod select;
mod semaphore;
mod shared;
mod starvation;
mod suspend;
mod timer;
mod twins;
mod waiters;
mod waking;

use baton_sys::clock::Instant;

use super::{
    Attempt, Deadline, FirstLook, Next, Priority, ProcessId, Scheduler, SpawnOptions, Wake,
    WakeReason,
};

/// The length of a long test. Miri is about a thousand times slower, and gets a length of its own.
fn length(usual: u32, with_miri: u32) -> u32 {
    if cfg!(miri) { with_miri } else { usual }
}

/// A scheduler without payloads.
fn sched() -> Scheduler<()> {
    Scheduler::new(1000)
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

fn spawn(sched: &mut Scheduler<()>) -> ProcessId {
    sched
        .spawn(SpawnOptions::default(), ())
        .expect("the limit is far")
}

fn spawn_at(sched: &mut Scheduler<()>, level: u8) -> ProcessId {
    let options = SpawnOptions {
        priority: priority(level),
        ..SpawnOptions::default()
    };
    sched.spawn(options, ()).expect("the limit is far")
}

/// Spawns a process and makes it current.
fn spawn_running(sched: &mut Scheduler<()>) -> ProcessId {
    let pid = spawn(sched);
    run(sched, pid);
    pid
}

/// Makes a runnable process current, whatever the priorities.
fn run(sched: &mut Scheduler<()>, pid: ProcessId) {
    let _ = sched.switch_to(pid);
    assert_eq!(sched.current(), Some(pid), "the process is not runnable");
}

/// Runs `pid` and ends it.
fn end(sched: &mut Scheduler<()>, pid: ProcessId) {
    run(sched, pid);
    assert_eq!(sched.exit_current(), Some(pid));
}

/// The processes in the order in which they would run if each ended at once.
fn order_of_ends(sched: &mut Scheduler<()>) -> Vec<ProcessId> {
    let mut order = Vec::new();
    loop {
        if sched.schedule() == Next::Nothing {
            return order;
        }
        order.extend(sched.exit_current());
    }
}

#[track_caller]
fn assert_blocked(attempt: Attempt) {
    assert_eq!(attempt, Attempt::Blocked);
}

/// The value with which an operation was done at the first look.
fn done(look: FirstLook) -> Option<u64> {
    match look {
        FirstLook::Done(value) => Some(value),
        _ => None,
    }
}

#[track_caller]
fn assert_unclear(look: FirstLook, why: &str) {
    assert!(matches!(look, FirstLook::Unclear), "{why}: {look:?}");
}

#[track_caller]
fn reason(attempt: Attempt) -> WakeReason {
    match attempt {
        Attempt::Ready(wake) => wake.reason,
        Attempt::Blocked => panic!("the process was put to wait"),
    }
}

/// Makes a woken process current, and returns how its wait ended.
#[track_caller]
fn resume_with(sched: &mut Scheduler<()>, pid: ProcessId) -> Wake {
    run(sched, pid);
    sched.take_wake(pid)
}
