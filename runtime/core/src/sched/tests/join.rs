//! Joining one process, and waiting for the rest.

use super::*;
use crate::sched::Blocker;

#[test]
fn a_join_ends_when_the_target_does() {
    let mut sched = sched();
    let target = spawn(&mut sched);
    let joiners = [0; 2].map(|_| {
        let pid = spawn_running(&mut sched);
        assert_blocked(sched.join(target, Deadline::Never));
        pid
    });
    assert_eq!(sched.joiner_count(target), 2);
    assert_eq!(sched.blocker(joiners[0]), Some(Blocker::Join(target)));
    end(&mut sched, target);
    assert_eq!(sched.joiner_count(target), 0);
    for joiner in joiners {
        assert_eq!(resume_with(&mut sched, joiner).reason, WakeReason::Done);
    }
}

#[test]
fn joining_the_dead_or_the_forgotten_does_not_wait() {
    let mut sched = sched();
    let target = spawn(&mut sched);
    end(&mut sched, target);
    spawn_running(&mut sched);
    assert_eq!(
        reason(sched.join(target, Deadline::Never)),
        WakeReason::Done
    );
    sched.forget(target);
    assert_eq!(
        reason(sched.join(target, Deadline::Never)),
        WakeReason::Done
    );
}

#[test]
fn joining_oneself_is_refused() {
    let mut sched = sched();
    let me = spawn_running(&mut sched);
    assert_eq!(reason(sched.join(me, Deadline::Never)), WakeReason::Dead);
}

#[test]
fn a_join_times_out() {
    let mut sched = sched();
    let target = spawn(&mut sched);
    let me = spawn_running(&mut sched);
    assert_eq!(
        reason(sched.join(target, Deadline::Now)),
        WakeReason::TimedOut
    );
    assert_blocked(sched.join(target, until(5)));
    sched.expire(at(5));
    assert_eq!(resume_with(&mut sched, me).reason, WakeReason::TimedOut);
    assert_eq!(sched.joiner_count(target), 0);
    end(&mut sched, target);
}

#[test]
fn the_main_process_waits_for_the_rest_but_not_for_daemons() {
    let mut sched = sched();
    let main = spawn_running(&mut sched);
    assert_eq!(
        reason(sched.wait_for_rest(Deadline::Never)),
        WakeReason::Done
    );
    let daemon = SpawnOptions {
        daemon: true,
        ..SpawnOptions::default()
    };
    let daemon = sched.spawn(daemon, ()).unwrap();
    assert_eq!(
        reason(sched.wait_for_rest(Deadline::Never)),
        WakeReason::Done
    );
    let workers = [0; 2].map(|_| spawn(&mut sched));
    assert_eq!(
        reason(sched.wait_for_rest(Deadline::Now)),
        WakeReason::TimedOut
    );
    assert_blocked(sched.wait_for_rest(Deadline::Never));
    assert_eq!(sched.blocker(main), Some(Blocker::Rest));
    end(&mut sched, workers[0]);
    assert_eq!(sched.blocker(main), Some(Blocker::Rest));
    end(&mut sched, workers[1]);
    assert_eq!(resume_with(&mut sched, main).reason, WakeReason::Done);
    assert!(sched.is_alive(daemon));
}

#[test]
fn the_rest_includes_timers_that_are_pending() {
    let mut sched = sched();
    let main = spawn_running(&mut sched);
    let [fired, cancelled] =
        [0; 2].map(|_| sched.spawn_prepared(SpawnOptions::default(), ()).unwrap());
    sched.timer_new(at(5), None, fired);
    let timer = sched.timer_new(at(9), None, cancelled);
    assert_blocked(sched.wait_for_rest(Deadline::Never));
    assert_eq!(sched.expire(at(5)), 1);
    end(&mut sched, fired);
    assert_eq!(sched.blocker(main), Some(Blocker::Rest));
    assert_eq!(sched.timer_cancel(timer), Some(cancelled));
    assert_eq!(resume_with(&mut sched, main).reason, WakeReason::Done);
}

#[test]
fn two_that_wait_for_the_rest_do_not_wait_for_each_other() {
    let mut sched = sched();
    let worker = spawn(&mut sched);
    let waiting = [0; 2].map(|_| {
        let pid = spawn_running(&mut sched);
        assert_blocked(sched.wait_for_rest(Deadline::Never));
        pid
    });
    end(&mut sched, worker);
    for pid in waiting {
        assert_eq!(resume_with(&mut sched, pid).reason, WakeReason::Done);
    }
}

#[test]
fn all_are_blocked_when_nothing_can_ever_happen() {
    let mut sched = sched();
    assert!(!sched.all_blocked(), "no process is blocked");
    let semaphore = sched.semaphore_new(0);
    let a = spawn_running(&mut sched);
    assert!(!sched.all_blocked());
    assert_blocked(sched.semaphore_wait(semaphore, until(5)));
    assert!(!sched.all_blocked());
    sched.expire(at(5));
    assert!(!sched.all_blocked());
    run(&mut sched, a);
    assert_blocked(sched.semaphore_wait(semaphore, Deadline::Never));
    assert!(sched.all_blocked());
}
