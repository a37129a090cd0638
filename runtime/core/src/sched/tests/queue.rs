//! Plain wait queues.

use super::*;
use crate::sched::{Blocker, State, WaitQueueId};

fn waiting(sched: &mut Scheduler<()>, queue: WaitQueueId) -> ProcessId {
    let pid = spawn_running(sched);
    assert_blocked(sched.wait(queue, Deadline::Never));
    pid
}

#[test]
fn a_process_is_woken_with_the_reason_and_the_value_of_the_waker() {
    let mut sched = sched();
    let queue = sched.wait_queue_new();
    assert_eq!(sched.wake_one(queue, WakeReason::Done, 1), None);
    let a = waiting(&mut sched, queue);
    let b = waiting(&mut sched, queue);
    assert_eq!(sched.blocker(a), Some(Blocker::Queue(queue)));
    assert_eq!(sched.wait_queue_len(queue), 2);
    assert_eq!(sched.wake_one(queue, WakeReason::Closed, 42), Some(a));
    let wake = resume_with(&mut sched, a);
    assert_eq!(
        wake,
        Wake {
            reason: WakeReason::Closed,
            case: 0,
            value: 42
        }
    );
    assert_eq!(sched.state(b), State::Waiting);
}

#[test]
fn all_are_woken_with_the_same_value() {
    let mut sched = sched();
    let queue = sched.wait_queue_new();
    let waiting = [0; 3].map(|_| waiting(&mut sched, queue));
    assert_eq!(sched.wake_all(queue, WakeReason::Done, 7), 3);
    for pid in waiting {
        assert_eq!(resume_with(&mut sched, pid).value, 7);
    }
}

#[test]
fn a_process_in_the_middle_of_a_queue_can_be_woken() {
    let mut sched = sched();
    let queue = sched.wait_queue_new();
    let other = sched.wait_queue_new();
    let [a, b, c] = [0; 3].map(|_| waiting(&mut sched, queue));
    assert!(!sched.wake_this(other, b, WakeReason::Done, 0));
    assert!(sched.wake_this(queue, b, WakeReason::Done, 9));
    assert!(!sched.wake_this(queue, b, WakeReason::Done, 9));
    assert_eq!(resume_with(&mut sched, b).value, 9);
    assert_eq!(sched.wake_one(queue, WakeReason::Done, 0), Some(a));
    assert_eq!(sched.wake_one(queue, WakeReason::Done, 0), Some(c));
}

#[test]
fn waits_time_out_and_end_with_the_queue() {
    let mut sched = sched();
    let queue = sched.wait_queue_new();
    let a = spawn_running(&mut sched);
    assert_eq!(
        reason(sched.wait(queue, Deadline::Now)),
        WakeReason::TimedOut
    );
    assert_blocked(sched.wait(queue, until(5)));
    sched.expire(at(5));
    assert_eq!(resume_with(&mut sched, a).reason, WakeReason::TimedOut);
    assert_blocked(sched.wait(queue, Deadline::Never));
    assert!(sched.wait_queue_free(queue));
    assert!(!sched.wait_queue_free(queue));
    assert_eq!(resume_with(&mut sched, a).reason, WakeReason::Closed);
    assert_eq!(
        reason(sched.wait(queue, Deadline::Never)),
        WakeReason::Closed
    );
    assert_eq!(sched.wake_all(queue, WakeReason::Done, 0), 0);
    assert_eq!(sched.wait_queue_len(queue), 0);
}
