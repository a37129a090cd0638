//! Critical sections.

use super::invariants::check;
use super::*;
use crate::sched::NotCritical;
use crate::sched::{Case, KillOutcome, Preemption, State, SuspendOutcome};

/// A process in a critical section.
fn critical(sched: &mut Scheduler<()>) -> ProcessId {
    let pid = spawn_running(sched);
    sched.enter_critical();
    check(sched);
    pid
}

#[test]
fn no_other_process_runs_during_a_critical_section() {
    let mut sched = sched();
    let me = critical(&mut sched);
    let equal = spawn(&mut sched);
    let urgent = spawn_at(&mut sched, 80);
    assert!(sched.is_critical());
    assert!(!sched.current_should_yield());
    assert!(!sched.run_queue_summary().rivals);
    assert!(sched.yield_by_handoff().is_none());
    assert_eq!(sched.yield_current(), Next::Same);
    assert_eq!(sched.yield_to(equal), Next::Same);
    assert_eq!(sched.yield_to(urgent), Next::Same);
    assert_eq!(sched.preempt_current(Preemption::SliceExpired), Next::Same);
    assert_eq!(sched.preempt_current(Preemption::MoreUrgent), Next::Same);
    assert_eq!(sched.current(), Some(me));
    check(&sched);
}

#[test]
fn processes_that_became_runnable_meanwhile_run_after_the_section() {
    let mut sched = sched();
    let me = critical(&mut sched);
    let urgent = spawn_at(&mut sched, 80);
    sched.leave_critical().expect("it is inside");
    check(&sched);
    assert!(!sched.is_critical());
    assert!(sched.current_should_yield());
    assert_eq!(
        sched.preempt_current(Preemption::MoreUrgent),
        Next::Other(urgent)
    );
    assert_eq!(sched.exit_current(), Some(urgent));
    assert_eq!(sched.schedule(), Next::Other(me));
}

#[test]
fn critical_sections_nest() {
    let mut sched = sched();
    critical(&mut sched);
    let urgent = spawn_at(&mut sched, 80);
    sched.enter_critical();
    sched.leave_critical().expect("it is inside");
    assert_eq!(sched.schedule(), Next::Same);
    sched.leave_critical().expect("it is inside");
    assert_eq!(sched.schedule(), Next::Other(urgent));
}

#[test]
fn leaving_more_often_than_entering_is_refused_and_changes_nothing() {
    let mut sched = sched();
    assert_eq!(
        sched.leave_critical(),
        Err(NotCritical),
        "no process is current"
    );
    let me = spawn_running(&mut sched);
    assert_eq!(sched.leave_critical(), Err(NotCritical));
    sched.enter_critical();
    assert!(sched.is_critical());
    assert_eq!(sched.effective_priority(me), Priority::HIGHEST);
    assert_eq!(sched.priority(me), Priority::DEFAULT);
}

#[test]
fn in_a_section_operations_succeed_at_once_or_are_refused() {
    let mut sched = sched();
    let (full, empty) = (sched.semaphore_new(1), sched.semaphore_new(0));
    let (mutex, channel) = (sched.mutex_new(), sched.channel_new(0));
    let other = spawn_running(&mut sched);
    let _ = sched.mutex_lock(mutex, Deadline::Never);
    let me = critical(&mut sched);
    let forbidden = WakeReason::Forbidden;
    assert_eq!(
        reason(sched.semaphore_wait(full, Deadline::Never)),
        WakeReason::Done
    );
    assert_eq!(
        reason(sched.semaphore_wait(empty, Deadline::Never)),
        forbidden
    );
    assert_eq!(
        reason(sched.semaphore_wait(empty, Deadline::Now)),
        WakeReason::TimedOut
    );
    assert_eq!(reason(sched.sleep(at(1000))), forbidden);
    assert_eq!(reason(sched.join(other, Deadline::Never)), forbidden);
    assert_eq!(reason(sched.wait_for_rest(until(1000))), forbidden);
    assert_eq!(
        reason(sched.channel_receive(channel, until(1000))),
        forbidden
    );
    let cases = [Case::Receive(channel), Case::Send(channel, 1)];
    assert_eq!(reason(sched.select(&cases, Deadline::Never, 0)), forbidden);
    assert_eq!(
        reason(sched.mutex_lock(mutex, Deadline::Never).expect("not mine")),
        forbidden
    );
    check(&sched);
    assert_eq!(
        sched.current(),
        Some(me),
        "nothing that was refused has changed anything"
    );
    assert_eq!(sched.next_deadline(), None);
}

#[test]
fn a_condition_that_would_have_to_wait_keeps_the_mutex() {
    let mut sched = sched();
    let (mutex, condition) = (sched.mutex_new(), sched.condition_new());
    let me = critical(&mut sched);
    let _ = sched.mutex_lock(mutex, Deadline::Never);
    let attempt = sched.condition_wait(condition, mutex, Deadline::Never);
    assert_eq!(
        reason(attempt.expect("the mutex is mine")),
        WakeReason::Forbidden
    );
    assert_eq!(sched.mutex_owner(mutex), Some(me));
}

#[test]
fn to_suspend_oneself_leaves_the_section_and_takes_it_again() {
    let mut sched = sched();
    let me = critical(&mut sched);
    sched.enter_critical();
    let other = spawn(&mut sched);
    assert_eq!(sched.suspend(me), SuspendOutcome::CurrentMustSwitch);
    check(&sched);
    assert_eq!(sched.schedule(), Next::Other(other));
    assert!(!sched.is_critical());
    let _ = sched.resume(me);
    check(&sched);
    assert_eq!(
        sched.schedule(),
        Next::Same,
        "a resumed process does not interrupt an equal"
    );
    assert_eq!(sched.yield_current(), Next::Other(me));
    sched.reenter_critical();
    check(&sched);
    sched.leave_critical().expect("it is inside");
    assert!(sched.is_critical(), "as deep as before");
    assert_eq!(sched.yield_current(), Next::Same);
    sched.leave_critical().expect("it is inside");
    assert_eq!(sched.yield_current(), Next::Other(other));
}

#[test]
fn to_suspend_another_does_not_leave_the_section() {
    let mut sched = sched();
    let other = spawn(&mut sched);
    critical(&mut sched);
    assert_eq!(sched.suspend(other), SuspendOutcome::Suspended);
    assert_eq!(sched.state(other), State::Suspended);
    assert!(sched.is_critical());
}

#[test]
fn a_process_suspended_out_of_its_section_can_be_killed() {
    let mut sched = sched();
    let me = critical(&mut sched);
    let other = spawn(&mut sched);
    let _ = sched.suspend(me);
    assert_eq!(sched.schedule(), Next::Other(other));
    assert_eq!(sched.kill(me), KillOutcome::Woken);
    run(&mut sched, me);
    sched.reenter_critical();
    assert_eq!(sched.exit_current(), Some(me));
    check(&sched);
    assert_eq!(sched.schedule(), Next::Other(other));
}

#[test]
fn a_priority_set_inside_takes_effect_after() {
    let mut sched = sched();
    let me = critical(&mut sched);
    let other = spawn(&mut sched);
    sched.set_priority(me, priority(10));
    assert_eq!(sched.schedule(), Next::Same);
    sched.leave_critical().expect("it is inside");
    check(&sched);
    assert_eq!(sched.schedule(), Next::Other(other));
}

#[test]
fn deadlines_that_pass_inside_make_processes_runnable_for_after() {
    let mut sched = sched();
    let sleeper = spawn_running(&mut sched);
    assert_blocked(sched.sleep(at(10)));
    critical(&mut sched);
    sched.expire(at(10));
    assert_eq!(sched.state(sleeper), State::Runnable);
    assert_eq!(sched.yield_current(), Next::Same);
    sched.leave_critical().expect("it is inside");
    assert_eq!(sched.yield_current(), Next::Other(sleeper));
}
