//! Priorities, given and inherited.

use super::*;
use crate::sched::{CarrierId, MutexId};

fn lock(sched: &mut Scheduler<()>, mutex: MutexId) -> Attempt {
    sched
        .mutex_lock(mutex, Deadline::Never)
        .expect("not recursive")
}

/// A process of this level that holds `mutex`.
fn owner(sched: &mut Scheduler<()>, level: u8, mutex: MutexId) -> ProcessId {
    let pid = spawn_at(sched, level);
    run(sched, pid);
    assert_eq!(reason(lock(sched, mutex)), WakeReason::Done);
    pid
}

/// A process of this level that waits for `mutex`.
fn waiting(sched: &mut Scheduler<()>, level: u8, mutex: MutexId) -> ProcessId {
    let pid = spawn_at(sched, level);
    run(sched, pid);
    assert_blocked(lock(sched, mutex));
    pid
}

fn levels(sched: &Scheduler<()>, pids: &[ProcessId]) -> Vec<u8> {
    pids.iter()
        .map(|&pid| sched.effective_priority(pid).get())
        .collect()
}

#[test]
fn a_runnable_process_goes_to_the_back_of_its_new_level() {
    let mut sched = sched();
    let [a, b] = [0; 2].map(|_| spawn(&mut sched));
    let c = spawn_at(&mut sched, 50);
    assert!(sched.set_priority(a, priority(50)));
    assert_eq!(order_of_ends(&mut sched), [c, a, b]);
}

#[test]
fn the_current_process_goes_to_the_head_of_its_new_level() {
    let mut sched = sched();
    let a = spawn_at(&mut sched, 50);
    let b = spawn(&mut sched);
    assert_eq!(sched.schedule(), Next::Other(a));
    assert!(sched.set_priority(a, priority(40)));
    assert!(!sched.current_should_yield());
    assert_eq!(sched.schedule(), Next::Same);
    assert!(sched.set_priority(a, priority(39)));
    assert!(sched.current_should_yield());
    assert_eq!(sched.schedule(), Next::Other(b));
}

#[test]
fn a_new_priority_moves_a_waiting_process_in_its_queue() {
    let mut sched = sched();
    let semaphore = sched.semaphore_new(0);
    let [a, b, c] = [0; 3].map(|_| {
        let pid = spawn_running(&mut sched);
        assert_blocked(sched.semaphore_wait(semaphore, Deadline::Never));
        pid
    });
    assert!(sched.set_priority(c, priority(41)));
    assert!(sched.set_priority(a, priority(39)));
    for expected in [c, b, a] {
        sched.semaphore_signal(semaphore, 1);
        assert_eq!(sched.schedule(), Next::Other(expected));
        sched.exit_current();
    }
}

#[test]
fn a_process_kept_aside_keeps_its_new_priority() {
    let mut sched = sched();
    let out = spawn_running(&mut sched);
    let options = SpawnOptions {
        pin: Some(CarrierId(0)),
        ..SpawnOptions::default()
    };
    let [a, b] = [0; 2].map(|_| sched.spawn(options, ()).unwrap());
    assert!(sched.begin_foreign(out, CarrierId(0)));
    assert!(sched.set_priority(b, priority(60)));
    assert_eq!(sched.schedule(), Next::Nothing);
    assert!(sched.end_foreign(out));
    assert_eq!(order_of_ends(&mut sched), [b, a, out]);
}

#[test]
fn the_owner_of_a_mutex_is_as_urgent_as_its_waiters() {
    let mut sched = sched();
    let mutex = sched.mutex_new();
    let low = owner(&mut sched, 10, mutex);
    spawn_at(&mut sched, 40);
    let high = waiting(&mut sched, 60, mutex);
    assert_eq!(levels(&sched, &[low]), [60]);
    assert_eq!(sched.priority(low), priority(10));
    assert_eq!(sched.counters().priorities_inherited, 1);
    assert_eq!(sched.schedule(), Next::Other(low));
    assert_eq!(sched.mutex_unlock(mutex), Ok(()));
    assert_eq!(levels(&sched, &[low]), [10]);
    assert!(sched.current_should_yield());
    assert_eq!(sched.schedule(), Next::Other(high));
}

#[test]
fn a_priority_is_inherited_along_a_chain_of_owners() {
    let mut sched = sched();
    let [first, second] = [0; 2].map(|_| sched.mutex_new());
    let a = owner(&mut sched, 10, first);
    let b = owner(&mut sched, 20, second);
    assert_blocked(lock(&mut sched, first));
    let c = waiting(&mut sched, 60, second);
    assert_eq!(levels(&sched, &[a, b, c]), [60, 60, 60]);
    let _ = sched.kill(c);
    assert_eq!(levels(&sched, &[a, b, c]), [20, 20, 60]);
    assert!(sched.set_priority(b, priority(70)));
    assert_eq!(levels(&sched, &[a, b]), [70, 70]);
}

#[test]
fn an_inherited_priority_ends_when_the_waiter_times_out() {
    let mut sched = sched();
    let mutex = sched.mutex_new();
    let low = owner(&mut sched, 10, mutex);
    waiting(&mut sched, 30, mutex);
    let high = spawn_at(&mut sched, 60);
    run(&mut sched, high);
    assert_eq!(sched.mutex_lock(mutex, until(5)), Ok(Attempt::Blocked));
    assert_eq!(levels(&sched, &[low]), [60]);
    sched.expire(at(5));
    assert_eq!(levels(&sched, &[low]), [30]);
}

#[test]
fn an_owner_of_two_mutexes_keeps_the_priority_lent_by_the_other() {
    let mut sched = sched();
    let [first, second] = [0; 2].map(|_| sched.mutex_new());
    let low = owner(&mut sched, 10, first);
    assert_eq!(reason(lock(&mut sched, second)), WakeReason::Done);
    waiting(&mut sched, 50, first);
    waiting(&mut sched, 60, second);
    run(&mut sched, low);
    assert_eq!(sched.mutex_unlock(second), Ok(()));
    assert_eq!(levels(&sched, &[low]), [50]);
    assert_eq!(sched.mutex_unlock(first), Ok(()));
    assert_eq!(levels(&sched, &[low]), [10]);
}

#[test]
fn the_next_owner_inherits_from_the_remaining_waiters() {
    let mut sched = sched();
    let mutex = sched.mutex_new();
    let low = owner(&mut sched, 10, mutex);
    let middle = waiting(&mut sched, 40, mutex);
    let late = waiting(&mut sched, 40, mutex);
    run(&mut sched, low);
    assert_eq!(sched.mutex_unlock(mutex), Ok(()));
    assert_eq!(sched.mutex_owner(mutex), Some(middle));
    assert!(sched.set_priority(late, priority(70)));
    assert_eq!(levels(&sched, &[middle]), [70]);
}

#[test]
fn inheritance_ends_in_a_cycle_of_waiting_owners() {
    let mut sched = sched();
    let [first, second] = [0; 2].map(|_| sched.mutex_new());
    let a = owner(&mut sched, 10, first);
    let b = owner(&mut sched, 20, second);
    assert_blocked(lock(&mut sched, first));
    run(&mut sched, a);
    assert_blocked(lock(&mut sched, second));
    assert!(sched.set_priority(b, priority(60)));
    assert_eq!(levels(&sched, &[a, b]), [60, 60]);
    let _ = sched.kill(a);
    end(&mut sched, a);
    assert_eq!(resume_with(&mut sched, b).reason, WakeReason::Abandoned);
}
