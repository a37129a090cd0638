//! What is left in a fork's child.

use super::super::{CarrierId, Case, Deadline, ProcessId, SpawnOptions, State, SuspendOutcome, WakeReason};
use super::invariants::check;
use super::{assert_blocked, at, kernel, priority, reason, run, spawn, spawn_at, spawn_running, until};
use std::time::Duration;

const HOME: CarrierId = CarrierId(0);

#[test]
fn the_survivor_runs_alone_and_can_do_everything() {
    let mut kernel = kernel();
    let others: Vec<ProcessId> = (0..5).map(|_| spawn(&mut kernel)).collect();
    let me = spawn_running(&mut kernel);
    let mut ended = kernel.end_all_but(me, HOME);
    ended.sort_by_key(|pid| pid.to_bits());
    assert_eq!(ended, others);
    check(&kernel);
    assert_eq!(kernel.iter().collect::<Vec<_>>(), [me]);
    assert_eq!(kernel.current(), Some(me));
    assert!(others.iter().all(|&pid| kernel.state(pid) == State::Dead));
    assert_eq!(reason(kernel.join(others[0], Deadline::Never)), WakeReason::Done);
    assert_eq!(reason(kernel.wait_for_rest(Deadline::Never)), WakeReason::Done);
    let child = spawn(&mut kernel);
    assert_blocked(kernel.join(child, Deadline::Never));
    super::end(&mut kernel, child);
    run(&mut kernel, me);
    assert!(others.iter().all(|&pid| kernel.forget(pid)));
    check(&kernel);
}

#[test]
fn those_who_wait_in_any_way_leave_nothing_behind() {
    let mut kernel = kernel();
    let (mutex, condition, event) = (kernel.mutex_new(), kernel.condition_new(), kernel.event_new());
    let (semaphore, channel, queue) = (kernel.semaphore_new(0), kernel.channel_new(0), kernel.wait_queue_new());
    let first = spawn_running(&mut kernel);
    assert_eq!(
        reason(kernel.mutex_lock(mutex, Deadline::Never).expect("nobody holds it")),
        WakeReason::Done
    );
    assert_blocked(
        kernel
            .condition_wait(condition, mutex, Deadline::Never)
            .expect("it holds the mutex"),
    );
    spawn_running(&mut kernel);
    assert_eq!(
        reason(kernel.mutex_lock(mutex, Deadline::Never).expect("nobody holds it")),
        WakeReason::Done
    );
    assert!(kernel.condition_signal(condition));
    assert_blocked(kernel.event_wait(event, until(100)));
    spawn_running(&mut kernel);
    assert_blocked(kernel.semaphore_wait(semaphore, Deadline::Never));
    spawn_running(&mut kernel);
    assert_blocked(kernel.select(&[Case::Receive(channel), Case::Receive(channel)], until(200), 0));
    spawn_running(&mut kernel);
    assert_blocked(kernel.wait(queue, Deadline::Never));
    spawn_running(&mut kernel);
    assert_blocked(kernel.join(first, Deadline::Never));
    spawn_running(&mut kernel);
    assert_blocked(kernel.sleep(at(300)));
    let me = spawn_running(&mut kernel);
    assert_eq!(kernel.end_all_but(me, HOME).len(), 7);
    check(&kernel);
    assert_eq!(kernel.next_deadline(), None);
    assert_eq!(kernel.mutex_owner(mutex), None);
    let locked = kernel.mutex_lock(mutex, Deadline::Never).expect("nobody holds it");
    assert_eq!(reason(locked), WakeReason::Abandoned);
    kernel.semaphore_signal(semaphore, 1);
    assert_eq!(kernel.semaphore_count(semaphore), 1);
    check(&kernel);
}

#[test]
fn timers_do_not_fire_any_more() {
    let mut kernel = kernel();
    let me = spawn_running(&mut kernel);
    let prepared = kernel
        .spawn_prepared(SpawnOptions::default(), ())
        .expect("the limit is far");
    let kept = kernel.timer_new(at(10), Some(Duration::from_nanos(10)), prepared);
    let prepared = kernel
        .spawn_prepared(SpawnOptions::default(), ())
        .expect("the limit is far");
    let detached = kernel.timer_new(at(10), None, prepared);
    kernel.timer_free(detached);
    kernel.end_all_but(me, HOME);
    check(&kernel);
    assert_eq!(kernel.pending_timers(), 0);
    assert_eq!(kernel.expire(at(100)), 0);
    assert_eq!(kernel.timer_cancel(kept), None);
    kernel.timer_free(kept);
    assert_eq!(kernel.iter().collect::<Vec<_>>(), [me]);
    check(&kernel);
}

#[test]
fn a_survivor_whose_call_was_retaken_is_current_again_on_home() {
    let mut kernel = kernel();
    let me = spawn_running(&mut kernel);
    kernel.set_pinned(me, Some(CarrierId(3)));
    let rival = spawn_at(&mut kernel, 70);
    kernel.set_pin(rival, Some(CarrierId(3)));
    assert!(kernel.begin_foreign(me, CarrierId(3)));
    let other = spawn_at(&mut kernel, 60);
    run(&mut kernel, other);
    assert_eq!(kernel.suspend(me), SuspendOutcome::Suspended);
    assert_eq!(kernel.end_all_but(me, HOME).len(), 2);
    check(&kernel);
    assert_eq!(kernel.current(), Some(me));
    assert_eq!(kernel.state(me), State::Running);
    assert_eq!(kernel.effective_carrier(me), Some(HOME));
    assert_eq!((kernel.foreign_count(), kernel.kept_aside_count()), (0, 0));
    assert_eq!(kernel.priority(me), priority(40));
}

#[test]
fn the_dead_are_left_as_they_are() {
    let mut kernel = kernel();
    let dead = spawn(&mut kernel);
    super::end(&mut kernel, dead);
    let me = spawn_running(&mut kernel);
    assert!(kernel.end_all_but(me, HOME).is_empty());
    assert!(kernel.end_all_but(dead, HOME).is_empty());
    assert_eq!(kernel.current(), Some(me));
    check(&kernel);
}
