//! Conditions.

use super::*;
use crate::sched::{Blocker, ConditionId, KillOutcome, MutexId, NotOwner, State};

struct Scene {
    sched: Scheduler<()>,
    mutex: MutexId,
    condition: ConditionId,
}

impl Scene {
    fn new() -> Scene {
        let mut sched = sched();
        let mutex = sched.mutex_new();
        let condition = sched.condition_new();
        Scene {
            sched,
            mutex,
            condition,
        }
    }

    /// A process that holds the mutex, and is current.
    fn owner(&mut self) -> ProcessId {
        let pid = spawn_running(&mut self.sched);
        let attempt = self.sched.mutex_lock(self.mutex, Deadline::Never).unwrap();
        assert_eq!(reason(attempt), WakeReason::Done);
        pid
    }

    /// A process that waits for the condition.
    fn waiting(&mut self, deadline: Deadline) -> ProcessId {
        let pid = self.owner();
        let attempt = self
            .sched
            .condition_wait(self.condition, self.mutex, deadline);
        assert_eq!(attempt, Ok(Attempt::Blocked));
        pid
    }

    fn unlock(&mut self) {
        assert_eq!(self.sched.mutex_unlock(self.mutex), Ok(()));
    }
}

#[test]
fn a_wait_gives_the_mutex_up_and_gets_it_back() {
    let mut scene = Scene::new();
    let a = scene.waiting(Deadline::Never);
    assert_eq!(scene.sched.mutex_owner(scene.mutex), None);
    assert_eq!(
        scene.sched.blocker(a),
        Some(Blocker::Condition(scene.condition))
    );
    assert!(scene.sched.condition_signal(scene.condition));
    assert_eq!(scene.sched.mutex_owner(scene.mutex), Some(a));
    assert_eq!(
        resume_with(&mut scene.sched, a),
        Wake::because(WakeReason::Done)
    );
    assert!(!scene.sched.condition_signal(scene.condition));
}

#[test]
fn a_signalled_process_waits_for_the_mutex_of_the_signaller() {
    let mut scene = Scene::new();
    let a = scene.waiting(Deadline::Never);
    scene.owner();
    assert!(scene.sched.condition_signal(scene.condition));
    assert_eq!(scene.sched.state(a), State::Waiting);
    assert_eq!(scene.sched.blocker(a), Some(Blocker::Mutex(scene.mutex)));
    scene.unlock();
    assert_eq!(scene.sched.mutex_owner(scene.mutex), Some(a));
    assert_eq!(resume_with(&mut scene.sched, a).reason, WakeReason::Done);
}

#[test]
fn a_broadcast_wakes_all_one_after_the_other() {
    let mut scene = Scene::new();
    let waiting = [0; 3].map(|_| scene.waiting(Deadline::Never));
    scene.owner();
    assert_eq!(scene.sched.condition_broadcast(scene.condition), 3);
    for pid in waiting {
        scene.unlock();
        assert_eq!(resume_with(&mut scene.sched, pid).reason, WakeReason::Done);
    }
}

#[test]
fn a_timeout_waits_for_the_mutex_and_is_still_a_timeout() {
    let mut scene = Scene::new();
    let a = scene.waiting(until(5));
    scene.owner();
    scene.sched.expire(at(5));
    assert_eq!(scene.sched.state(a), State::Waiting);
    assert_eq!(scene.sched.next_deadline(), None);
    scene.unlock();
    assert_eq!(
        resume_with(&mut scene.sched, a).reason,
        WakeReason::TimedOut
    );
    assert_eq!(scene.sched.mutex_owner(scene.mutex), Some(a));
}

#[test]
fn a_wait_that_must_not_wait_keeps_the_mutex() {
    let mut scene = Scene::new();
    let a = scene.owner();
    let attempt = scene
        .sched
        .condition_wait(scene.condition, scene.mutex, Deadline::Now);
    assert_eq!(reason(attempt.unwrap()), WakeReason::TimedOut);
    assert_eq!(scene.sched.mutex_owner(scene.mutex), Some(a));
}

#[test]
fn a_killed_process_gets_the_mutex_back_before_it_goes_on() {
    let mut scene = Scene::new();
    let a = scene.waiting(Deadline::Never);
    scene.owner();
    assert_eq!(scene.sched.kill(a), KillOutcome::Woken);
    assert_eq!(scene.sched.state(a), State::Waiting);
    scene.unlock();
    assert_eq!(resume_with(&mut scene.sched, a).reason, WakeReason::Killed);
    assert_eq!(scene.sched.mutex_owner(scene.mutex), Some(a));
}

#[test]
fn a_process_killed_while_it_relocks_keeps_its_place() {
    let mut scene = Scene::new();
    let a = scene.waiting(Deadline::Never);
    scene.owner();
    scene.sched.condition_signal(scene.condition);
    assert_eq!(scene.sched.kill(a), KillOutcome::Woken);
    assert_eq!(scene.sched.state(a), State::Waiting);
    scene.unlock();
    assert_eq!(resume_with(&mut scene.sched, a).reason, WakeReason::Killed);
}

#[test]
fn a_process_that_is_killed_or_interrupted_while_it_relocks_passes_its_signal_on() {
    for kills in 0..=2 {
        let mut scene = Scene::new();
        let a = scene.waiting(Deadline::Never);
        let b = scene.waiting(Deadline::Never);
        scene.owner();
        scene.sched.condition_signal(scene.condition);
        match kills {
            0 => assert!(scene.sched.interrupt(a)),
            _ => (0..kills).for_each(|_| assert_eq!(scene.sched.kill(a), KillOutcome::Woken)),
        }
        assert_eq!(scene.sched.blocker(b), Some(Blocker::Mutex(scene.mutex)));
        scene.unlock();
        let wanted = match kills {
            0 => WakeReason::Interrupted,
            _ => WakeReason::Killed,
        };
        assert_eq!(resume_with(&mut scene.sched, a).reason, wanted);
        if kills < 2 {
            scene.unlock();
        }
        assert_eq!(resume_with(&mut scene.sched, b).reason, WakeReason::Done);
    }
}

#[test]
fn a_process_killed_after_a_timeout_has_no_signal_to_pass_on() {
    let mut scene = Scene::new();
    let a = scene.waiting(until(5));
    let b = scene.waiting(Deadline::Never);
    scene.owner();
    scene.sched.expire(at(5));
    assert_eq!(scene.sched.kill(a), KillOutcome::Woken);
    assert_eq!(
        scene.sched.blocker(b),
        Some(Blocker::Condition(scene.condition))
    );
}

#[test]
fn a_second_kill_does_not_wait_for_the_mutex() {
    let mut scene = Scene::new();
    let a = scene.waiting(Deadline::Never);
    let owner = scene.owner();
    assert_eq!(scene.sched.kill(a), KillOutcome::Woken);
    assert_eq!(scene.sched.kill(a), KillOutcome::Woken);
    assert_eq!(resume_with(&mut scene.sched, a).reason, WakeReason::Killed);
    assert_eq!(scene.sched.mutex_owner(scene.mutex), Some(owner));
    assert_eq!(scene.sched.mutex_unlock(scene.mutex), Err(NotOwner));
}

#[test]
fn only_the_owner_of_the_mutex_waits() {
    let mut scene = Scene::new();
    spawn_running(&mut scene.sched);
    let attempt = scene
        .sched
        .condition_wait(scene.condition, scene.mutex, Deadline::Never);
    assert_eq!(attempt, Err(NotOwner));
}

#[test]
fn the_value_says_that_the_mutex_was_abandoned_meanwhile() {
    let mut scene = Scene::new();
    let a = scene.waiting(Deadline::Never);
    let owner = scene.owner();
    scene.sched.condition_signal(scene.condition);
    end(&mut scene.sched, owner);
    let wake = resume_with(&mut scene.sched, a);
    assert_eq!(
        wake,
        Wake {
            reason: WakeReason::Done,
            case: 0,
            value: 1
        }
    );
}

#[test]
fn freeing_the_condition_or_the_mutex_ends_the_wait() {
    let mut scene = Scene::new();
    let a = scene.waiting(Deadline::Never);
    let b = scene.waiting(Deadline::Never);
    scene.owner();
    scene.sched.condition_signal(scene.condition);
    assert!(scene.sched.mutex_free(scene.mutex));
    assert_eq!(resume_with(&mut scene.sched, a).reason, WakeReason::Closed);
    assert!(scene.sched.condition_free(scene.condition));
    assert_eq!(resume_with(&mut scene.sched, b).reason, WakeReason::Closed);
    assert!(!scene.sched.condition_signal(scene.condition));
    assert_eq!(scene.sched.condition_broadcast(scene.condition), 0);
}
