//! Suspending and resuming.

use super::*;
use crate::kernel::{CarrierId, ResumeOutcome, State, SuspendOutcome};

#[test]
fn a_runnable_process_that_is_suspended_does_not_run() {
    let mut kernel = kernel();
    let a = spawn(&mut kernel);
    assert_eq!(kernel.suspend(a), SuspendOutcome::Suspended);
    assert_eq!(kernel.suspend(a), SuspendOutcome::Already);
    assert_eq!(kernel.state(a), State::Suspended);
    assert_eq!(kernel.schedule(), Next::Nothing);
    assert_eq!(kernel.resume(a), ResumeOutcome::Resumed);
    assert_eq!(kernel.resume(a), ResumeOutcome::NotSuspended);
    assert_eq!(kernel.schedule(), Next::Other(a));
}

#[test]
fn one_that_suspends_itself_switches_away() {
    let mut kernel = kernel();
    let a = spawn_running(&mut kernel);
    assert_eq!(kernel.suspend(a), SuspendOutcome::CurrentMustSwitch);
    assert_eq!(kernel.current(), None);
    assert_eq!(kernel.schedule(), Next::Nothing);
    assert!(kernel.all_blocked());
    assert_eq!(kernel.resume(a), ResumeOutcome::Resumed);
    assert_eq!(resume_with(&mut kernel, a).reason, WakeReason::Done);
}

#[test]
fn one_spawned_suspended_begins_when_it_is_resumed() {
    let mut kernel = kernel();
    let options = SpawnOptions {
        suspended: true,
        ..SpawnOptions::default()
    };
    let a = kernel.spawn(options, ()).unwrap();
    assert_eq!(kernel.state(a), State::Suspended);
    assert_eq!(kernel.live_count(), 1);
    assert_eq!(kernel.schedule(), Next::Nothing);
    assert_eq!(kernel.resume(a), ResumeOutcome::Resumed);
    assert_eq!(kernel.schedule(), Next::Other(a));
}

#[test]
fn a_wait_goes_on_while_suspended_and_its_end_is_kept() {
    let mut kernel = kernel();
    let channel = kernel.channel_new(0);
    let a = spawn_running(&mut kernel);
    assert_blocked(kernel.channel_receive(channel, Deadline::Never));
    assert_eq!(kernel.suspend(a), SuspendOutcome::Suspended);
    assert_eq!(kernel.state(a), State::Suspended);
    spawn_running(&mut kernel);
    let attempt = kernel.channel_send(channel, 3, Deadline::Now);
    assert_eq!(reason(attempt), WakeReason::Done);
    assert_eq!(kernel.state(a), State::Suspended);
    assert_eq!(kernel.resume(a), ResumeOutcome::Resumed);
    assert_eq!(resume_with(&mut kernel, a).value, 3);
}

#[test]
fn one_resumed_before_its_wait_ends_waits_on() {
    let mut kernel = kernel();
    let a = spawn_running(&mut kernel);
    assert_blocked(kernel.sleep(at(5)));
    assert_eq!(kernel.suspend(a), SuspendOutcome::Suspended);
    assert_eq!(kernel.state(a), State::Suspended);
    assert_eq!(kernel.resume(a), ResumeOutcome::Resumed);
    assert_eq!(kernel.state(a), State::Sleeping);
    kernel.expire(at(5));
    assert_eq!(resume_with(&mut kernel, a).reason, WakeReason::Done);
}

#[test]
fn one_out_in_a_foreign_call_stops_when_it_returns() {
    let mut kernel = kernel();
    let a = spawn_running(&mut kernel);
    assert!(kernel.begin_foreign(a, CarrierId(0)));
    assert_eq!(kernel.suspend(a), SuspendOutcome::Suspended);
    assert!(kernel.is_foreign(a));
    assert!(kernel.end_foreign(a));
    assert_eq!(kernel.state(a), State::Suspended);
    assert_eq!(kernel.schedule(), Next::Nothing);
    assert_eq!(kernel.resume(a), ResumeOutcome::Resumed);
    assert_eq!(kernel.schedule(), Next::Other(a));
}

#[test]
fn what_a_suspended_process_holds_stays_held() {
    let mut kernel = kernel();
    let mutex = kernel.mutex_new();
    let a = spawn_running(&mut kernel);
    let attempt = kernel.mutex_lock(mutex, Deadline::Never).unwrap();
    assert_eq!(reason(attempt), WakeReason::Done);
    assert_eq!(kernel.suspend(a), SuspendOutcome::CurrentMustSwitch);
    assert_eq!(kernel.mutex_owner(mutex), Some(a));
}

#[test]
fn the_dead_are_neither_suspended_nor_resumed() {
    let mut kernel = kernel();
    let a = spawn(&mut kernel);
    end(&mut kernel, a);
    assert_eq!(kernel.suspend(a), SuspendOutcome::Dead);
    assert_eq!(kernel.resume(a), ResumeOutcome::Dead);
    assert!(!kernel.is_suspended(a));
}

#[test]
fn a_turn_by_suspension_goes_where_the_long_way_does() {
    let mut kernel = kernel();
    let low = spawn(&mut kernel);
    let [a, b] = [60, 60].map(|level| spawn_at(&mut kernel, level));
    run(&mut kernel, a);
    let before = kernel.changes();
    assert!(kernel.suspend_by_turn().is_some());
    assert_ne!(kernel.changes(), before, "one fewer is runnable");
    assert_eq!((kernel.current(), kernel.state(a)), (Some(b), State::Suspended));
    assert!(kernel.suspend_by_turn().is_some(), "to the next level");
    assert_eq!((kernel.current(), kernel.runnable_count()), (Some(low), 0));
    assert!(kernel.suspend_by_turn().is_none(), "nobody else could run");
    assert_eq!(kernel.state(low), State::Running);
    assert_eq!(kernel.counters().switches, 3);

    let equal = spawn(&mut kernel);
    assert_eq!(kernel.resume(b), ResumeOutcome::Resumed);
    assert!(kernel.suspend_by_turn().is_none(), "somebody is more urgent");
    assert_eq!(kernel.schedule(), Next::Other(b));
    assert_eq!(kernel.resume(a), ResumeOutcome::Resumed);
    assert_eq!(order_of_ends(&mut kernel), [b, a, low, equal]);
}

#[test]
fn a_suspension_about_which_more_is_to_be_decided_is_no_turn() {
    let mut kernel = kernel();
    let [me, other] = [spawn(&mut kernel), spawn(&mut kernel)];
    run(&mut kernel, me);
    kernel.enter_critical();
    assert!(kernel.suspend_by_turn().is_none(), "it leaves a critical section");
    kernel.leave_critical().unwrap();
    kernel.set_preemptible(other, false);
    assert!(
        kernel.suspend_by_turn().is_none(),
        "the monitor must hear who is preempted"
    );
    kernel.set_preemptible(other, true);
    kernel.set_pin(other, Some(CarrierId(1)));
    assert!(kernel.suspend_by_turn().is_none(), "the next one may not run at home");
    kernel.set_pin(other, None);
    let _ = kernel.kill(me);
    assert!(kernel.suspend_by_turn().is_none(), "it was killed");
    assert_eq!(kernel.suspend(me), SuspendOutcome::Killed);
    assert_eq!(kernel.current(), Some(me));
}
