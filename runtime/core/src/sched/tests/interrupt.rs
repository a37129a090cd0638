//! Interrupting a wait.

use super::*;
use crate::sched::{State, SuspendOutcome};

#[test]
fn an_interrupt_ends_a_wait_or_a_sleep_and_nothing_else() {
    let mut sched = sched();
    let semaphore = sched.semaphore_new(0);
    let waiting = spawn_running(&mut sched);
    assert_blocked(sched.semaphore_wait(semaphore, until(9)));
    let sleeping = spawn_running(&mut sched);
    assert_blocked(sched.sleep(at(9)));
    for pid in [waiting, sleeping] {
        assert!(sched.interrupt(pid));
        assert!(!sched.interrupt(pid), "it waits no more");
        assert_eq!(resume_with(&mut sched, pid).reason, WakeReason::Interrupted);
    }
    assert_eq!(sched.next_deadline(), None);
    assert_eq!(sched.semaphore_signal(semaphore, 1), 0);
    end(&mut sched, waiting);
    assert!(!sched.interrupt(waiting));
}

#[test]
fn an_interrupted_process_that_is_suspended_stays_suspended() {
    let mut sched = sched();
    let a = spawn_running(&mut sched);
    assert_blocked(sched.sleep(at(9)));
    assert_eq!(sched.suspend(a), SuspendOutcome::Suspended);
    assert!(sched.interrupt(a));
    assert_eq!(sched.state(a), State::Suspended);
    let _ = sched.resume(a);
    assert_eq!(resume_with(&mut sched, a).reason, WakeReason::Interrupted);
}

#[test]
fn a_process_interrupted_in_a_conditions_wait_gets_its_mutex_back_first() {
    let mut sched = sched();
    let (mutex, condition) = (sched.mutex_new(), sched.condition_new());
    let [a, _] = [0; 2].map(|_| {
        let pid = spawn_running(&mut sched);
        let attempt = sched.mutex_lock(mutex, Deadline::Never).unwrap();
        assert_eq!(reason(attempt), WakeReason::Done);
        if pid.index() == 0 {
            let attempt = sched.condition_wait(condition, mutex, Deadline::Never);
            assert_eq!(attempt, Ok(Attempt::Blocked));
        }
        pid
    });
    assert!(sched.interrupt(a));
    assert!(sched.interrupt(a), "it waits for the mutex");
    assert_eq!(sched.state(a), State::Waiting);
    assert_eq!(sched.mutex_unlock(mutex), Ok(()));
    assert_eq!(resume_with(&mut sched, a).reason, WakeReason::Interrupted);
    assert_eq!(sched.mutex_owner(mutex), Some(a));
}
