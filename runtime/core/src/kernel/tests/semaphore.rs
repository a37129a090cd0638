//! Semaphores.

use super::*;
use crate::kernel::{Blocker, KillOutcome, State};

#[test]
fn a_wait_passes_while_the_count_lasts() {
    let mut kernel = kernel();
    let semaphore = kernel.semaphore_new(2);
    spawn_running(&mut kernel);
    assert_eq!(
        reason(kernel.semaphore_wait(semaphore, Deadline::Now)),
        WakeReason::Done
    );
    assert_eq!(
        reason(kernel.semaphore_wait(semaphore, Deadline::Never)),
        WakeReason::Done
    );
    assert_eq!(kernel.semaphore_count(semaphore), 0);
    assert_eq!(
        reason(kernel.semaphore_wait(semaphore, Deadline::Now)),
        WakeReason::TimedOut
    );
}

#[test]
fn a_signal_wakes_the_first_who_waits() {
    let mut kernel = kernel();
    let semaphore = kernel.semaphore_new(0);
    let [a, b] = [0; 2].map(|_| {
        let pid = spawn_running(&mut kernel);
        assert_blocked(kernel.semaphore_wait(semaphore, Deadline::Never));
        pid
    });
    assert_eq!(kernel.state(a), State::Waiting);
    assert_eq!(kernel.blocker(a), Some(Blocker::Semaphore(semaphore)));
    assert_eq!(kernel.semaphore_signal(semaphore, 1), 1);
    assert_eq!(kernel.state(a), State::Runnable);
    assert_eq!(kernel.state(b), State::Waiting);
    assert_eq!(kernel.semaphore_count(semaphore), 0);
    assert_eq!(resume_with(&mut kernel, a), Wake::because(WakeReason::Done));
}

#[test]
fn a_signal_wakes_the_more_urgent_before_those_who_came_earlier() {
    let mut kernel = kernel();
    let semaphore = kernel.semaphore_new(0);
    let waiting: Vec<_> = [40, 60, 20, 60]
        .into_iter()
        .map(|level| {
            let pid = spawn_at(&mut kernel, level);
            run(&mut kernel, pid);
            assert_blocked(kernel.semaphore_wait(semaphore, Deadline::Never));
            pid
        })
        .collect();
    for expected in [waiting[1], waiting[3], waiting[0], waiting[2]] {
        kernel.semaphore_signal(semaphore, 1);
        assert_eq!(kernel.schedule(), Next::Other(expected));
        kernel.exit_current();
    }
}

#[test]
fn a_signal_of_many_wakes_many_and_keeps_the_rest() {
    let mut kernel = kernel();
    let semaphore = kernel.semaphore_new(0);
    for _ in 0..3 {
        spawn_running(&mut kernel);
        assert_blocked(kernel.semaphore_wait(semaphore, Deadline::Never));
    }
    assert_eq!(kernel.semaphore_signal(semaphore, 5), 3);
    assert_eq!(kernel.semaphore_count(semaphore), 2);
    kernel.semaphore_signal(semaphore, u64::MAX);
    assert_eq!(kernel.semaphore_count(semaphore), u64::MAX);
}

#[test]
fn a_wait_times_out_and_takes_nothing() {
    let mut kernel = kernel();
    let semaphore = kernel.semaphore_new(0);
    let a = spawn_running(&mut kernel);
    assert_blocked(kernel.semaphore_wait(semaphore, until(5)));
    assert_eq!(kernel.expire(at(5)), 1);
    assert_eq!(resume_with(&mut kernel, a).reason, WakeReason::TimedOut);
    assert_eq!(kernel.counters().timeouts, 1);
    assert_eq!(kernel.semaphore_signal(semaphore, 1), 0);
    assert_eq!(kernel.semaphore_count(semaphore), 1);
}

#[test]
fn a_signal_takes_the_deadline_away() {
    let mut kernel = kernel();
    let semaphore = kernel.semaphore_new(0);
    spawn_running(&mut kernel);
    assert_blocked(kernel.semaphore_wait(semaphore, until(5)));
    kernel.semaphore_signal(semaphore, 1);
    assert_eq!(kernel.next_deadline(), None);
    assert_eq!(kernel.expire(at(10)), 0);
}

#[test]
fn freeing_tells_those_who_wait_that_it_is_closed() {
    let mut kernel = kernel();
    let semaphore = kernel.semaphore_new(0);
    let a = spawn_running(&mut kernel);
    assert_blocked(kernel.semaphore_wait(semaphore, Deadline::Never));
    assert!(kernel.semaphore_free(semaphore));
    assert!(!kernel.semaphore_free(semaphore));
    assert_eq!(resume_with(&mut kernel, a).reason, WakeReason::Closed);
    let other = kernel.semaphore_new(9);
    assert_ne!(other, semaphore);
    assert_eq!(
        reason(kernel.semaphore_wait(semaphore, Deadline::Never)),
        WakeReason::Closed
    );
    assert_eq!(kernel.semaphore_signal(semaphore, 1), 0);
    assert_eq!(kernel.semaphore_count(other), 9);
}

#[test]
fn at_once_nothing_is_done_that_concerns_who_waits_or_who_must_not() {
    let mut kernel = kernel();
    let semaphore = kernel.semaphore_new(1);
    assert!(!kernel.semaphore_take(semaphore), "nobody runs");
    let waiting = spawn_running(&mut kernel);
    assert!(kernel.semaphore_take(semaphore));
    assert!(!kernel.semaphore_take(semaphore));
    assert!(kernel.semaphore_put(semaphore, u64::MAX));
    assert!(kernel.semaphore_put(semaphore, 1));
    assert_eq!(kernel.semaphore_count(semaphore), u64::MAX);
    let empty = kernel.semaphore_new(0);
    assert_blocked(kernel.semaphore_wait(empty, Deadline::Never));
    let killed = spawn_running(&mut kernel);
    assert!(!kernel.semaphore_put(empty, 1));
    assert_eq!(kernel.semaphore_count(empty), 0);
    assert_eq!(kernel.state(waiting), State::Waiting);
    assert_eq!(kernel.kill(killed), KillOutcome::IsCurrent);
    assert!(!kernel.semaphore_take(semaphore));
    kernel.semaphore_free(semaphore);
    assert!(!kernel.semaphore_put(semaphore, 1));
}
