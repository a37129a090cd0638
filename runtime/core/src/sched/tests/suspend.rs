//! Suspending and resuming.

use super::*;
use crate::sched::{CarrierId, ResumeOutcome, State, SuspendOutcome};

#[test]
fn a_runnable_process_that_is_suspended_does_not_run() {
    let mut sched = sched();
    let a = spawn(&mut sched);
    assert_eq!(sched.suspend(a), SuspendOutcome::Suspended);
    assert_eq!(sched.suspend(a), SuspendOutcome::Already);
    assert_eq!(sched.state(a), State::Suspended);
    assert_eq!(sched.schedule(), Next::Nothing);
    assert_eq!(sched.resume(a), ResumeOutcome::Resumed);
    assert_eq!(sched.resume(a), ResumeOutcome::NotSuspended);
    assert_eq!(sched.schedule(), Next::Other(a));
}

#[test]
fn a_process_that_suspends_itself_switches_away() {
    let mut sched = sched();
    let a = spawn_running(&mut sched);
    assert_eq!(sched.suspend(a), SuspendOutcome::CurrentMustSwitch);
    assert_eq!(sched.current(), None);
    assert_eq!(sched.schedule(), Next::Nothing);
    assert!(sched.all_blocked());
    assert_eq!(sched.resume(a), ResumeOutcome::Resumed);
    assert_eq!(resume_with(&mut sched, a).reason, WakeReason::Done);
}

#[test]
fn a_process_spawned_suspended_begins_when_it_is_resumed() {
    let mut sched = sched();
    let options = SpawnOptions {
        suspended: true,
        ..SpawnOptions::default()
    };
    let a = sched.spawn(options, ()).unwrap();
    assert_eq!(sched.state(a), State::Suspended);
    assert_eq!(sched.live_count(), 1);
    assert_eq!(sched.schedule(), Next::Nothing);
    assert_eq!(sched.resume(a), ResumeOutcome::Resumed);
    assert_eq!(sched.schedule(), Next::Other(a));
}

#[test]
fn a_wait_goes_on_while_suspended_and_its_end_is_kept() {
    let mut sched = sched();
    let channel = sched.channel_new(0);
    let a = spawn_running(&mut sched);
    assert_blocked(sched.channel_receive(channel, Deadline::Never));
    assert_eq!(sched.suspend(a), SuspendOutcome::Suspended);
    assert_eq!(sched.state(a), State::Suspended);
    spawn_running(&mut sched);
    let attempt = sched.channel_send(channel, 3, Deadline::Now);
    assert_eq!(reason(attempt), WakeReason::Done);
    assert_eq!(sched.state(a), State::Suspended);
    assert_eq!(sched.resume(a), ResumeOutcome::Resumed);
    assert_eq!(resume_with(&mut sched, a).value, 3);
}

#[test]
fn a_process_resumed_before_its_wait_ends_continues_to_wait() {
    let mut sched = sched();
    let a = spawn_running(&mut sched);
    assert_blocked(sched.sleep(at(5)));
    assert_eq!(sched.suspend(a), SuspendOutcome::Suspended);
    assert_eq!(sched.state(a), State::Suspended);
    assert_eq!(sched.resume(a), ResumeOutcome::Resumed);
    assert_eq!(sched.state(a), State::Sleeping);
    sched.expire(at(5));
    assert_eq!(resume_with(&mut sched, a).reason, WakeReason::Done);
}

#[test]
fn a_suspended_process_in_a_foreign_call_stops_when_it_returns() {
    let mut sched = sched();
    let a = spawn_running(&mut sched);
    assert!(sched.begin_foreign(a, CarrierId(0)));
    assert_eq!(sched.suspend(a), SuspendOutcome::Suspended);
    assert!(sched.is_foreign(a));
    assert!(sched.end_foreign(a));
    assert_eq!(sched.state(a), State::Suspended);
    assert_eq!(sched.schedule(), Next::Nothing);
    assert_eq!(sched.resume(a), ResumeOutcome::Resumed);
    assert_eq!(sched.schedule(), Next::Other(a));
}

#[test]
fn a_suspended_process_keeps_its_locks() {
    let mut sched = sched();
    let mutex = sched.mutex_new();
    let a = spawn_running(&mut sched);
    let attempt = sched.mutex_lock(mutex, Deadline::Never).unwrap();
    assert_eq!(reason(attempt), WakeReason::Done);
    assert_eq!(sched.suspend(a), SuspendOutcome::CurrentMustSwitch);
    assert_eq!(sched.mutex_owner(mutex), Some(a));
}

#[test]
fn the_dead_are_neither_suspended_nor_resumed() {
    let mut sched = sched();
    let a = spawn(&mut sched);
    end(&mut sched, a);
    assert_eq!(sched.suspend(a), SuspendOutcome::Dead);
    assert_eq!(sched.resume(a), ResumeOutcome::Dead);
    assert!(!sched.is_suspended(a));
}

#[test]
fn a_handoff_by_suspension_goes_where_the_slow_path_does() {
    let mut sched = sched();
    let low = spawn(&mut sched);
    let [a, b] = [60, 60].map(|level| spawn_at(&mut sched, level));
    run(&mut sched, a);
    let before = sched.changes();
    assert!(sched.suspend_by_handoff().is_some());
    assert_ne!(sched.changes(), before, "one fewer is runnable");
    assert_eq!(
        (sched.current(), sched.state(a)),
        (Some(b), State::Suspended)
    );
    assert!(sched.suspend_by_handoff().is_some(), "to the next level");
    assert_eq!((sched.current(), sched.runnable_count()), (Some(low), 0));
    assert!(
        sched.suspend_by_handoff().is_none(),
        "no other process could run"
    );
    assert_eq!(sched.state(low), State::Running);
    assert_eq!(sched.counters().switches, 3);

    let equal = spawn(&mut sched);
    assert_eq!(sched.resume(b), ResumeOutcome::Resumed);
    assert!(
        sched.suspend_by_handoff().is_none(),
        "another process is more urgent"
    );
    assert_eq!(sched.schedule(), Next::Other(b));
    assert_eq!(sched.resume(a), ResumeOutcome::Resumed);
    assert_eq!(order_of_ends(&mut sched), [b, a, low, equal]);
}

#[test]
fn a_suspension_that_needs_the_slow_path_is_no_handoff() {
    let mut sched = sched();
    let [me, other] = [spawn(&mut sched), spawn(&mut sched)];
    run(&mut sched, me);
    sched.enter_critical();
    assert!(
        sched.suspend_by_handoff().is_none(),
        "it leaves a critical section"
    );
    sched.leave_critical().unwrap();
    sched.set_preemptible(other, false);
    assert!(
        sched.suspend_by_handoff().is_none(),
        "the monitor needs the hint whether the process is preemptible"
    );
    sched.set_preemptible(other, true);
    sched.set_pin(other, Some(CarrierId(1)));
    assert!(
        sched.suspend_by_handoff().is_none(),
        "the next one may not run at home"
    );
    sched.set_pin(other, None);
    let _ = sched.kill(me);
    assert!(sched.suspend_by_handoff().is_none(), "it was killed");
    assert_eq!(sched.suspend(me), SuspendOutcome::Killed);
    assert_eq!(sched.current(), Some(me));
}
