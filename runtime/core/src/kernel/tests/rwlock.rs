//! Locks for readers and writers.

use super::invariants::check;
use super::*;
use crate::kernel::{Blocker, NotOwner, Recursive, RwLockId};

fn read(kernel: &mut Kernel<()>, lock: RwLockId) -> WakeReason {
    reason(kernel.rwlock_read(lock, Deadline::Never).expect("not inside"))
}

fn write(kernel: &mut Kernel<()>, lock: RwLockId) -> WakeReason {
    reason(kernel.rwlock_write(lock, Deadline::Never).expect("not inside"))
}

/// A process of this level that reads.
fn reader(kernel: &mut Kernel<()>, level: u8, lock: RwLockId) -> ProcessId {
    let pid = spawn_at(kernel, level);
    run(kernel, pid);
    assert_eq!(read(kernel, lock), WakeReason::Done);
    pid
}

/// A process of this level that writes.
fn writer(kernel: &mut Kernel<()>, level: u8, lock: RwLockId) -> ProcessId {
    let pid = spawn_at(kernel, level);
    run(kernel, pid);
    assert_eq!(write(kernel, lock), WakeReason::Done);
    pid
}

fn waiting_reader(kernel: &mut Kernel<()>, level: u8, lock: RwLockId) -> ProcessId {
    let pid = spawn_at(kernel, level);
    run(kernel, pid);
    assert_eq!(kernel.rwlock_read(lock, Deadline::Never), Ok(Attempt::Blocked));
    check(kernel);
    pid
}

fn waiting_writer(kernel: &mut Kernel<()>, level: u8, lock: RwLockId) -> ProcessId {
    let pid = spawn_at(kernel, level);
    run(kernel, pid);
    assert_eq!(kernel.rwlock_write(lock, Deadline::Never), Ok(Attempt::Blocked));
    check(kernel);
    pid
}

fn unlock(kernel: &mut Kernel<()>, pid: ProcessId, lock: RwLockId) {
    run(kernel, pid);
    assert_eq!(kernel.rwlock_unlock(lock), Ok(()));
    check(kernel);
}

fn level(kernel: &Kernel<()>, pid: ProcessId) -> u8 {
    kernel.effective_priority(pid).get()
}

#[test]
fn readers_are_inside_together_and_a_writer_alone() {
    let mut kernel = kernel();
    let lock = kernel.rwlock_new();
    let [a, b] = [0; 2].map(|_| reader(&mut kernel, 40, lock));
    assert_eq!(kernel.rwlock_holders(lock), (2, false));
    let w = waiting_writer(&mut kernel, 40, lock);
    assert_eq!(kernel.blocker(w), Some(Blocker::Write(lock)));
    unlock(&mut kernel, a, lock);
    unlock(&mut kernel, b, lock);
    assert_eq!(kernel.rwlock_holders(lock), (1, true));
    assert_eq!(resume_with(&mut kernel, w).reason, WakeReason::Done);
    let r = waiting_reader(&mut kernel, 40, lock);
    assert_eq!(kernel.blocker(r), Some(Blocker::Read(lock)));
    unlock(&mut kernel, w, lock);
    assert_eq!(kernel.rwlock_holders(lock), (1, false));
}

#[test]
fn a_waiting_writer_keeps_later_readers_out_and_is_not_starved() {
    let mut kernel = kernel();
    let lock = kernel.rwlock_new();
    let a = reader(&mut kernel, 40, lock);
    let w = waiting_writer(&mut kernel, 40, lock);
    let late = [0; 2].map(|_| waiting_reader(&mut kernel, 40, lock));
    unlock(&mut kernel, a, lock);
    assert_eq!(resume_with(&mut kernel, w).reason, WakeReason::Done);
    assert_eq!(kernel.rwlock_holders(lock), (1, true));
    unlock(&mut kernel, w, lock);
    assert_eq!(kernel.rwlock_holders(lock), (2, false));
    for pid in late {
        assert_eq!(resume_with(&mut kernel, pid).reason, WakeReason::Done);
    }
}

#[test]
fn a_more_urgent_reader_passes_a_writer_that_waits() {
    let mut kernel = kernel();
    let lock = kernel.rwlock_new();
    reader(&mut kernel, 40, lock);
    waiting_writer(&mut kernel, 40, lock);
    reader(&mut kernel, 41, lock);
    assert_eq!(kernel.rwlock_holders(lock), (2, false));
}

#[test]
fn nobody_locks_twice_and_only_who_is_inside_unlocks() {
    let mut kernel = kernel();
    let lock = kernel.rwlock_new();
    spawn_running(&mut kernel);
    assert_eq!(kernel.rwlock_unlock(lock), Err(NotOwner));
    assert_eq!(read(&mut kernel, lock), WakeReason::Done);
    assert_eq!(kernel.rwlock_read(lock, Deadline::Never), Err(Recursive));
    assert_eq!(kernel.rwlock_write(lock, Deadline::Now), Err(Recursive));
    spawn_running(&mut kernel);
    assert_eq!(kernel.rwlock_unlock(lock), Err(NotOwner));
    kernel.relinquish_current();
    assert_eq!(kernel.rwlock_unlock(lock), Err(NotOwner));
}

#[test]
fn readers_behind_a_writer_that_gives_up_go_in() {
    let mut kernel = kernel();
    let lock = kernel.rwlock_new();
    reader(&mut kernel, 40, lock);
    let w = spawn_running(&mut kernel);
    assert_eq!(kernel.rwlock_write(lock, until(5)), Ok(Attempt::Blocked));
    let r = waiting_reader(&mut kernel, 40, lock);
    kernel.expire(at(5));
    check(&kernel);
    assert_eq!(resume_with(&mut kernel, w).reason, WakeReason::TimedOut);
    assert_eq!(resume_with(&mut kernel, r).reason, WakeReason::Done);
    assert_eq!(kernel.rwlock_holders(lock), (2, false));
}

#[test]
fn a_reader_that_becomes_more_urgent_than_the_writer_before_it_goes_in() {
    let mut kernel = kernel();
    let lock = kernel.rwlock_new();
    reader(&mut kernel, 40, lock);
    waiting_writer(&mut kernel, 40, lock);
    let r = waiting_reader(&mut kernel, 40, lock);
    assert!(kernel.set_priority(r, priority(41)));
    check(&kernel);
    assert_eq!(resume_with(&mut kernel, r).reason, WakeReason::Done);
}

#[test]
fn everybody_inside_inherits_from_those_who_wait() {
    let mut kernel = kernel();
    let lock = kernel.rwlock_new();
    let [a, b] = [10, 20].map(|level| reader(&mut kernel, level, lock));
    let w = waiting_writer(&mut kernel, 60, lock);
    assert_eq!([a, b].map(|pid| level(&kernel, pid)), [60, 60]);
    unlock(&mut kernel, a, lock);
    assert_eq!([a, b].map(|pid| level(&kernel, pid)), [10, 60]);
    let _ = kernel.kill(w);
    assert_eq!([a, b].map(|pid| level(&kernel, pid)), [10, 20]);
}

#[test]
fn a_priority_is_inherited_through_locks_and_mutexes() {
    let mut kernel = kernel();
    let [first, second] = [0; 2].map(|_| kernel.rwlock_new());
    let mutex = kernel.mutex_new();
    let a = reader(&mut kernel, 10, first);
    let b = writer(&mut kernel, 20, second);
    assert_eq!(kernel.rwlock_write(first, Deadline::Never), Ok(Attempt::Blocked));
    let c = spawn_at(&mut kernel, 30);
    run(&mut kernel, c);
    assert_eq!(
        reason(kernel.mutex_lock(mutex, Deadline::Never).expect("free")),
        WakeReason::Done
    );
    assert_eq!(kernel.rwlock_read(second, Deadline::Never), Ok(Attempt::Blocked));
    let urgent = spawn_at(&mut kernel, 60);
    run(&mut kernel, urgent);
    assert_eq!(kernel.mutex_lock(mutex, until(5)), Ok(Attempt::Blocked));
    check(&kernel);
    assert_eq!([a, b, c].map(|pid| level(&kernel, pid)), [60, 60, 60]);
    assert!(kernel.set_priority(c, priority(70)));
    assert_eq!([a, b, c].map(|pid| level(&kernel, pid)), [70, 70, 70]);
    assert!(kernel.set_priority(c, priority(30)));
    kernel.expire(at(5));
    check(&kernel);
    assert_eq!([a, b, c].map(|pid| level(&kernel, pid)), [30, 30, 30]);
}

#[test]
fn the_death_of_a_writer_is_told_until_another_one_has_been_inside() {
    let mut kernel = kernel();
    let lock = kernel.rwlock_new();
    let w = writer(&mut kernel, 40, lock);
    let r = waiting_reader(&mut kernel, 40, lock);
    end(&mut kernel, w);
    check(&kernel);
    assert_eq!(resume_with(&mut kernel, r).reason, WakeReason::Abandoned);
    let other = spawn_running(&mut kernel);
    assert_eq!(read(&mut kernel, lock), WakeReason::Abandoned);
    unlock(&mut kernel, other, lock);
    unlock(&mut kernel, r, lock);
    assert_eq!(write(&mut kernel, lock), WakeReason::Abandoned);
    unlock(&mut kernel, r, lock);
    assert_eq!(write(&mut kernel, lock), WakeReason::Done);
}

#[test]
fn a_reader_that_dies_leaves_the_lock_as_it_was() {
    let mut kernel = kernel();
    let lock = kernel.rwlock_new();
    let r = reader(&mut kernel, 40, lock);
    let w = waiting_writer(&mut kernel, 40, lock);
    end(&mut kernel, r);
    check(&kernel);
    assert_eq!(resume_with(&mut kernel, w).reason, WakeReason::Done);
}

#[test]
fn a_freed_lock_is_closed_for_those_who_wait() {
    let mut kernel = kernel();
    let lock = kernel.rwlock_new();
    let a = reader(&mut kernel, 10, lock);
    let w = waiting_writer(&mut kernel, 60, lock);
    assert!(kernel.rwlock_free(lock));
    assert!(!kernel.rwlock_free(lock));
    check(&kernel);
    assert_eq!(level(&kernel, a), 10);
    assert_eq!(resume_with(&mut kernel, w).reason, WakeReason::Closed);
    assert_eq!(read(&mut kernel, lock), WakeReason::Closed);
    assert_eq!(kernel.rwlock_unlock(lock), Err(NotOwner));
    assert_eq!(kernel.rwlock_holders(lock), (0, false));
}

#[test]
fn what_must_not_wait_does_not() {
    let mut kernel = kernel();
    let lock = kernel.rwlock_new();
    let a = writer(&mut kernel, 40, lock);
    spawn_running(&mut kernel);
    assert_eq!(
        reason(kernel.rwlock_read(lock, Deadline::Now).expect("not inside")),
        WakeReason::TimedOut
    );
    kernel.enter_critical();
    assert_eq!(read(&mut kernel, lock), WakeReason::Forbidden);
    kernel.leave_critical().expect("it is inside");
    check(&kernel);
    unlock(&mut kernel, a, lock);
    assert_eq!(kernel.rwlock_holders(lock), (0, false));
}

#[test]
fn a_long_chain_of_locks_passes_a_priority_on() {
    const LENGTH: u32 = 50_000;
    let mut kernel = Kernel::new(LENGTH + 10);
    let mut last = kernel.rwlock_new();
    let first = reader(&mut kernel, 10, last);
    for _ in 0..LENGTH {
        let next = kernel.rwlock_new();
        writer(&mut kernel, 10, next);
        assert_eq!(kernel.rwlock_write(last, Deadline::Never), Ok(Attempt::Blocked));
        last = next;
    }
    let urgent = spawn_at(&mut kernel, 60);
    run(&mut kernel, urgent);
    assert_eq!(kernel.rwlock_read(last, until(5)), Ok(Attempt::Blocked));
    assert_eq!(level(&kernel, first), 60);
    kernel.expire(at(5));
    assert_eq!(level(&kernel, first), 10);
}
