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
