//! Barriers.

use super::invariants::check;
use super::*;
use crate::sched::{BarrierId, Blocker};

fn waiting(sched: &mut Scheduler<()>, barrier: BarrierId) -> ProcessId {
    let pid = spawn_running(sched);
    assert_blocked(sched.barrier_wait(barrier, Deadline::Never));
    pid
}

/// The `Wake::value` with which the current process passes.
fn passes(sched: &mut Scheduler<()>, barrier: BarrierId) -> u64 {
    match sched.barrier_wait(barrier, Deadline::Never) {
        Attempt::Ready(wake) => {
            assert_eq!(wake.reason, WakeReason::Done);
            wake.value
        }
        Attempt::Blocked => panic!("the process was put to wait"),
    }
}

#[test]
fn all_pass_with_the_last_one_and_only_it_gets_the_value_1() {
    let mut sched = sched();
    let barrier = sched.barrier_new(3);
    let [a, b] = [0; 2].map(|_| waiting(&mut sched, barrier));
    assert_eq!(sched.barrier_waiting(barrier), 2);
    assert_eq!(sched.blocker(a), Some(Blocker::Barrier(barrier)));
    spawn_running(&mut sched);
    assert_eq!(passes(&mut sched, barrier), 1);
    check(&sched);
    for pid in [a, b] {
        let wake = resume_with(&mut sched, pid);
        assert_eq!((wake.reason, wake.value), (WakeReason::Done, 0));
    }
    assert_eq!(sched.barrier_waiting(barrier), 0);
}

#[test]
fn the_next_round_begins_before_the_last_one_has_run() {
    let mut sched = sched();
    let barrier = sched.barrier_new(2);
    let slow = waiting(&mut sched, barrier);
    let fast = spawn_running(&mut sched);
    assert_eq!(passes(&mut sched, barrier), 1);
    assert_blocked(sched.barrier_wait(barrier, Deadline::Never));
    assert_eq!(resume_with(&mut sched, slow).reason, WakeReason::Done);
    assert_eq!(passes(&mut sched, barrier), 1);
    assert_eq!(resume_with(&mut sched, fast).reason, WakeReason::Done);
}

#[test]
fn a_process_that_times_out_or_is_killed_is_not_counted() {
    let mut sched = sched();
    let barrier = sched.barrier_new(3);
    let late = spawn_running(&mut sched);
    assert_blocked(sched.barrier_wait(barrier, until(5)));
    let victim = waiting(&mut sched, barrier);
    sched.expire(at(5));
    assert_eq!(resume_with(&mut sched, late).reason, WakeReason::TimedOut);
    let _ = sched.kill(victim);
    assert_eq!(sched.barrier_waiting(barrier), 0);
    check(&sched);
    run(&mut sched, late);
    assert_eq!(
        reason(sched.barrier_wait(barrier, Deadline::Now)),
        WakeReason::TimedOut
    );
    assert_eq!(sched.barrier_waiting(barrier), 0);
}

#[test]
fn a_barrier_for_one_lets_each_process_pass_as_the_last() {
    let mut sched = sched();
    for barrier in [sched.barrier_new(1), sched.barrier_new(0)] {
        spawn_running(&mut sched);
        assert_eq!(passes(&mut sched, barrier), 1);
        assert_eq!(passes(&mut sched, barrier), 1);
    }
}

#[test]
fn only_the_last_one_can_come_from_a_critical_section() {
    let mut sched = sched();
    let barrier = sched.barrier_new(2);
    spawn_running(&mut sched);
    sched.enter_critical();
    assert_eq!(
        reason(sched.barrier_wait(barrier, Deadline::Never)),
        WakeReason::Forbidden
    );
    sched.leave_critical().expect("it is inside");
    waiting(&mut sched, barrier);
    spawn_running(&mut sched);
    sched.enter_critical();
    assert_eq!(passes(&mut sched, barrier), 1);
}

#[test]
fn a_freed_barrier_is_closed() {
    let mut sched = sched();
    let barrier = sched.barrier_new(2);
    let a = waiting(&mut sched, barrier);
    assert!(sched.barrier_free(barrier));
    assert!(!sched.barrier_free(barrier));
    check(&sched);
    assert_eq!(resume_with(&mut sched, a).reason, WakeReason::Closed);
    assert_eq!(
        reason(sched.barrier_wait(barrier, Deadline::Never)),
        WakeReason::Closed
    );
    assert_eq!(sched.barrier_waiting(barrier), 0);
}
