//! Killing.

use super::*;
use crate::sched::{CarrierId, KillOutcome, ResumeOutcome, State, SuspendOutcome};

#[test]
fn a_kill_wakes_a_process_that_waits_or_sleeps() {
    let mut sched = sched();
    let semaphore = sched.semaphore_new(0);
    let waiting = spawn_running(&mut sched);
    assert_blocked(sched.semaphore_wait(semaphore, until(9)));
    let sleeping = spawn_running(&mut sched);
    assert_blocked(sched.sleep(at(9)));
    for pid in [waiting, sleeping] {
        assert_eq!(sched.kill(pid), KillOutcome::Woken);
        assert!(sched.kill_is_due(pid));
        assert_eq!(resume_with(&mut sched, pid).reason, WakeReason::Killed);
    }
    assert_eq!(sched.next_deadline(), None);
    assert_eq!(sched.semaphore_signal(semaphore, 1), 0);
    assert_eq!(sched.counters().kills, 2);
}

#[test]
fn a_runnable_process_sees_the_kill_at_its_next_safepoint() {
    let mut sched = sched();
    let running = spawn_running(&mut sched);
    let runnable = spawn(&mut sched);
    assert_eq!(sched.kill(runnable), KillOutcome::Pending);
    assert_eq!(sched.kill(running), KillOutcome::IsCurrent);
    assert_eq!(sched.state(runnable), State::Runnable);
    assert_eq!(
        (sched.kill_count(runnable), sched.kill_count(running)),
        (1, 1)
    );
}

#[test]
fn a_process_in_a_foreign_call_sees_the_kill_when_it_returns() {
    let mut sched = sched();
    let a = spawn_running(&mut sched);
    assert!(sched.begin_foreign(a, CarrierId(1)));
    assert_eq!(sched.suspend(a), SuspendOutcome::Suspended);
    assert_eq!(sched.kill(a), KillOutcome::Pending);
    assert!(sched.end_foreign(a));
    run(&mut sched, a);
    assert!(sched.kill_is_due(a));
}

#[test]
fn a_kill_makes_a_suspended_or_unstarted_process_runnable() {
    let mut sched = sched();
    let options = SpawnOptions {
        suspended: true,
        ..SpawnOptions::default()
    };
    let not_started = sched.spawn(options, ()).unwrap();
    let suspended = spawn_running(&mut sched);
    assert_eq!(sched.suspend(suspended), SuspendOutcome::CurrentMustSwitch);
    for pid in [not_started, suspended] {
        assert_eq!(sched.kill(pid), KillOutcome::Woken);
        assert_eq!(resume_with(&mut sched, pid).reason, WakeReason::Killed);
        assert_eq!(sched.resume(pid), ResumeOutcome::NotSuspended);
    }
}

#[test]
fn a_kill_does_not_revoke_the_result_of_a_suspended_process() {
    let mut sched = sched();
    let channel = sched.channel_new(0);
    let a = spawn_running(&mut sched);
    assert_blocked(sched.channel_receive(channel, Deadline::Never));
    assert_eq!(sched.suspend(a), SuspendOutcome::Suspended);
    spawn_running(&mut sched);
    let attempt = sched.channel_send(channel, 8, Deadline::Now);
    assert_eq!(reason(attempt), WakeReason::Done);
    assert_eq!(sched.kill(a), KillOutcome::Woken);
    let wake = resume_with(&mut sched, a);
    assert_eq!((wake.reason, wake.value), (WakeReason::Done, 8));
    assert!(sched.kill_is_due(a));
}

#[test]
fn a_process_with_a_due_kill_does_not_wait() {
    let mut sched = sched();
    let semaphore = sched.semaphore_new(1);
    let mutex = sched.mutex_new();
    let target = spawn(&mut sched);
    let a = spawn_running(&mut sched);
    assert_eq!(sched.kill(a), KillOutcome::IsCurrent);
    let attempts = [
        sched.sleep(at(1)),
        sched.semaphore_wait(semaphore, Deadline::Never),
        sched.mutex_lock(mutex, Deadline::Never).unwrap(),
        sched.join(target, Deadline::Never),
        sched.wait_for_rest(Deadline::Never),
        sched.select(&[], Deadline::Never, 0),
    ];
    for attempt in attempts {
        assert_eq!(reason(attempt), WakeReason::Killed);
    }
    assert_eq!(sched.suspend(a), SuspendOutcome::Killed);
    assert_eq!(sched.semaphore_count(semaphore), 1);
    assert_eq!(sched.mutex_owner(mutex), None);
}

#[test]
fn a_hold_defers_the_first_kill_until_it_ends() {
    let mut sched = sched();
    let a = spawn_running(&mut sched);
    sched.set_kill_hold(a, true);
    assert_eq!(sched.kill(a), KillOutcome::Held);
    assert!(!sched.kill_is_due(a));
    assert!(sched.holds_kills(a));
    assert_blocked(sched.sleep(at(5)));
    sched.expire(at(5));
    assert_eq!(resume_with(&mut sched, a).reason, WakeReason::Done);
    sched.set_kill_hold(a, false);
    assert!(sched.kill_is_due(a));
}

#[test]
fn a_second_kill_cancels_the_hold() {
    let mut sched = sched();
    let a = spawn_running(&mut sched);
    sched.set_kill_hold(a, true);
    assert_blocked(sched.sleep(at(5)));
    assert_eq!(sched.kill(a), KillOutcome::Held);
    assert_eq!(sched.state(a), State::Sleeping);
    assert_eq!(sched.kill(a), KillOutcome::Woken);
    assert_eq!(resume_with(&mut sched, a).reason, WakeReason::Killed);
    assert!(sched.kill_is_due(a) && sched.holds_kills(a));
}

#[test]
fn a_hold_that_ends_while_its_process_waits_ends_the_wait() {
    let mut sched = sched();
    let a = spawn_running(&mut sched);
    sched.set_kill_hold(a, true);
    assert_blocked(sched.sleep(at(5)));
    assert_eq!(sched.kill(a), KillOutcome::Held);
    sched.set_kill_hold(a, false);
    assert_eq!(resume_with(&mut sched, a).reason, WakeReason::Killed);
}

#[test]
fn a_process_killed_before_its_timer_fires_begins_with_a_due_kill() {
    let mut sched = sched();
    let prepared = sched.spawn_prepared(SpawnOptions::default(), ()).unwrap();
    sched.timer_new(at(5), None, prepared);
    assert_eq!(sched.kill(prepared), KillOutcome::Pending);
    sched.expire(at(5));
    run(&mut sched, prepared);
    assert!(sched.kill_is_due(prepared));
}

#[test]
fn the_dead_are_not_killed_again() {
    let mut sched = sched();
    let a = spawn(&mut sched);
    end(&mut sched, a);
    assert_eq!(sched.kill(a), KillOutcome::AlreadyDead);
    assert_eq!(sched.counters().kills, 0);
    assert!(!sched.kill_is_due(a));
}

#[test]
fn a_kill_that_was_not_deferred_again_can_be_deferred_by_the_next_hold() {
    let mut sched = sched();
    let mutex = sched.mutex_new();
    let condition = sched.condition_new();
    let a = spawn_running(&mut sched);
    assert_eq!(
        reason(sched.mutex_lock(mutex, Deadline::Never).unwrap()),
        WakeReason::Done
    );
    assert_blocked(
        sched
            .condition_wait(condition, mutex, Deadline::Never)
            .unwrap(),
    );
    let owner = spawn_running(&mut sched);
    assert_eq!(
        reason(sched.mutex_lock(mutex, Deadline::Never).unwrap()),
        WakeReason::Done
    );
    // The second kill cancels the relock of the mutex.
    let _ = sched.kill(a);
    assert_eq!(sched.kill(a), KillOutcome::Woken);
    assert_eq!(sched.mutex_owner(mutex), Some(owner));
    assert_eq!(resume_with(&mut sched, a).reason, WakeReason::Killed);
    sched.set_kill_hold(a, true);
    assert!(!sched.kill_is_due(a));
    assert_blocked(sched.sleep(at(5)));
    sched.set_kill_hold(a, false);
    assert!(sched.kill_is_due(a));
}
