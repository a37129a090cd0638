//! Priorities, given and inherited.

use super::*;
use crate::kernel::{CarrierId, MutexId};

fn lock(kernel: &mut Kernel<()>, mutex: MutexId) -> Attempt {
    kernel.mutex_lock(mutex, Deadline::Never).expect("not recursive")
}

/// A process of this level that holds `mutex`.
fn owner(kernel: &mut Kernel<()>, level: u8, mutex: MutexId) -> ProcessId {
    let pid = spawn_at(kernel, level);
    run(kernel, pid);
    assert_eq!(reason(lock(kernel, mutex)), WakeReason::Done);
    pid
}

/// A process of this level that waits for `mutex`.
fn waiting(kernel: &mut Kernel<()>, level: u8, mutex: MutexId) -> ProcessId {
    let pid = spawn_at(kernel, level);
    run(kernel, pid);
    assert_blocked(lock(kernel, mutex));
    pid
}

fn levels(kernel: &Kernel<()>, pids: &[ProcessId]) -> Vec<u8> {
    pids.iter().map(|&pid| kernel.effective_priority(pid).get()).collect()
}

#[test]
fn a_runnable_process_goes_to_the_back_of_its_new_level() {
    let mut kernel = kernel();
    let [a, b] = [0; 2].map(|_| spawn(&mut kernel));
    let c = spawn_at(&mut kernel, 50);
    assert!(kernel.set_priority(a, priority(50)));
    assert_eq!(order_of_ends(&mut kernel), [c, a, b]);
}

#[test]
fn the_current_process_goes_to_the_head_of_its_new_level() {
    let mut kernel = kernel();
    let a = spawn_at(&mut kernel, 50);
    let b = spawn(&mut kernel);
    assert_eq!(kernel.schedule(), Next::Other(a));
    assert!(kernel.set_priority(a, priority(40)));
    assert!(!kernel.current_should_yield());
    assert_eq!(kernel.schedule(), Next::Same);
    assert!(kernel.set_priority(a, priority(39)));
    assert!(kernel.current_should_yield());
    assert_eq!(kernel.schedule(), Next::Other(b));
}

#[test]
fn one_that_waits_moves_in_its_queue() {
    let mut kernel = kernel();
    let semaphore = kernel.semaphore_new(0);
    let [a, b, c] = [0; 3].map(|_| {
        let pid = spawn_running(&mut kernel);
        assert_blocked(kernel.semaphore_wait(semaphore, Deadline::Never));
        pid
    });
    assert!(kernel.set_priority(c, priority(41)));
    assert!(kernel.set_priority(a, priority(39)));
    for expected in [c, b, a] {
        kernel.semaphore_signal(semaphore, 1);
        assert_eq!(kernel.schedule(), Next::Other(expected));
        kernel.exit_current();
    }
}

#[test]
fn one_kept_aside_keeps_its_new_priority() {
    let mut kernel = kernel();
    let out = spawn_running(&mut kernel);
    let options = SpawnOptions {
        pin: Some(CarrierId(0)),
        ..SpawnOptions::default()
    };
    let [a, b] = [0; 2].map(|_| kernel.spawn(options, ()).unwrap());
    assert!(kernel.begin_foreign(out, CarrierId(0)));
    assert!(kernel.set_priority(b, priority(60)));
    assert_eq!(kernel.schedule(), Next::Nothing);
    assert!(kernel.end_foreign(out));
    assert_eq!(order_of_ends(&mut kernel), [b, a, out]);
}

#[test]
fn the_owner_of_a_mutex_is_as_urgent_as_those_who_wait_for_it() {
    let mut kernel = kernel();
    let mutex = kernel.mutex_new();
    let low = owner(&mut kernel, 10, mutex);
    spawn_at(&mut kernel, 40);
    let high = waiting(&mut kernel, 60, mutex);
    assert_eq!(levels(&kernel, &[low]), [60]);
    assert_eq!(kernel.priority(low), priority(10));
    assert_eq!(kernel.counters().priorities_inherited, 1);
    assert_eq!(kernel.schedule(), Next::Other(low));
    assert_eq!(kernel.mutex_unlock(mutex), Ok(()));
    assert_eq!(levels(&kernel, &[low]), [10]);
    assert!(kernel.current_should_yield());
    assert_eq!(kernel.schedule(), Next::Other(high));
}

#[test]
fn a_priority_is_inherited_along_a_chain_of_owners() {
    let mut kernel = kernel();
    let [first, second] = [0; 2].map(|_| kernel.mutex_new());
    let a = owner(&mut kernel, 10, first);
    let b = owner(&mut kernel, 20, second);
    assert_blocked(lock(&mut kernel, first));
    let c = waiting(&mut kernel, 60, second);
    assert_eq!(levels(&kernel, &[a, b, c]), [60, 60, 60]);
    let _ = kernel.kill(c);
    assert_eq!(levels(&kernel, &[a, b, c]), [20, 20, 60]);
    assert!(kernel.set_priority(b, priority(70)));
    assert_eq!(levels(&kernel, &[a, b]), [70, 70]);
}

#[test]
fn what_a_waiter_lent_goes_back_when_it_times_out() {
    let mut kernel = kernel();
    let mutex = kernel.mutex_new();
    let low = owner(&mut kernel, 10, mutex);
    waiting(&mut kernel, 30, mutex);
    let high = spawn_at(&mut kernel, 60);
    run(&mut kernel, high);
    assert_eq!(kernel.mutex_lock(mutex, until(5)), Ok(Attempt::Blocked));
    assert_eq!(levels(&kernel, &[low]), [60]);
    kernel.expire(at(5));
    assert_eq!(levels(&kernel, &[low]), [30]);
}

#[test]
fn an_owner_of_two_mutexes_keeps_what_the_other_one_lends() {
    let mut kernel = kernel();
    let [first, second] = [0; 2].map(|_| kernel.mutex_new());
    let low = owner(&mut kernel, 10, first);
    assert_eq!(reason(lock(&mut kernel, second)), WakeReason::Done);
    waiting(&mut kernel, 50, first);
    waiting(&mut kernel, 60, second);
    run(&mut kernel, low);
    assert_eq!(kernel.mutex_unlock(second), Ok(()));
    assert_eq!(levels(&kernel, &[low]), [50]);
    assert_eq!(kernel.mutex_unlock(first), Ok(()));
    assert_eq!(levels(&kernel, &[low]), [10]);
}

#[test]
fn the_next_owner_inherits_from_those_who_still_wait() {
    let mut kernel = kernel();
    let mutex = kernel.mutex_new();
    let low = owner(&mut kernel, 10, mutex);
    let middle = waiting(&mut kernel, 40, mutex);
    let late = waiting(&mut kernel, 40, mutex);
    run(&mut kernel, low);
    assert_eq!(kernel.mutex_unlock(mutex), Ok(()));
    assert_eq!(kernel.mutex_owner(mutex), Some(middle));
    assert!(kernel.set_priority(late, priority(70)));
    assert_eq!(levels(&kernel, &[middle]), [70]);
}

#[test]
fn a_ring_of_owners_that_wait_for_each_other_comes_to_an_end() {
    let mut kernel = kernel();
    let [first, second] = [0; 2].map(|_| kernel.mutex_new());
    let a = owner(&mut kernel, 10, first);
    let b = owner(&mut kernel, 20, second);
    assert_blocked(lock(&mut kernel, first));
    run(&mut kernel, a);
    assert_blocked(lock(&mut kernel, second));
    assert!(kernel.set_priority(b, priority(60)));
    assert_eq!(levels(&kernel, &[a, b]), [60, 60]);
    let _ = kernel.kill(a);
    end(&mut kernel, a);
    assert_eq!(resume_with(&mut kernel, b).reason, WakeReason::Abandoned);
}
