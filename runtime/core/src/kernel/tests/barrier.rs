//! Barriers.

use super::invariants::check;
use super::*;
use crate::kernel::{BarrierId, Blocker};

fn waiting(kernel: &mut Kernel<()>, barrier: BarrierId) -> ProcessId {
    let pid = spawn_running(kernel);
    assert_blocked(kernel.barrier_wait(barrier, Deadline::Never));
    pid
}

/// The value with which the current process passes.
fn passes(kernel: &mut Kernel<()>, barrier: BarrierId) -> u64 {
    match kernel.barrier_wait(barrier, Deadline::Never) {
        Attempt::Ready(wake) => {
            assert_eq!(wake.reason, WakeReason::Done);
            wake.value
        }
        Attempt::Blocked => panic!("the process was put to wait"),
    }
}

#[test]
fn all_pass_with_the_last_one_and_it_alone_is_told_so() {
    let mut kernel = kernel();
    let barrier = kernel.barrier_new(3);
    let [a, b] = [0; 2].map(|_| waiting(&mut kernel, barrier));
    assert_eq!(kernel.barrier_waiting(barrier), 2);
    assert_eq!(kernel.blocker(a), Some(Blocker::Barrier(barrier)));
    spawn_running(&mut kernel);
    assert_eq!(passes(&mut kernel, barrier), 1);
    check(&kernel);
    for pid in [a, b] {
        let wake = resume_with(&mut kernel, pid);
        assert_eq!((wake.reason, wake.value), (WakeReason::Done, 0));
    }
    assert_eq!(kernel.barrier_waiting(barrier), 0);
}

#[test]
fn the_next_round_begins_before_the_last_one_has_run() {
    let mut kernel = kernel();
    let barrier = kernel.barrier_new(2);
    let slow = waiting(&mut kernel, barrier);
    let fast = spawn_running(&mut kernel);
    assert_eq!(passes(&mut kernel, barrier), 1);
    assert_blocked(kernel.barrier_wait(barrier, Deadline::Never));
    assert_eq!(resume_with(&mut kernel, slow).reason, WakeReason::Done);
    assert_eq!(passes(&mut kernel, barrier), 1);
    assert_eq!(resume_with(&mut kernel, fast).reason, WakeReason::Done);
}

#[test]
fn one_that_gives_up_or_is_killed_is_not_counted() {
    let mut kernel = kernel();
    let barrier = kernel.barrier_new(3);
    let late = spawn_running(&mut kernel);
    assert_blocked(kernel.barrier_wait(barrier, until(5)));
    let victim = waiting(&mut kernel, barrier);
    kernel.expire(at(5));
    assert_eq!(resume_with(&mut kernel, late).reason, WakeReason::TimedOut);
    let _ = kernel.kill(victim);
    assert_eq!(kernel.barrier_waiting(barrier), 0);
    check(&kernel);
    run(&mut kernel, late);
    assert_eq!(
        reason(kernel.barrier_wait(barrier, Deadline::Now)),
        WakeReason::TimedOut
    );
    assert_eq!(kernel.barrier_waiting(barrier), 0);
}

#[test]
fn a_barrier_for_one_lets_everybody_pass_as_the_last() {
    let mut kernel = kernel();
    for barrier in [kernel.barrier_new(1), kernel.barrier_new(0)] {
        spawn_running(&mut kernel);
        assert_eq!(passes(&mut kernel, barrier), 1);
        assert_eq!(passes(&mut kernel, barrier), 1);
    }
}

#[test]
fn only_the_last_one_can_come_from_a_critical_section() {
    let mut kernel = kernel();
    let barrier = kernel.barrier_new(2);
    spawn_running(&mut kernel);
    kernel.enter_critical();
    assert_eq!(
        reason(kernel.barrier_wait(barrier, Deadline::Never)),
        WakeReason::Forbidden
    );
    kernel.leave_critical().expect("it is inside");
    waiting(&mut kernel, barrier);
    spawn_running(&mut kernel);
    kernel.enter_critical();
    assert_eq!(passes(&mut kernel, barrier), 1);
}

#[test]
fn a_freed_barrier_is_closed() {
    let mut kernel = kernel();
    let barrier = kernel.barrier_new(2);
    let a = waiting(&mut kernel, barrier);
    assert!(kernel.barrier_free(barrier));
    assert!(!kernel.barrier_free(barrier));
    check(&kernel);
    assert_eq!(resume_with(&mut kernel, a).reason, WakeReason::Closed);
    assert_eq!(
        reason(kernel.barrier_wait(barrier, Deadline::Never)),
        WakeReason::Closed
    );
    assert_eq!(kernel.barrier_waiting(barrier), 0);
}
