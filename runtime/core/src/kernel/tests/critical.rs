//! Critical sections.

use super::invariants::check;
use super::*;
use crate::kernel::NotCritical;
use crate::kernel::{Case, KillOutcome, Preemption, State, SuspendOutcome};

/// A process in a critical section.
fn critical(kernel: &mut Kernel<()>) -> ProcessId {
    let pid = spawn_running(kernel);
    kernel.enter_critical();
    check(kernel);
    pid
}

#[test]
fn nobody_takes_the_place_of_a_process_in_a_critical_section() {
    let mut kernel = kernel();
    let me = critical(&mut kernel);
    let equal = spawn(&mut kernel);
    let urgent = spawn_at(&mut kernel, 80);
    assert!(kernel.is_critical());
    assert!(!kernel.current_should_yield());
    assert!(!kernel.standing().rivals);
    assert!(kernel.yield_by_turn().is_none());
    assert_eq!(kernel.yield_current(), Next::Same);
    assert_eq!(kernel.yield_to(equal), Next::Same);
    assert_eq!(kernel.yield_to(urgent), Next::Same);
    assert_eq!(kernel.preempt_current(Preemption::SliceExpired), Next::Same);
    assert_eq!(kernel.preempt_current(Preemption::MoreUrgent), Next::Same);
    assert_eq!(kernel.current(), Some(me));
    check(&kernel);
}

#[test]
fn who_became_runnable_meanwhile_runs_after_the_section() {
    let mut kernel = kernel();
    let me = critical(&mut kernel);
    let urgent = spawn_at(&mut kernel, 80);
    kernel.leave_critical().expect("it is inside");
    check(&kernel);
    assert!(!kernel.is_critical());
    assert!(kernel.current_should_yield());
    assert_eq!(kernel.preempt_current(Preemption::MoreUrgent), Next::Other(urgent));
    assert_eq!(kernel.exit_current(), Some(urgent));
    assert_eq!(kernel.schedule(), Next::Other(me));
}

#[test]
fn critical_sections_nest() {
    let mut kernel = kernel();
    critical(&mut kernel);
    let urgent = spawn_at(&mut kernel, 80);
    kernel.enter_critical();
    kernel.leave_critical().expect("it is inside");
    assert_eq!(kernel.schedule(), Next::Same);
    kernel.leave_critical().expect("it is inside");
    assert_eq!(kernel.schedule(), Next::Other(urgent));
}

#[test]
fn leaving_more_often_than_entering_is_refused_and_changes_nothing() {
    let mut kernel = kernel();
    assert_eq!(kernel.leave_critical(), Err(NotCritical), "nobody is current");
    let me = spawn_running(&mut kernel);
    assert_eq!(kernel.leave_critical(), Err(NotCritical));
    kernel.enter_critical();
    assert!(kernel.is_critical());
    assert_eq!(kernel.effective_priority(me), Priority::HIGHEST);
    assert_eq!(kernel.priority(me), Priority::DEFAULT);
}

#[test]
fn what_can_be_had_at_once_is_had_and_what_cannot_is_refused() {
    let mut kernel = kernel();
    let (full, empty) = (kernel.semaphore_new(1), kernel.semaphore_new(0));
    let (mutex, channel) = (kernel.mutex_new(), kernel.channel_new(0));
    let other = spawn_running(&mut kernel);
    let _ = kernel.mutex_lock(mutex, Deadline::Never);
    let me = critical(&mut kernel);
    let forbidden = WakeReason::Forbidden;
    assert_eq!(reason(kernel.semaphore_wait(full, Deadline::Never)), WakeReason::Done);
    assert_eq!(reason(kernel.semaphore_wait(empty, Deadline::Never)), forbidden);
    assert_eq!(
        reason(kernel.semaphore_wait(empty, Deadline::Now)),
        WakeReason::TimedOut
    );
    assert_eq!(reason(kernel.sleep(at(1000))), forbidden);
    assert_eq!(reason(kernel.join(other, Deadline::Never)), forbidden);
    assert_eq!(reason(kernel.wait_for_rest(until(1000))), forbidden);
    assert_eq!(reason(kernel.channel_receive(channel, until(1000))), forbidden);
    let cases = [Case::Receive(channel), Case::Send(channel, 1)];
    assert_eq!(reason(kernel.select(&cases, Deadline::Never, 0)), forbidden);
    assert_eq!(
        reason(kernel.mutex_lock(mutex, Deadline::Never).expect("not mine")),
        forbidden
    );
    check(&kernel);
    assert_eq!(
        kernel.current(),
        Some(me),
        "nothing that was refused has changed anything"
    );
    assert_eq!(kernel.next_deadline(), None);
}

#[test]
fn a_condition_that_would_have_to_wait_keeps_the_mutex() {
    let mut kernel = kernel();
    let (mutex, condition) = (kernel.mutex_new(), kernel.condition_new());
    let me = critical(&mut kernel);
    let _ = kernel.mutex_lock(mutex, Deadline::Never);
    let attempt = kernel.condition_wait(condition, mutex, Deadline::Never);
    assert_eq!(reason(attempt.expect("the mutex is mine")), WakeReason::Forbidden);
    assert_eq!(kernel.mutex_owner(mutex), Some(me));
}

#[test]
fn to_suspend_oneself_leaves_the_section_and_takes_it_again() {
    let mut kernel = kernel();
    let me = critical(&mut kernel);
    kernel.enter_critical();
    let other = spawn(&mut kernel);
    assert_eq!(kernel.suspend(me), SuspendOutcome::CurrentMustSwitch);
    check(&kernel);
    assert_eq!(kernel.schedule(), Next::Other(other));
    assert!(!kernel.is_critical());
    let _ = kernel.resume(me);
    check(&kernel);
    assert_eq!(
        kernel.schedule(),
        Next::Same,
        "who is resumed does not interrupt an equal"
    );
    assert_eq!(kernel.yield_current(), Next::Other(me));
    kernel.reenter_critical();
    check(&kernel);
    kernel.leave_critical().expect("it is inside");
    assert!(kernel.is_critical(), "as deep as before");
    assert_eq!(kernel.yield_current(), Next::Same);
    kernel.leave_critical().expect("it is inside");
    assert_eq!(kernel.yield_current(), Next::Other(other));
}

#[test]
fn to_suspend_another_does_not_leave_the_section() {
    let mut kernel = kernel();
    let other = spawn(&mut kernel);
    critical(&mut kernel);
    assert_eq!(kernel.suspend(other), SuspendOutcome::Suspended);
    assert_eq!(kernel.state(other), State::Suspended);
    assert!(kernel.is_critical());
}

#[test]
fn a_process_suspended_out_of_its_section_can_be_killed() {
    let mut kernel = kernel();
    let me = critical(&mut kernel);
    let other = spawn(&mut kernel);
    let _ = kernel.suspend(me);
    assert_eq!(kernel.schedule(), Next::Other(other));
    assert_eq!(kernel.kill(me), KillOutcome::Woken);
    run(&mut kernel, me);
    kernel.reenter_critical();
    assert_eq!(kernel.exit_current(), Some(me));
    check(&kernel);
    assert_eq!(kernel.schedule(), Next::Other(other));
}

#[test]
fn a_priority_set_inside_takes_effect_after() {
    let mut kernel = kernel();
    let me = critical(&mut kernel);
    let other = spawn(&mut kernel);
    kernel.set_priority(me, priority(10));
    assert_eq!(kernel.schedule(), Next::Same);
    kernel.leave_critical().expect("it is inside");
    check(&kernel);
    assert_eq!(kernel.schedule(), Next::Other(other));
}

#[test]
fn deadlines_that_pass_inside_make_processes_runnable_for_after() {
    let mut kernel = kernel();
    let sleeper = spawn_running(&mut kernel);
    assert_blocked(kernel.sleep(at(10)));
    critical(&mut kernel);
    kernel.expire(at(10));
    assert_eq!(kernel.state(sleeper), State::Runnable);
    assert_eq!(kernel.yield_current(), Next::Same);
    kernel.leave_critical().expect("it is inside");
    assert_eq!(kernel.yield_current(), Next::Other(sleeper));
}
