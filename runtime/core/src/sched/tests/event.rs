//! Events.

use super::*;
use crate::sched::{Blocker, State};

#[test]
fn a_set_event_lets_every_process_pass() {
    let mut sched = sched();
    let event = sched.event_new();
    spawn_running(&mut sched);
    assert_eq!(
        reason(sched.event_wait(event, Deadline::Now)),
        WakeReason::TimedOut
    );
    assert_eq!(sched.event_set(event), 0);
    assert!(sched.event_is_set(event));
    assert_eq!(
        reason(sched.event_wait(event, Deadline::Never)),
        WakeReason::Done
    );
    assert_eq!(
        reason(sched.event_wait(event, Deadline::Now)),
        WakeReason::Done
    );
    sched.event_clear(event);
    assert_eq!(
        reason(sched.event_wait(event, Deadline::Now)),
        WakeReason::TimedOut
    );
}

#[test]
fn setting_an_event_wakes_all_waiters_in_order() {
    let mut sched = sched();
    let event = sched.event_new();
    let waiting = [0; 3].map(|_| {
        let pid = spawn_running(&mut sched);
        assert_blocked(sched.event_wait(event, Deadline::Never));
        pid
    });
    assert_eq!(sched.blocker(waiting[0]), Some(Blocker::Event(event)));
    assert_eq!(sched.event_set(event), 3);
    sched.event_clear(event);
    assert_eq!(order_of_ends(&mut sched), waiting);
}

#[test]
fn a_wait_for_an_event_times_out() {
    let mut sched = sched();
    let event = sched.event_new();
    let a = spawn_running(&mut sched);
    assert_blocked(sched.event_wait(event, until(3)));
    sched.expire(at(4));
    assert_eq!(resume_with(&mut sched, a).reason, WakeReason::TimedOut);
    assert_eq!(sched.event_set(event), 0);
}

#[test]
fn a_freed_event_is_closed() {
    let mut sched = sched();
    let event = sched.event_new();
    let a = spawn_running(&mut sched);
    assert_blocked(sched.event_wait(event, Deadline::Never));
    assert_eq!(sched.state(a), State::Waiting);
    assert!(sched.event_free(event));
    assert_eq!(resume_with(&mut sched, a).reason, WakeReason::Closed);
    assert_eq!(
        reason(sched.event_wait(event, Deadline::Never)),
        WakeReason::Closed
    );
    assert_eq!(sched.event_set(event), 0);
    assert!(!sched.event_is_set(event));
    assert!(!sched.event_free(event));
}
