//! Mutexes.

use super::*;
use crate::sched::{Blocker, MutexId, NotOwner, Recursive, State};

/// A process that waits for `mutex`.
fn waiting(sched: &mut Scheduler<()>, mutex: MutexId) -> ProcessId {
    let pid = spawn_running(sched);
    assert_eq!(
        sched.mutex_lock(mutex, Deadline::Never),
        Ok(Attempt::Blocked)
    );
    pid
}

fn lock(sched: &mut Scheduler<()>, mutex: MutexId) -> WakeReason {
    reason(
        sched
            .mutex_lock(mutex, Deadline::Never)
            .expect("not recursive"),
    )
}

#[test]
fn a_free_mutex_is_locked_at_once() {
    let mut sched = sched();
    let mutex = sched.mutex_new();
    let a = spawn_running(&mut sched);
    assert_eq!(sched.mutex_owner(mutex), None);
    assert_eq!(lock(&mut sched, mutex), WakeReason::Done);
    assert_eq!(sched.mutex_owner(mutex), Some(a));
    assert_eq!(sched.mutex_unlock(mutex), Ok(()));
    assert_eq!(sched.mutex_owner(mutex), None);
}

#[test]
fn locking_twice_is_refused() {
    let mut sched = sched();
    let mutex = sched.mutex_new();
    spawn_running(&mut sched);
    assert_eq!(lock(&mut sched, mutex), WakeReason::Done);
    assert_eq!(sched.mutex_lock(mutex, Deadline::Never), Err(Recursive));
}

#[test]
fn only_the_owner_unlocks() {
    let mut sched = sched();
    let mutex = sched.mutex_new();
    spawn_running(&mut sched);
    assert_eq!(sched.mutex_unlock(mutex), Err(NotOwner));
    assert_eq!(lock(&mut sched, mutex), WakeReason::Done);
    spawn_running(&mut sched);
    assert_eq!(sched.mutex_unlock(mutex), Err(NotOwner));
    sched.relinquish_current();
    assert_eq!(sched.mutex_unlock(mutex), Err(NotOwner));
}

#[test]
fn an_unlock_hands_the_mutex_to_the_first_waiter() {
    let mut sched = sched();
    let mutex = sched.mutex_new();
    let a = spawn_running(&mut sched);
    assert_eq!(lock(&mut sched, mutex), WakeReason::Done);
    let b = waiting(&mut sched, mutex);
    let c = waiting(&mut sched, mutex);
    assert_eq!(sched.blocker(c), Some(Blocker::Mutex(mutex)));
    run(&mut sched, a);
    assert_eq!(sched.mutex_unlock(mutex), Ok(()));
    assert_eq!(sched.mutex_owner(mutex), Some(b));
    assert_eq!(sched.state(c), State::Waiting);
    assert_eq!(resume_with(&mut sched, b).reason, WakeReason::Done);
    assert_eq!(sched.mutex_unlock(mutex), Ok(()));
    assert_eq!(sched.mutex_owner(mutex), Some(c));
}

#[test]
fn a_lock_times_out() {
    let mut sched = sched();
    let mutex = sched.mutex_new();
    let a = spawn_running(&mut sched);
    assert_eq!(lock(&mut sched, mutex), WakeReason::Done);
    let b = spawn_running(&mut sched);
    let attempt = sched.mutex_lock(mutex, Deadline::Now).unwrap();
    assert_eq!(reason(attempt), WakeReason::TimedOut);
    assert_eq!(sched.mutex_lock(mutex, until(5)), Ok(Attempt::Blocked));
    sched.expire(at(5));
    assert_eq!(resume_with(&mut sched, b).reason, WakeReason::TimedOut);
    run(&mut sched, a);
    assert_eq!(sched.mutex_unlock(mutex), Ok(()));
    assert_eq!(sched.mutex_owner(mutex), None);
}

#[test]
fn the_next_owner_gets_abandoned_if_the_last_one_died() {
    let mut sched = sched();
    let [held, free] = [0; 2].map(|_| sched.mutex_new());
    let a = spawn_running(&mut sched);
    assert_eq!(lock(&mut sched, held), WakeReason::Done);
    assert_eq!(lock(&mut sched, free), WakeReason::Done);
    let b = waiting(&mut sched, held);
    end(&mut sched, a);
    assert_eq!(resume_with(&mut sched, b).reason, WakeReason::Abandoned);
    assert_eq!(sched.mutex_owner(held), Some(b));
    assert_eq!(sched.mutex_owner(free), None);
    assert_eq!(lock(&mut sched, free), WakeReason::Abandoned);
    assert_eq!(sched.mutex_unlock(free), Ok(()));
    assert_eq!(lock(&mut sched, free), WakeReason::Done, "it is told once");
}

#[test]
fn mutexes_held_together_are_unlocked_in_any_order() {
    let mut sched = sched();
    let mutexes = [0; 4].map(|_| sched.mutex_new());
    let a = spawn_running(&mut sched);
    for mutex in mutexes {
        assert_eq!(lock(&mut sched, mutex), WakeReason::Done);
    }
    for turn in [1, 3, 0] {
        assert_eq!(sched.mutex_unlock(mutexes[turn]), Ok(()));
    }
    assert_eq!(sched.mutex_owner(mutexes[2]), Some(a));
    end(&mut sched, a);
    spawn_running(&mut sched);
    let reasons = mutexes.map(|mutex| lock(&mut sched, mutex));
    let done = WakeReason::Done;
    assert_eq!(reasons, [done, done, WakeReason::Abandoned, done]);
}

#[test]
fn a_freed_mutex_is_closed_for_its_waiters_and_has_no_owner() {
    let mut sched = sched();
    let mutex = sched.mutex_new();
    let a = spawn_running(&mut sched);
    assert_eq!(lock(&mut sched, mutex), WakeReason::Done);
    let b = waiting(&mut sched, mutex);
    assert!(sched.mutex_free(mutex));
    assert!(!sched.mutex_free(mutex));
    assert_eq!(resume_with(&mut sched, b).reason, WakeReason::Closed);
    assert_eq!(lock(&mut sched, mutex), WakeReason::Closed);
    run(&mut sched, a);
    assert_eq!(sched.mutex_unlock(mutex), Err(NotOwner));
    end(&mut sched, a);
}
