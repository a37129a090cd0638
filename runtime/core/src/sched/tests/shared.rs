//! Waits for objects that several VMs share.

use super::*;
use crate::sched::{Blocker, Case, SharedKind, SharedWaitId, ThreadNames, Wording, describe_wait};

fn wait_new(sched: &mut Scheduler<()>) -> SharedWaitId {
    sched.shared_wait_new(SharedKind::Receive, "")
}

#[test]
fn a_wake_up_before_the_wait_is_noted() {
    let mut sched = sched();
    spawn_running(&mut sched);
    let wait = wait_new(&mut sched);
    assert!(!sched.shared_wait_is_over(wait));
    assert!(sched.shared_wake(wait));
    assert!(sched.shared_wait_is_over(wait));
    assert_eq!(
        reason(sched.shared_wait(wait, Deadline::Never)),
        WakeReason::Done
    );
    assert_eq!(sched.shared_waits(), 0);
}

#[test]
fn a_second_wake_up_does_nothing() {
    let mut sched = sched();
    let waiter = spawn_running(&mut sched);
    let wait = wait_new(&mut sched);
    assert_blocked(sched.shared_wait(wait, Deadline::Never));
    assert!(sched.shared_wake(wait));
    assert!(!sched.shared_wake(wait));
    assert_eq!(resume_with(&mut sched, waiter).reason, WakeReason::Done);
}

#[test]
fn a_wait_that_ends_otherwise_is_not_counted_any_more() {
    let mut sched = sched();
    let (late, killed) = (spawn_running(&mut sched), spawn(&mut sched));
    let wait = wait_new(&mut sched);
    assert_eq!(
        reason(sched.shared_wait(wait, Deadline::Now)),
        WakeReason::TimedOut
    );
    assert_blocked(sched.shared_wait(wait, until(3)));
    run(&mut sched, killed);
    let other = wait_new(&mut sched);
    assert_blocked(sched.shared_wait(other, Deadline::Never));
    assert_eq!(sched.shared_waits(), 2);
    sched.expire(at(4));
    assert_eq!(sched.shared_waits(), 1);
    let _ = sched.kill(killed);
    assert_eq!(sched.shared_waits(), 0);
    assert_eq!(resume_with(&mut sched, late).reason, WakeReason::TimedOut);
}

#[test]
fn a_wait_that_was_forgotten_is_no_wait_and_its_id_is_not_used_again() {
    let mut sched = sched();
    spawn_running(&mut sched);
    let wait = wait_new(&mut sched);
    assert!(sched.shared_wait_free(wait));
    assert!(!sched.shared_wait_free(wait));
    let next = wait_new(&mut sched);
    assert!(!sched.shared_wake(wait));
    assert!(!sched.shared_wait_is_over(next));
    assert_eq!(
        reason(sched.shared_wait(wait, Deadline::Never)),
        WakeReason::Closed
    );
}

#[test]
fn it_is_a_case_of_a_select_beside_others() {
    let mut sched = sched();
    let waiter = spawn_running(&mut sched);
    let (event, wait) = (sched.event_new(), wait_new(&mut sched));
    let cases = [Case::Event(event), Case::Shared(wait)];
    assert_blocked(sched.select(&cases, Deadline::Never, 0));
    assert_eq!(sched.shared_waits(), 1);
    sched.shared_wake(wait);
    let wake = resume_with(&mut sched, waiter);
    assert_eq!((wake.reason, wake.case), (WakeReason::Done, 1));
    sched.event_set(event);
    let Attempt::Ready(wake) = sched.select(&cases, Deadline::Never, 1) else {
        panic!("both are ready");
    };
    assert_eq!((wake.reason, wake.case), (WakeReason::Done, 1));
}

#[test]
fn a_report_names_the_object() {
    let mut sched = sched();
    let waiter = spawn_running(&mut sched);
    let wait = sched.shared_wait_new(SharedKind::Send, "jobs");
    assert_blocked(sched.shared_wait(wait, Deadline::Never));
    let told =
        |sched: &Scheduler<()>| describe_wait(sched, &Wording::PLAIN, &ThreadNames::new(), waiter);
    assert_eq!(told(&sched), "to send to the channel between VMs 'jobs'");
    assert_eq!(
        sched.blocker(waiter),
        Some(Blocker::Shared(wait, SharedKind::Send))
    );
    assert!(sched.all_blocked());
    sched.shared_wait_free(wait);
    assert_eq!(told(&sched), "");
}
