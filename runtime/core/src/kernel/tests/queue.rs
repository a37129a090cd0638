//! Bare wait queues.

use super::*;
use crate::kernel::{Blocker, State, WaitQueueId};

fn waiting(kernel: &mut Kernel<()>, queue: WaitQueueId) -> ProcessId {
    let pid = spawn_running(kernel);
    assert_blocked(kernel.wait(queue, Deadline::Never));
    pid
}

#[test]
fn one_is_woken_with_the_reason_and_the_value_of_the_waker() {
    let mut kernel = kernel();
    let queue = kernel.wait_queue_new();
    assert_eq!(kernel.wake_one(queue, WakeReason::Done, 1), None);
    let a = waiting(&mut kernel, queue);
    let b = waiting(&mut kernel, queue);
    assert_eq!(kernel.blocker(a), Some(Blocker::Queue(queue)));
    assert_eq!(kernel.wait_queue_len(queue), 2);
    assert_eq!(kernel.wake_one(queue, WakeReason::Closed, 42), Some(a));
    let wake = resume_with(&mut kernel, a);
    assert_eq!(
        wake,
        Wake {
            reason: WakeReason::Closed,
            case: 0,
            value: 42
        }
    );
    assert_eq!(kernel.state(b), State::Waiting);
}

#[test]
fn all_are_woken_with_the_same_value() {
    let mut kernel = kernel();
    let queue = kernel.wait_queue_new();
    let waiting = [0; 3].map(|_| waiting(&mut kernel, queue));
    assert_eq!(kernel.wake_all(queue, WakeReason::Done, 7), 3);
    for pid in waiting {
        assert_eq!(resume_with(&mut kernel, pid).value, 7);
    }
}

#[test]
fn one_in_the_middle_can_be_woken() {
    let mut kernel = kernel();
    let queue = kernel.wait_queue_new();
    let other = kernel.wait_queue_new();
    let [a, b, c] = [0; 3].map(|_| waiting(&mut kernel, queue));
    assert!(!kernel.wake_this(other, b, WakeReason::Done, 0));
    assert!(kernel.wake_this(queue, b, WakeReason::Done, 9));
    assert!(!kernel.wake_this(queue, b, WakeReason::Done, 9));
    assert_eq!(resume_with(&mut kernel, b).value, 9);
    assert_eq!(kernel.wake_one(queue, WakeReason::Done, 0), Some(a));
    assert_eq!(kernel.wake_one(queue, WakeReason::Done, 0), Some(c));
}

#[test]
fn waits_time_out_and_end_with_the_queue() {
    let mut kernel = kernel();
    let queue = kernel.wait_queue_new();
    let a = spawn_running(&mut kernel);
    assert_eq!(reason(kernel.wait(queue, Deadline::Now)), WakeReason::TimedOut);
    assert_blocked(kernel.wait(queue, until(5)));
    kernel.expire(at(5));
    assert_eq!(resume_with(&mut kernel, a).reason, WakeReason::TimedOut);
    assert_blocked(kernel.wait(queue, Deadline::Never));
    assert!(kernel.wait_queue_free(queue));
    assert!(!kernel.wait_queue_free(queue));
    assert_eq!(resume_with(&mut kernel, a).reason, WakeReason::Closed);
    assert_eq!(reason(kernel.wait(queue, Deadline::Never)), WakeReason::Closed);
    assert_eq!(kernel.wake_all(queue, WakeReason::Done, 0), 0);
    assert_eq!(kernel.wait_queue_len(queue), 0);
}
