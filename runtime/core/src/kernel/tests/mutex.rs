//! Mutexes.

use super::*;
use crate::kernel::{Blocker, MutexId, NotOwner, Recursive, State};

/// A process that waits for `mutex`.
fn waiting(kernel: &mut Kernel<()>, mutex: MutexId) -> ProcessId {
    let pid = spawn_running(kernel);
    assert_eq!(kernel.mutex_lock(mutex, Deadline::Never), Ok(Attempt::Blocked));
    pid
}

fn lock(kernel: &mut Kernel<()>, mutex: MutexId) -> WakeReason {
    reason(kernel.mutex_lock(mutex, Deadline::Never).expect("not recursive"))
}

#[test]
fn a_free_mutex_is_locked_at_once() {
    let mut kernel = kernel();
    let mutex = kernel.mutex_new();
    let a = spawn_running(&mut kernel);
    assert_eq!(kernel.mutex_owner(mutex), None);
    assert_eq!(lock(&mut kernel, mutex), WakeReason::Done);
    assert_eq!(kernel.mutex_owner(mutex), Some(a));
    assert_eq!(kernel.mutex_unlock(mutex), Ok(()));
    assert_eq!(kernel.mutex_owner(mutex), None);
}

#[test]
fn locking_twice_is_refused() {
    let mut kernel = kernel();
    let mutex = kernel.mutex_new();
    spawn_running(&mut kernel);
    assert_eq!(lock(&mut kernel, mutex), WakeReason::Done);
    assert_eq!(kernel.mutex_lock(mutex, Deadline::Never), Err(Recursive));
}

#[test]
fn only_the_owner_unlocks() {
    let mut kernel = kernel();
    let mutex = kernel.mutex_new();
    spawn_running(&mut kernel);
    assert_eq!(kernel.mutex_unlock(mutex), Err(NotOwner));
    assert_eq!(lock(&mut kernel, mutex), WakeReason::Done);
    spawn_running(&mut kernel);
    assert_eq!(kernel.mutex_unlock(mutex), Err(NotOwner));
    kernel.relinquish_current();
    assert_eq!(kernel.mutex_unlock(mutex), Err(NotOwner));
}

#[test]
fn an_unlock_hands_the_mutex_to_the_first_who_waits() {
    let mut kernel = kernel();
    let mutex = kernel.mutex_new();
    let a = spawn_running(&mut kernel);
    assert_eq!(lock(&mut kernel, mutex), WakeReason::Done);
    let b = waiting(&mut kernel, mutex);
    let c = waiting(&mut kernel, mutex);
    assert_eq!(kernel.blocker(c), Some(Blocker::Mutex(mutex)));
    run(&mut kernel, a);
    assert_eq!(kernel.mutex_unlock(mutex), Ok(()));
    assert_eq!(kernel.mutex_owner(mutex), Some(b));
    assert_eq!(kernel.state(c), State::Waiting);
    assert_eq!(resume_with(&mut kernel, b).reason, WakeReason::Done);
    assert_eq!(kernel.mutex_unlock(mutex), Ok(()));
    assert_eq!(kernel.mutex_owner(mutex), Some(c));
}

#[test]
fn a_lock_times_out() {
    let mut kernel = kernel();
    let mutex = kernel.mutex_new();
    let a = spawn_running(&mut kernel);
    assert_eq!(lock(&mut kernel, mutex), WakeReason::Done);
    let b = spawn_running(&mut kernel);
    let attempt = kernel.mutex_lock(mutex, Deadline::Now).unwrap();
    assert_eq!(reason(attempt), WakeReason::TimedOut);
    assert_eq!(kernel.mutex_lock(mutex, until(5)), Ok(Attempt::Blocked));
    kernel.expire(at(5));
    assert_eq!(resume_with(&mut kernel, b).reason, WakeReason::TimedOut);
    run(&mut kernel, a);
    assert_eq!(kernel.mutex_unlock(mutex), Ok(()));
    assert_eq!(kernel.mutex_owner(mutex), None);
}

#[test]
fn the_next_owner_is_told_that_the_last_one_died() {
    let mut kernel = kernel();
    let [held, free] = [0; 2].map(|_| kernel.mutex_new());
    let a = spawn_running(&mut kernel);
    assert_eq!(lock(&mut kernel, held), WakeReason::Done);
    assert_eq!(lock(&mut kernel, free), WakeReason::Done);
    let b = waiting(&mut kernel, held);
    end(&mut kernel, a);
    assert_eq!(resume_with(&mut kernel, b).reason, WakeReason::Abandoned);
    assert_eq!(kernel.mutex_owner(held), Some(b));
    assert_eq!(kernel.mutex_owner(free), None);
    assert_eq!(lock(&mut kernel, free), WakeReason::Abandoned);
    assert_eq!(kernel.mutex_unlock(free), Ok(()));
    assert_eq!(lock(&mut kernel, free), WakeReason::Done, "it is told once");
}

#[test]
fn mutexes_held_together_are_unlocked_in_any_order() {
    let mut kernel = kernel();
    let mutexes = [0; 4].map(|_| kernel.mutex_new());
    let a = spawn_running(&mut kernel);
    for mutex in mutexes {
        assert_eq!(lock(&mut kernel, mutex), WakeReason::Done);
    }
    for turn in [1, 3, 0] {
        assert_eq!(kernel.mutex_unlock(mutexes[turn]), Ok(()));
    }
    assert_eq!(kernel.mutex_owner(mutexes[2]), Some(a));
    end(&mut kernel, a);
    spawn_running(&mut kernel);
    let reasons = mutexes.map(|mutex| lock(&mut kernel, mutex));
    let done = WakeReason::Done;
    assert_eq!(reasons, [done, done, WakeReason::Abandoned, done]);
}

#[test]
fn a_freed_mutex_is_closed_for_those_who_wait_and_owned_by_nobody() {
    let mut kernel = kernel();
    let mutex = kernel.mutex_new();
    let a = spawn_running(&mut kernel);
    assert_eq!(lock(&mut kernel, mutex), WakeReason::Done);
    let b = waiting(&mut kernel, mutex);
    assert!(kernel.mutex_free(mutex));
    assert!(!kernel.mutex_free(mutex));
    assert_eq!(resume_with(&mut kernel, b).reason, WakeReason::Closed);
    assert_eq!(lock(&mut kernel, mutex), WakeReason::Closed);
    run(&mut kernel, a);
    assert_eq!(kernel.mutex_unlock(mutex), Err(NotOwner));
    end(&mut kernel, a);
}
