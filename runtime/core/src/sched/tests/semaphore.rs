//! Semaphores.

use super::*;
use crate::sched::{Blocker, KillOutcome, State};

#[test]
fn a_wait_passes_while_the_count_lasts() {
    let mut sched = sched();
    let semaphore = sched.semaphore_new(2);
    spawn_running(&mut sched);
    assert_eq!(
        reason(sched.semaphore_wait(semaphore, Deadline::Now)),
        WakeReason::Done
    );
    assert_eq!(
        reason(sched.semaphore_wait(semaphore, Deadline::Never)),
        WakeReason::Done
    );
    assert_eq!(sched.semaphore_count(semaphore), 0);
    assert_eq!(
        reason(sched.semaphore_wait(semaphore, Deadline::Now)),
        WakeReason::TimedOut
    );
}

#[test]
fn a_signal_wakes_the_first_waiter() {
    let mut sched = sched();
    let semaphore = sched.semaphore_new(0);
    let [a, b] = [0; 2].map(|_| {
        let pid = spawn_running(&mut sched);
        assert_blocked(sched.semaphore_wait(semaphore, Deadline::Never));
        pid
    });
    assert_eq!(sched.state(a), State::Waiting);
    assert_eq!(sched.blocker(a), Some(Blocker::Semaphore(semaphore)));
    assert_eq!(sched.semaphore_signal(semaphore, 1), 1);
    assert_eq!(sched.state(a), State::Runnable);
    assert_eq!(sched.state(b), State::Waiting);
    assert_eq!(sched.semaphore_count(semaphore), 0);
    assert_eq!(resume_with(&mut sched, a), Wake::because(WakeReason::Done));
}

#[test]
fn a_signal_wakes_the_more_urgent_before_earlier_waiters() {
    let mut sched = sched();
    let semaphore = sched.semaphore_new(0);
    let waiting: Vec<_> = [40, 60, 20, 60]
        .into_iter()
        .map(|level| {
            let pid = spawn_at(&mut sched, level);
            run(&mut sched, pid);
            assert_blocked(sched.semaphore_wait(semaphore, Deadline::Never));
            pid
        })
        .collect();
    for expected in [waiting[1], waiting[3], waiting[0], waiting[2]] {
        sched.semaphore_signal(semaphore, 1);
        assert_eq!(sched.schedule(), Next::Other(expected));
        sched.exit_current();
    }
}

#[test]
fn a_signal_of_many_wakes_many_and_keeps_the_rest() {
    let mut sched = sched();
    let semaphore = sched.semaphore_new(0);
    for _ in 0..3 {
        spawn_running(&mut sched);
        assert_blocked(sched.semaphore_wait(semaphore, Deadline::Never));
    }
    assert_eq!(sched.semaphore_signal(semaphore, 5), 3);
    assert_eq!(sched.semaphore_count(semaphore), 2);
    sched.semaphore_signal(semaphore, u64::MAX);
    assert_eq!(sched.semaphore_count(semaphore), u64::MAX);
}

#[test]
fn a_wait_times_out_and_takes_nothing() {
    let mut sched = sched();
    let semaphore = sched.semaphore_new(0);
    let a = spawn_running(&mut sched);
    assert_blocked(sched.semaphore_wait(semaphore, until(5)));
    assert_eq!(sched.expire(at(5)), 1);
    assert_eq!(resume_with(&mut sched, a).reason, WakeReason::TimedOut);
    assert_eq!(sched.counters().timeouts, 1);
    assert_eq!(sched.semaphore_signal(semaphore, 1), 0);
    assert_eq!(sched.semaphore_count(semaphore), 1);
}

#[test]
fn a_signal_takes_the_deadline_away() {
    let mut sched = sched();
    let semaphore = sched.semaphore_new(0);
    spawn_running(&mut sched);
    assert_blocked(sched.semaphore_wait(semaphore, until(5)));
    sched.semaphore_signal(semaphore, 1);
    assert_eq!(sched.next_deadline(), None);
    assert_eq!(sched.expire(at(10)), 0);
}

#[test]
fn freeing_wakes_all_waiters_with_closed() {
    let mut sched = sched();
    let semaphore = sched.semaphore_new(0);
    let a = spawn_running(&mut sched);
    assert_blocked(sched.semaphore_wait(semaphore, Deadline::Never));
    assert!(sched.semaphore_free(semaphore));
    assert!(!sched.semaphore_free(semaphore));
    assert_eq!(resume_with(&mut sched, a).reason, WakeReason::Closed);
    let other = sched.semaphore_new(9);
    assert_ne!(other, semaphore);
    assert_eq!(
        reason(sched.semaphore_wait(semaphore, Deadline::Never)),
        WakeReason::Closed
    );
    assert_eq!(sched.semaphore_signal(semaphore, 1), 0);
    assert_eq!(sched.semaphore_count(other), 9);
}

#[test]
fn a_first_look_at_a_semaphore_changes_it_only_if_no_process_is_concerned() {
    let mut sched = sched();
    let semaphore = sched.semaphore_new(1);
    assert_unclear(sched.semaphore_begin_wait(semaphore), "no process runs");
    let waiting = spawn_running(&mut sched);
    assert_eq!(done(sched.semaphore_begin_wait(semaphore)), Some(0));
    let look = sched.semaphore_begin_wait(semaphore);
    assert!(matches!(look, FirstLook::Waits(_)), "{look:?}");
    let most = i64::MAX as u64;
    assert_unclear(
        sched.semaphore_begin_signal(semaphore, most + 1),
        "too many",
    );
    assert_eq!(done(sched.semaphore_begin_signal(semaphore, most)), Some(0));
    assert_unclear(sched.semaphore_begin_signal(semaphore, 1), "too many");
    assert_eq!(sched.semaphore_count(semaphore), most);
    let empty = sched.semaphore_new(0);
    assert_blocked(sched.semaphore_wait(empty, Deadline::Never));
    let killed = spawn_running(&mut sched);
    assert_unclear(sched.semaphore_begin_signal(empty, 2), "only one waits");
    let look = sched.semaphore_begin_signal(empty, 1);
    assert!(matches!(look, FirstLook::Wakes(_)), "{look:?}");
    assert_eq!(sched.semaphore_count(empty), 0);
    assert_eq!(sched.state(waiting), State::Waiting);
    assert_eq!(sched.kill(killed), KillOutcome::IsCurrent);
    assert_unclear(sched.semaphore_begin_wait(semaphore), "it is killed");
    sched.semaphore_free(semaphore);
    assert_unclear(sched.semaphore_begin_signal(semaphore, 1), "it is freed");
}
