//! The scheduler in a fork's child.

use super::super::{
    CarrierId, Case, Deadline, ProcessId, SpawnOptions, State, SuspendOutcome, WakeReason,
};
use super::invariants::check;
use super::{
    assert_blocked, at, priority, reason, run, sched, spawn, spawn_at, spawn_running, until,
};
use std::time::Duration;

const HOME: CarrierId = CarrierId(0);

#[test]
fn the_survivor_runs_alone_and_can_do_everything() {
    let mut sched = sched();
    let others: Vec<ProcessId> = (0..5).map(|_| spawn(&mut sched)).collect();
    let me = spawn_running(&mut sched);
    let mut ended = sched.end_all_but(me, HOME);
    ended.sort_by_key(|pid| pid.to_bits());
    assert_eq!(ended, others);
    check(&sched);
    assert_eq!(sched.iter().collect::<Vec<_>>(), [me]);
    assert_eq!(sched.current(), Some(me));
    assert!(others.iter().all(|&pid| sched.state(pid) == State::Dead));
    assert_eq!(
        reason(sched.join(others[0], Deadline::Never)),
        WakeReason::Done
    );
    assert_eq!(
        reason(sched.wait_for_rest(Deadline::Never)),
        WakeReason::Done
    );
    let child = spawn(&mut sched);
    assert_blocked(sched.join(child, Deadline::Never));
    super::end(&mut sched, child);
    run(&mut sched, me);
    assert!(others.iter().all(|&pid| sched.forget(pid)));
    check(&sched);
}

#[test]
fn processes_that_wait_in_any_way_leave_nothing_behind() {
    let mut sched = sched();
    let (mutex, condition, event) = (sched.mutex_new(), sched.condition_new(), sched.event_new());
    let (semaphore, channel, queue) = (
        sched.semaphore_new(0),
        sched.channel_new(0),
        sched.wait_queue_new(),
    );
    let first = spawn_running(&mut sched);
    assert_eq!(
        reason(
            sched
                .mutex_lock(mutex, Deadline::Never)
                .expect("it is free")
        ),
        WakeReason::Done
    );
    assert_blocked(
        sched
            .condition_wait(condition, mutex, Deadline::Never)
            .expect("it holds the mutex"),
    );
    spawn_running(&mut sched);
    assert_eq!(
        reason(
            sched
                .mutex_lock(mutex, Deadline::Never)
                .expect("it is free")
        ),
        WakeReason::Done
    );
    assert!(sched.condition_signal(condition));
    assert_blocked(sched.event_wait(event, until(100)));
    spawn_running(&mut sched);
    assert_blocked(sched.semaphore_wait(semaphore, Deadline::Never));
    spawn_running(&mut sched);
    assert_blocked(sched.select(
        &[Case::Receive(channel), Case::Receive(channel)],
        until(200),
        0,
    ));
    spawn_running(&mut sched);
    assert_blocked(sched.wait(queue, Deadline::Never));
    spawn_running(&mut sched);
    assert_blocked(sched.join(first, Deadline::Never));
    spawn_running(&mut sched);
    assert_blocked(sched.sleep(at(300)));
    let me = spawn_running(&mut sched);
    assert_eq!(sched.end_all_but(me, HOME).len(), 7);
    check(&sched);
    assert_eq!(sched.next_deadline(), None);
    assert_eq!(sched.mutex_owner(mutex), None);
    let locked = sched
        .mutex_lock(mutex, Deadline::Never)
        .expect("it is free");
    assert_eq!(reason(locked), WakeReason::Abandoned);
    sched.semaphore_signal(semaphore, 1);
    assert_eq!(sched.semaphore_count(semaphore), 1);
    check(&sched);
}

#[test]
fn timers_do_not_fire_any_more() {
    let mut sched = sched();
    let me = spawn_running(&mut sched);
    let prepared = sched
        .spawn_prepared(SpawnOptions::default(), ())
        .expect("the limit is far");
    let kept = sched.timer_new(at(10), Some(Duration::from_nanos(10)), prepared);
    let prepared = sched
        .spawn_prepared(SpawnOptions::default(), ())
        .expect("the limit is far");
    let detached = sched.timer_new(at(10), None, prepared);
    sched.timer_free(detached);
    sched.end_all_but(me, HOME);
    check(&sched);
    assert_eq!(sched.pending_timers(), 0);
    assert_eq!(sched.expire(at(100)), 0);
    assert_eq!(sched.timer_cancel(kept), None);
    sched.timer_free(kept);
    assert_eq!(sched.iter().collect::<Vec<_>>(), [me]);
    check(&sched);
}

#[test]
fn a_survivor_whose_call_was_retaken_is_current_again_on_home() {
    let mut sched = sched();
    let me = spawn_running(&mut sched);
    sched.set_pinned(me, Some(CarrierId(3)));
    let rival = spawn_at(&mut sched, 70);
    sched.set_pin(rival, Some(CarrierId(3)));
    assert!(sched.begin_foreign(me, CarrierId(3)));
    let other = spawn_at(&mut sched, 60);
    run(&mut sched, other);
    assert_eq!(sched.suspend(me), SuspendOutcome::Suspended);
    assert_eq!(sched.end_all_but(me, HOME).len(), 2);
    check(&sched);
    assert_eq!(sched.current(), Some(me));
    assert_eq!(sched.state(me), State::Running);
    assert_eq!(sched.effective_carrier(me), Some(HOME));
    assert_eq!((sched.foreign_count(), sched.kept_aside_count()), (0, 0));
    assert_eq!(sched.priority(me), priority(40));
}

#[test]
fn the_dead_are_left_as_they_are() {
    let mut sched = sched();
    let dead = spawn(&mut sched);
    super::end(&mut sched, dead);
    let me = spawn_running(&mut sched);
    assert!(sched.end_all_but(me, HOME).is_empty());
    assert!(sched.end_all_but(dead, HOME).is_empty());
    assert_eq!(sched.current(), Some(me));
    check(&sched);
}

#[test]
fn an_alarm_goes_off_in_the_child_too_and_others_wait_for_it_no_more() {
    let mut sched = sched();
    let alarm = sched.alarm_new(at(100));
    spawn_running(&mut sched);
    assert_blocked(sched.alarm_wait(alarm, Deadline::Never));
    let me = spawn_running(&mut sched);
    sched.end_all_but(me, HOME);
    check(&sched);
    assert_blocked(sched.alarm_wait(alarm, Deadline::Never));
    assert_eq!(sched.expire(at(100)), 1);
    assert_eq!(super::resume_with(&mut sched, me).reason, WakeReason::Done);
    check(&sched);
}
