//! Joining one, and waiting for the rest.

use super::*;
use crate::kernel::Blocker;

#[test]
fn a_join_ends_when_the_target_does() {
    let mut kernel = kernel();
    let target = spawn(&mut kernel);
    let joiners = [0; 2].map(|_| {
        let pid = spawn_running(&mut kernel);
        assert_blocked(kernel.join(target, Deadline::Never));
        pid
    });
    assert_eq!(kernel.joiner_count(target), 2);
    assert_eq!(kernel.blocker(joiners[0]), Some(Blocker::Join(target)));
    end(&mut kernel, target);
    assert_eq!(kernel.joiner_count(target), 0);
    for joiner in joiners {
        assert_eq!(resume_with(&mut kernel, joiner).reason, WakeReason::Done);
    }
}

#[test]
fn joining_the_dead_or_the_forgotten_does_not_wait() {
    let mut kernel = kernel();
    let target = spawn(&mut kernel);
    end(&mut kernel, target);
    spawn_running(&mut kernel);
    assert_eq!(reason(kernel.join(target, Deadline::Never)), WakeReason::Done);
    kernel.forget(target);
    assert_eq!(reason(kernel.join(target, Deadline::Never)), WakeReason::Done);
}

#[test]
fn joining_oneself_is_refused() {
    let mut kernel = kernel();
    let me = spawn_running(&mut kernel);
    assert_eq!(reason(kernel.join(me, Deadline::Never)), WakeReason::Dead);
}

#[test]
fn a_join_times_out() {
    let mut kernel = kernel();
    let target = spawn(&mut kernel);
    let me = spawn_running(&mut kernel);
    assert_eq!(reason(kernel.join(target, Deadline::Now)), WakeReason::TimedOut);
    assert_blocked(kernel.join(target, until(5)));
    kernel.expire(at(5));
    assert_eq!(resume_with(&mut kernel, me).reason, WakeReason::TimedOut);
    assert_eq!(kernel.joiner_count(target), 0);
    end(&mut kernel, target);
}

#[test]
fn the_main_process_waits_for_the_rest_but_not_for_daemons() {
    let mut kernel = kernel();
    let main = spawn_running(&mut kernel);
    assert_eq!(reason(kernel.wait_for_rest(Deadline::Never)), WakeReason::Done);
    let daemon = SpawnOptions {
        daemon: true,
        ..SpawnOptions::default()
    };
    let daemon = kernel.spawn(daemon, ()).unwrap();
    assert_eq!(reason(kernel.wait_for_rest(Deadline::Never)), WakeReason::Done);
    let workers = [0; 2].map(|_| spawn(&mut kernel));
    assert_eq!(reason(kernel.wait_for_rest(Deadline::Now)), WakeReason::TimedOut);
    assert_blocked(kernel.wait_for_rest(Deadline::Never));
    assert_eq!(kernel.blocker(main), Some(Blocker::Rest));
    end(&mut kernel, workers[0]);
    assert_eq!(kernel.blocker(main), Some(Blocker::Rest));
    end(&mut kernel, workers[1]);
    assert_eq!(resume_with(&mut kernel, main).reason, WakeReason::Done);
    assert!(kernel.is_alive(daemon));
}

#[test]
fn the_rest_includes_timers_that_are_pending() {
    let mut kernel = kernel();
    let main = spawn_running(&mut kernel);
    let [fired, cancelled] = [0; 2].map(|_| kernel.spawn_prepared(SpawnOptions::default(), ()).unwrap());
    kernel.timer_new(at(5), None, fired);
    let timer = kernel.timer_new(at(9), None, cancelled);
    assert_blocked(kernel.wait_for_rest(Deadline::Never));
    assert_eq!(kernel.expire(at(5)), 1);
    end(&mut kernel, fired);
    assert_eq!(kernel.blocker(main), Some(Blocker::Rest));
    assert_eq!(kernel.timer_cancel(timer), Some(cancelled));
    assert_eq!(resume_with(&mut kernel, main).reason, WakeReason::Done);
}

#[test]
fn two_that_wait_for_the_rest_do_not_wait_for_each_other() {
    let mut kernel = kernel();
    let worker = spawn(&mut kernel);
    let waiting = [0; 2].map(|_| {
        let pid = spawn_running(&mut kernel);
        assert_blocked(kernel.wait_for_rest(Deadline::Never));
        pid
    });
    end(&mut kernel, worker);
    for pid in waiting {
        assert_eq!(resume_with(&mut kernel, pid).reason, WakeReason::Done);
    }
}

#[test]
fn all_are_blocked_when_nothing_can_ever_happen() {
    let mut kernel = kernel();
    assert!(!kernel.all_blocked(), "nobody is there to be blocked");
    let semaphore = kernel.semaphore_new(0);
    let a = spawn_running(&mut kernel);
    assert!(!kernel.all_blocked());
    assert_blocked(kernel.semaphore_wait(semaphore, until(5)));
    assert!(!kernel.all_blocked());
    kernel.expire(at(5));
    assert!(!kernel.all_blocked());
    run(&mut kernel, a);
    assert_blocked(kernel.semaphore_wait(semaphore, Deadline::Never));
    assert!(kernel.all_blocked());
}
