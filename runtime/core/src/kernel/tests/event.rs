//! Events.

use super::*;
use crate::kernel::{Blocker, State};

#[test]
fn a_set_event_lets_everybody_pass() {
    let mut kernel = kernel();
    let event = kernel.event_new();
    spawn_running(&mut kernel);
    assert_eq!(reason(kernel.event_wait(event, Deadline::Now)), WakeReason::TimedOut);
    assert_eq!(kernel.event_set(event), 0);
    assert!(kernel.event_is_set(event));
    assert_eq!(reason(kernel.event_wait(event, Deadline::Never)), WakeReason::Done);
    assert_eq!(reason(kernel.event_wait(event, Deadline::Now)), WakeReason::Done);
    kernel.event_clear(event);
    assert_eq!(reason(kernel.event_wait(event, Deadline::Now)), WakeReason::TimedOut);
}

#[test]
fn setting_wakes_all_who_wait_in_order() {
    let mut kernel = kernel();
    let event = kernel.event_new();
    let waiting = [0; 3].map(|_| {
        let pid = spawn_running(&mut kernel);
        assert_blocked(kernel.event_wait(event, Deadline::Never));
        pid
    });
    assert_eq!(kernel.blocker(waiting[0]), Some(Blocker::Event(event)));
    assert_eq!(kernel.event_set(event), 3);
    kernel.event_clear(event);
    assert_eq!(order_of_ends(&mut kernel), waiting);
}

#[test]
fn a_wait_for_an_event_times_out() {
    let mut kernel = kernel();
    let event = kernel.event_new();
    let a = spawn_running(&mut kernel);
    assert_blocked(kernel.event_wait(event, until(3)));
    kernel.expire(at(4));
    assert_eq!(resume_with(&mut kernel, a).reason, WakeReason::TimedOut);
    assert_eq!(kernel.event_set(event), 0);
}

#[test]
fn a_freed_event_is_closed() {
    let mut kernel = kernel();
    let event = kernel.event_new();
    let a = spawn_running(&mut kernel);
    assert_blocked(kernel.event_wait(event, Deadline::Never));
    assert_eq!(kernel.state(a), State::Waiting);
    assert!(kernel.event_free(event));
    assert_eq!(resume_with(&mut kernel, a).reason, WakeReason::Closed);
    assert_eq!(reason(kernel.event_wait(event, Deadline::Never)), WakeReason::Closed);
    assert_eq!(kernel.event_set(event), 0);
    assert!(!kernel.event_is_set(event));
    assert!(!kernel.event_free(event));
}
