//! Interrupting a wait.

use super::*;
use crate::kernel::{State, SuspendOutcome};

#[test]
fn an_interrupt_ends_a_wait_or_a_sleep_and_nothing_else() {
    let mut kernel = kernel();
    let semaphore = kernel.semaphore_new(0);
    let waiting = spawn_running(&mut kernel);
    assert_blocked(kernel.semaphore_wait(semaphore, until(9)));
    let sleeping = spawn_running(&mut kernel);
    assert_blocked(kernel.sleep(at(9)));
    for pid in [waiting, sleeping] {
        assert!(kernel.interrupt(pid));
        assert!(!kernel.interrupt(pid), "it waits no more");
        assert_eq!(resume_with(&mut kernel, pid).reason, WakeReason::Interrupted);
    }
    assert_eq!(kernel.next_deadline(), None);
    assert_eq!(kernel.semaphore_signal(semaphore, 1), 0);
    end(&mut kernel, waiting);
    assert!(!kernel.interrupt(waiting));
}

#[test]
fn an_interrupted_process_that_is_suspended_stays_suspended() {
    let mut kernel = kernel();
    let a = spawn_running(&mut kernel);
    assert_blocked(kernel.sleep(at(9)));
    assert_eq!(kernel.suspend(a), SuspendOutcome::Suspended);
    assert!(kernel.interrupt(a));
    assert_eq!(kernel.state(a), State::Suspended);
    let _ = kernel.resume(a);
    assert_eq!(resume_with(&mut kernel, a).reason, WakeReason::Interrupted);
}

#[test]
fn one_interrupted_in_a_conditions_wait_gets_its_mutex_back_first() {
    let mut kernel = kernel();
    let (mutex, condition) = (kernel.mutex_new(), kernel.condition_new());
    let [a, _] = [0; 2].map(|_| {
        let pid = spawn_running(&mut kernel);
        let attempt = kernel.mutex_lock(mutex, Deadline::Never).unwrap();
        assert_eq!(reason(attempt), WakeReason::Done);
        if pid.index() == 0 {
            let attempt = kernel.condition_wait(condition, mutex, Deadline::Never);
            assert_eq!(attempt, Ok(Attempt::Blocked));
        }
        pid
    });
    assert!(kernel.interrupt(a));
    assert!(kernel.interrupt(a), "it waits for the mutex");
    assert_eq!(kernel.state(a), State::Waiting);
    assert_eq!(kernel.mutex_unlock(mutex), Ok(()));
    assert_eq!(resume_with(&mut kernel, a).reason, WakeReason::Interrupted);
    assert_eq!(kernel.mutex_owner(mutex), Some(a));
}
