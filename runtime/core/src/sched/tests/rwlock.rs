//! Locks for readers and writers.

use super::invariants::check;
use super::*;
use crate::sched::{Blocker, NotOwner, Recursive, RwLockId};

fn read(sched: &mut Scheduler<()>, lock: RwLockId) -> WakeReason {
    reason(
        sched
            .rwlock_read(lock, Deadline::Never)
            .expect("not inside"),
    )
}

fn write(sched: &mut Scheduler<()>, lock: RwLockId) -> WakeReason {
    reason(
        sched
            .rwlock_write(lock, Deadline::Never)
            .expect("not inside"),
    )
}

/// A process of this level that reads.
fn reader(sched: &mut Scheduler<()>, level: u8, lock: RwLockId) -> ProcessId {
    let pid = spawn_at(sched, level);
    run(sched, pid);
    assert_eq!(read(sched, lock), WakeReason::Done);
    pid
}

/// A process of this level that writes.
fn writer(sched: &mut Scheduler<()>, level: u8, lock: RwLockId) -> ProcessId {
    let pid = spawn_at(sched, level);
    run(sched, pid);
    assert_eq!(write(sched, lock), WakeReason::Done);
    pid
}

fn waiting_reader(sched: &mut Scheduler<()>, level: u8, lock: RwLockId) -> ProcessId {
    let pid = spawn_at(sched, level);
    run(sched, pid);
    assert_eq!(
        sched.rwlock_read(lock, Deadline::Never),
        Ok(Attempt::Blocked)
    );
    check(sched);
    pid
}

fn waiting_writer(sched: &mut Scheduler<()>, level: u8, lock: RwLockId) -> ProcessId {
    let pid = spawn_at(sched, level);
    run(sched, pid);
    assert_eq!(
        sched.rwlock_write(lock, Deadline::Never),
        Ok(Attempt::Blocked)
    );
    check(sched);
    pid
}

fn unlock(sched: &mut Scheduler<()>, pid: ProcessId, lock: RwLockId) {
    run(sched, pid);
    assert_eq!(sched.rwlock_unlock(lock), Ok(()));
    check(sched);
}

fn level(sched: &Scheduler<()>, pid: ProcessId) -> u8 {
    sched.effective_priority(pid).get()
}

#[test]
fn readers_are_inside_together_and_a_writer_alone() {
    let mut sched = sched();
    let lock = sched.rwlock_new();
    let [a, b] = [0; 2].map(|_| reader(&mut sched, 40, lock));
    assert_eq!(sched.rwlock_holders(lock), (2, false));
    let w = waiting_writer(&mut sched, 40, lock);
    assert_eq!(sched.blocker(w), Some(Blocker::Write(lock)));
    unlock(&mut sched, a, lock);
    unlock(&mut sched, b, lock);
    assert_eq!(sched.rwlock_holders(lock), (1, true));
    assert_eq!(resume_with(&mut sched, w).reason, WakeReason::Done);
    let r = waiting_reader(&mut sched, 40, lock);
    assert_eq!(sched.blocker(r), Some(Blocker::Read(lock)));
    unlock(&mut sched, w, lock);
    assert_eq!(sched.rwlock_holders(lock), (1, false));
}

#[test]
fn a_waiting_writer_keeps_later_readers_out_and_is_not_starved() {
    let mut sched = sched();
    let lock = sched.rwlock_new();
    let a = reader(&mut sched, 40, lock);
    let w = waiting_writer(&mut sched, 40, lock);
    let late = [0; 2].map(|_| waiting_reader(&mut sched, 40, lock));
    unlock(&mut sched, a, lock);
    assert_eq!(resume_with(&mut sched, w).reason, WakeReason::Done);
    assert_eq!(sched.rwlock_holders(lock), (1, true));
    unlock(&mut sched, w, lock);
    assert_eq!(sched.rwlock_holders(lock), (2, false));
    for pid in late {
        assert_eq!(resume_with(&mut sched, pid).reason, WakeReason::Done);
    }
}

#[test]
fn a_more_urgent_reader_passes_a_writer_that_waits() {
    let mut sched = sched();
    let lock = sched.rwlock_new();
    reader(&mut sched, 40, lock);
    waiting_writer(&mut sched, 40, lock);
    reader(&mut sched, 41, lock);
    assert_eq!(sched.rwlock_holders(lock), (2, false));
}

#[test]
fn a_lock_is_not_recursive_and_only_a_holder_unlocks_it() {
    let mut sched = sched();
    let lock = sched.rwlock_new();
    spawn_running(&mut sched);
    assert_eq!(sched.rwlock_unlock(lock), Err(NotOwner));
    assert_eq!(read(&mut sched, lock), WakeReason::Done);
    assert_eq!(sched.rwlock_read(lock, Deadline::Never), Err(Recursive));
    assert_eq!(sched.rwlock_write(lock, Deadline::Now), Err(Recursive));
    spawn_running(&mut sched);
    assert_eq!(sched.rwlock_unlock(lock), Err(NotOwner));
    sched.relinquish_current();
    assert_eq!(sched.rwlock_unlock(lock), Err(NotOwner));
}

#[test]
fn readers_behind_a_writer_that_gives_up_go_in() {
    let mut sched = sched();
    let lock = sched.rwlock_new();
    reader(&mut sched, 40, lock);
    let w = spawn_running(&mut sched);
    assert_eq!(sched.rwlock_write(lock, until(5)), Ok(Attempt::Blocked));
    let r = waiting_reader(&mut sched, 40, lock);
    sched.expire(at(5));
    check(&sched);
    assert_eq!(resume_with(&mut sched, w).reason, WakeReason::TimedOut);
    assert_eq!(resume_with(&mut sched, r).reason, WakeReason::Done);
    assert_eq!(sched.rwlock_holders(lock), (2, false));
}

#[test]
fn a_reader_that_becomes_more_urgent_than_the_writer_before_it_goes_in() {
    let mut sched = sched();
    let lock = sched.rwlock_new();
    reader(&mut sched, 40, lock);
    waiting_writer(&mut sched, 40, lock);
    let r = waiting_reader(&mut sched, 40, lock);
    assert!(sched.set_priority(r, priority(41)));
    check(&sched);
    assert_eq!(resume_with(&mut sched, r).reason, WakeReason::Done);
}

#[test]
fn all_holders_inherit_from_the_waiters() {
    let mut sched = sched();
    let lock = sched.rwlock_new();
    let [a, b] = [10, 20].map(|level| reader(&mut sched, level, lock));
    let w = waiting_writer(&mut sched, 60, lock);
    assert_eq!([a, b].map(|pid| level(&sched, pid)), [60, 60]);
    unlock(&mut sched, a, lock);
    assert_eq!([a, b].map(|pid| level(&sched, pid)), [10, 60]);
    let _ = sched.kill(w);
    assert_eq!([a, b].map(|pid| level(&sched, pid)), [10, 20]);
}

#[test]
fn a_priority_is_inherited_through_locks_and_mutexes() {
    let mut sched = sched();
    let [first, second] = [0; 2].map(|_| sched.rwlock_new());
    let mutex = sched.mutex_new();
    let a = reader(&mut sched, 10, first);
    let b = writer(&mut sched, 20, second);
    assert_eq!(
        sched.rwlock_write(first, Deadline::Never),
        Ok(Attempt::Blocked)
    );
    let c = spawn_at(&mut sched, 30);
    run(&mut sched, c);
    assert_eq!(
        reason(sched.mutex_lock(mutex, Deadline::Never).expect("free")),
        WakeReason::Done
    );
    assert_eq!(
        sched.rwlock_read(second, Deadline::Never),
        Ok(Attempt::Blocked)
    );
    let urgent = spawn_at(&mut sched, 60);
    run(&mut sched, urgent);
    assert_eq!(sched.mutex_lock(mutex, until(5)), Ok(Attempt::Blocked));
    check(&sched);
    assert_eq!([a, b, c].map(|pid| level(&sched, pid)), [60, 60, 60]);
    assert!(sched.set_priority(c, priority(70)));
    assert_eq!([a, b, c].map(|pid| level(&sched, pid)), [70, 70, 70]);
    assert!(sched.set_priority(c, priority(30)));
    sched.expire(at(5));
    check(&sched);
    assert_eq!([a, b, c].map(|pid| level(&sched, pid)), [30, 30, 30]);
}

#[test]
fn a_lock_is_abandoned_until_the_next_writer_has_locked_it() {
    let mut sched = sched();
    let lock = sched.rwlock_new();
    let w = writer(&mut sched, 40, lock);
    let r = waiting_reader(&mut sched, 40, lock);
    end(&mut sched, w);
    check(&sched);
    assert_eq!(resume_with(&mut sched, r).reason, WakeReason::Abandoned);
    let other = spawn_running(&mut sched);
    assert_eq!(read(&mut sched, lock), WakeReason::Abandoned);
    unlock(&mut sched, other, lock);
    unlock(&mut sched, r, lock);
    assert_eq!(write(&mut sched, lock), WakeReason::Abandoned);
    unlock(&mut sched, r, lock);
    assert_eq!(write(&mut sched, lock), WakeReason::Done);
}

#[test]
fn a_reader_that_dies_leaves_the_lock_as_it_was() {
    let mut sched = sched();
    let lock = sched.rwlock_new();
    let r = reader(&mut sched, 40, lock);
    let w = waiting_writer(&mut sched, 40, lock);
    end(&mut sched, r);
    check(&sched);
    assert_eq!(resume_with(&mut sched, w).reason, WakeReason::Done);
}

#[test]
fn a_freed_lock_is_closed_for_its_waiters() {
    let mut sched = sched();
    let lock = sched.rwlock_new();
    let a = reader(&mut sched, 10, lock);
    let w = waiting_writer(&mut sched, 60, lock);
    assert!(sched.rwlock_free(lock));
    assert!(!sched.rwlock_free(lock));
    check(&sched);
    assert_eq!(level(&sched, a), 10);
    assert_eq!(resume_with(&mut sched, w).reason, WakeReason::Closed);
    assert_eq!(read(&mut sched, lock), WakeReason::Closed);
    assert_eq!(sched.rwlock_unlock(lock), Err(NotOwner));
    assert_eq!(sched.rwlock_holders(lock), (0, false));
}

#[test]
fn a_lock_that_must_not_wait_does_not() {
    let mut sched = sched();
    let lock = sched.rwlock_new();
    let a = writer(&mut sched, 40, lock);
    spawn_running(&mut sched);
    assert_eq!(
        reason(sched.rwlock_read(lock, Deadline::Now).expect("not inside")),
        WakeReason::TimedOut
    );
    sched.enter_critical();
    assert_eq!(read(&mut sched, lock), WakeReason::Forbidden);
    sched.leave_critical().expect("it is inside");
    check(&sched);
    unlock(&mut sched, a, lock);
    assert_eq!(sched.rwlock_holders(lock), (0, false));
}

#[test]
fn a_long_chain_of_locks_passes_a_priority_on() {
    let count = length(50_000, 5);
    let mut sched = Scheduler::new(count + 10);
    let mut last = sched.rwlock_new();
    let first = reader(&mut sched, 10, last);
    for _ in 0..count {
        let next = sched.rwlock_new();
        writer(&mut sched, 10, next);
        assert_eq!(
            sched.rwlock_write(last, Deadline::Never),
            Ok(Attempt::Blocked)
        );
        last = next;
    }
    let urgent = spawn_at(&mut sched, 60);
    run(&mut sched, urgent);
    assert_eq!(sched.rwlock_read(last, until(5)), Ok(Attempt::Blocked));
    assert_eq!(level(&sched, first), 60);
    sched.expire(at(5));
    assert_eq!(level(&sched, first), 10);
}
