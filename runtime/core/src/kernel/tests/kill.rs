//! Killing.

use super::*;
use crate::kernel::{CarrierId, KillOutcome, ResumeOutcome, State, SuspendOutcome};

#[test]
fn one_that_waits_or_sleeps_is_woken() {
    let mut kernel = kernel();
    let semaphore = kernel.semaphore_new(0);
    let waiting = spawn_running(&mut kernel);
    assert_blocked(kernel.semaphore_wait(semaphore, until(9)));
    let sleeping = spawn_running(&mut kernel);
    assert_blocked(kernel.sleep(at(9)));
    for pid in [waiting, sleeping] {
        assert_eq!(kernel.kill(pid), KillOutcome::Woken);
        assert!(kernel.kill_is_due(pid));
        assert_eq!(resume_with(&mut kernel, pid).reason, WakeReason::Killed);
    }
    assert_eq!(kernel.next_deadline(), None);
    assert_eq!(kernel.semaphore_signal(semaphore, 1), 0);
    assert_eq!(kernel.counters().kills, 2);
}

#[test]
fn one_that_could_run_sees_the_kill_at_its_next_safepoint() {
    let mut kernel = kernel();
    let running = spawn_running(&mut kernel);
    let runnable = spawn(&mut kernel);
    assert_eq!(kernel.kill(runnable), KillOutcome::Pending);
    assert_eq!(kernel.kill(running), KillOutcome::IsCurrent);
    assert_eq!(kernel.state(runnable), State::Runnable);
    assert_eq!((kernel.kill_count(runnable), kernel.kill_count(running)), (1, 1));
}

#[test]
fn one_out_in_a_foreign_call_sees_the_kill_when_it_returns() {
    let mut kernel = kernel();
    let a = spawn_running(&mut kernel);
    assert!(kernel.begin_foreign(a, CarrierId(1)));
    assert_eq!(kernel.suspend(a), SuspendOutcome::Suspended);
    assert_eq!(kernel.kill(a), KillOutcome::Pending);
    assert!(kernel.end_foreign(a));
    run(&mut kernel, a);
    assert!(kernel.kill_is_due(a));
}

#[test]
fn one_suspended_or_not_started_is_made_runnable() {
    let mut kernel = kernel();
    let options = SpawnOptions {
        suspended: true,
        ..SpawnOptions::default()
    };
    let not_started = kernel.spawn(options, ()).unwrap();
    let suspended = spawn_running(&mut kernel);
    assert_eq!(kernel.suspend(suspended), SuspendOutcome::CurrentMustSwitch);
    for pid in [not_started, suspended] {
        assert_eq!(kernel.kill(pid), KillOutcome::Woken);
        assert_eq!(resume_with(&mut kernel, pid).reason, WakeReason::Killed);
        assert_eq!(kernel.resume(pid), ResumeOutcome::NotSuspended);
    }
}

#[test]
fn what_a_suspended_process_was_given_is_not_taken_back() {
    let mut kernel = kernel();
    let channel = kernel.channel_new(0);
    let a = spawn_running(&mut kernel);
    assert_blocked(kernel.channel_receive(channel, Deadline::Never));
    assert_eq!(kernel.suspend(a), SuspendOutcome::Suspended);
    spawn_running(&mut kernel);
    let attempt = kernel.channel_send(channel, 8, Deadline::Now);
    assert_eq!(reason(attempt), WakeReason::Done);
    assert_eq!(kernel.kill(a), KillOutcome::Woken);
    let wake = resume_with(&mut kernel, a);
    assert_eq!((wake.reason, wake.value), (WakeReason::Done, 8));
    assert!(kernel.kill_is_due(a));
}

#[test]
fn one_whose_kill_is_due_waits_for_nothing() {
    let mut kernel = kernel();
    let semaphore = kernel.semaphore_new(1);
    let mutex = kernel.mutex_new();
    let target = spawn(&mut kernel);
    let a = spawn_running(&mut kernel);
    assert_eq!(kernel.kill(a), KillOutcome::IsCurrent);
    let attempts = [
        kernel.sleep(at(1)),
        kernel.semaphore_wait(semaphore, Deadline::Never),
        kernel.mutex_lock(mutex, Deadline::Never).unwrap(),
        kernel.join(target, Deadline::Never),
        kernel.wait_for_rest(Deadline::Never),
        kernel.select(&[], Deadline::Never, 0),
    ];
    for attempt in attempts {
        assert_eq!(reason(attempt), WakeReason::Killed);
    }
    assert_eq!(kernel.suspend(a), SuspendOutcome::Killed);
    assert_eq!(kernel.semaphore_count(semaphore), 1);
    assert_eq!(kernel.mutex_owner(mutex), None);
}

#[test]
fn a_hold_puts_the_first_kill_off_and_its_end_lets_it_through() {
    let mut kernel = kernel();
    let a = spawn_running(&mut kernel);
    kernel.set_kill_hold(a, true);
    assert_eq!(kernel.kill(a), KillOutcome::Held);
    assert!(!kernel.kill_is_due(a));
    assert!(kernel.holds_kills(a));
    assert_blocked(kernel.sleep(at(5)));
    kernel.expire(at(5));
    assert_eq!(resume_with(&mut kernel, a).reason, WakeReason::Done);
    kernel.set_kill_hold(a, false);
    assert!(kernel.kill_is_due(a));
}

#[test]
fn a_second_kill_abandons_the_hold() {
    let mut kernel = kernel();
    let a = spawn_running(&mut kernel);
    kernel.set_kill_hold(a, true);
    assert_blocked(kernel.sleep(at(5)));
    assert_eq!(kernel.kill(a), KillOutcome::Held);
    assert_eq!(kernel.state(a), State::Sleeping);
    assert_eq!(kernel.kill(a), KillOutcome::Woken);
    assert_eq!(resume_with(&mut kernel, a).reason, WakeReason::Killed);
    assert!(kernel.kill_is_due(a) && kernel.holds_kills(a));
}

#[test]
fn a_hold_that_ends_while_its_process_waits_ends_the_wait() {
    let mut kernel = kernel();
    let a = spawn_running(&mut kernel);
    kernel.set_kill_hold(a, true);
    assert_blocked(kernel.sleep(at(5)));
    assert_eq!(kernel.kill(a), KillOutcome::Held);
    kernel.set_kill_hold(a, false);
    assert_eq!(resume_with(&mut kernel, a).reason, WakeReason::Killed);
}

#[test]
fn one_to_be_fired_by_a_timer_begins_with_its_kill_due() {
    let mut kernel = kernel();
    let prepared = kernel.spawn_prepared(SpawnOptions::default(), ()).unwrap();
    kernel.timer_new(at(5), None, prepared);
    assert_eq!(kernel.kill(prepared), KillOutcome::Pending);
    kernel.expire(at(5));
    run(&mut kernel, prepared);
    assert!(kernel.kill_is_due(prepared));
}

#[test]
fn the_dead_are_not_killed_again() {
    let mut kernel = kernel();
    let a = spawn(&mut kernel);
    end(&mut kernel, a);
    assert_eq!(kernel.kill(a), KillOutcome::AlreadyDead);
    assert_eq!(kernel.counters().kills, 0);
    assert!(!kernel.kill_is_due(a));
}

#[test]
fn a_kill_that_was_not_put_off_again_can_be_put_off_by_the_next_hold() {
    let mut kernel = kernel();
    let mutex = kernel.mutex_new();
    let condition = kernel.condition_new();
    let a = spawn_running(&mut kernel);
    assert_eq!(
        reason(kernel.mutex_lock(mutex, Deadline::Never).unwrap()),
        WakeReason::Done
    );
    assert_blocked(kernel.condition_wait(condition, mutex, Deadline::Never).unwrap());
    let owner = spawn_running(&mut kernel);
    assert_eq!(
        reason(kernel.mutex_lock(mutex, Deadline::Never).unwrap()),
        WakeReason::Done
    );
    // The second kill is for the way back to the mutex.
    let _ = kernel.kill(a);
    assert_eq!(kernel.kill(a), KillOutcome::Woken);
    assert_eq!(kernel.mutex_owner(mutex), Some(owner));
    assert_eq!(resume_with(&mut kernel, a).reason, WakeReason::Killed);
    kernel.set_kill_hold(a, true);
    assert!(!kernel.kill_is_due(a));
    assert_blocked(kernel.sleep(at(5)));
    kernel.set_kill_hold(a, false);
    assert!(kernel.kill_is_due(a));
}
