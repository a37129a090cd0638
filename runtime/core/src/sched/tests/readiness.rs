//! Waiting for descriptors.

use super::*;
use crate::sched::{Blocker, Edition, Readiness, Watch};

const READ: Readiness = Readiness::READ;
const WRITE: Readiness = Readiness::WRITE;

const FIRST: Edition = Edition(1);

fn watch(descriptor: u32, wants: Readiness) -> (Watch, Edition) {
    (Watch { descriptor, wants }, FIRST)
}

fn waiting(sched: &mut Scheduler<()>, watches: &[(Watch, Edition)]) -> ProcessId {
    let pid = spawn_running(sched);
    assert_blocked(sched.wait_ready(watches.iter().copied(), Deadline::Never));
    pid
}

#[test]
fn an_event_wakes_all_processes_that_want_it() {
    let mut sched = sched();
    let reader = waiting(&mut sched, &[watch(7, READ)]);
    let writer = waiting(&mut sched, &[watch(7, WRITE)]);
    let either = waiting(&mut sched, &[watch(8, READ), watch(7, READ | WRITE)]);
    assert_eq!(sched.blocker(reader), Some(Blocker::Descriptor(7)));
    assert_eq!(sched.blocker(either), Some(Blocker::Descriptors(2)));
    assert_eq!(sched.watching(), 4);
    assert_eq!(sched.descriptor_is_ready(9, READ), 0);
    assert_eq!(sched.descriptor_is_ready(7, READ), 2);
    invariants::check(&sched);
    assert_eq!(sched.watching(), 1);
    let wake = resume_with(&mut sched, either);
    assert_eq!(
        (wake.reason, wake.case, wake.value),
        (WakeReason::Done, 1, u64::from(READ.bits()))
    );
    assert_eq!(resume_with(&mut sched, reader).case, 0);
    assert_eq!(sched.blocker(writer), Some(Blocker::Descriptor(7)));
}

#[test]
fn a_failure_wakes_every_waiter() {
    let mut sched = sched();
    let [a, b] = [READ, WRITE].map(|wants| waiting(&mut sched, &[watch(3, wants)]));
    assert_eq!(sched.descriptor_is_ready(3, Readiness::FAILED), 2);
    for pid in [a, b] {
        assert_eq!(resume_with(&mut sched, pid).reason, WakeReason::Done);
    }
}

#[test]
fn a_process_may_wait_for_one_descriptor_twice() {
    let mut sched = sched();
    let pid = waiting(&mut sched, &[watch(3, READ), watch(3, WRITE)]);
    assert_eq!(sched.descriptor_is_ready(3, READ | WRITE), 1);
    assert_eq!(resume_with(&mut sched, pid).case, 0);
    invariants::check(&sched);
}

#[test]
fn closing_wakes_exactly_the_waiters_of_that_edition() {
    let mut sched = sched();
    assert_eq!(sched.descriptor_closes(5, FIRST), 0);
    let old = waiting(&mut sched, &[watch(5, READ)]);
    let of_next = Watch {
        descriptor: 5,
        wants: READ,
    };
    let new = waiting(&mut sched, &[(of_next, Edition(2))]);
    assert_eq!(sched.descriptor_closes(5, FIRST), 1);
    assert_eq!(resume_with(&mut sched, old).reason, WakeReason::Closed);
    assert!(sched.is_watched(5));
    assert_eq!(sched.descriptor_is_ready(5, READ), 1);
    assert_eq!(resume_with(&mut sched, new).reason, WakeReason::Done);
    assert!(!sched.is_watched(5));
    invariants::check(&sched);
}

#[test]
fn waits_time_out_are_killed_and_are_no_deadlock() {
    let mut sched = sched();
    let patient = waiting(&mut sched, &[watch(5, READ)]);
    let hasty = spawn_running(&mut sched);
    let now = sched.wait_ready([watch(5, READ)], Deadline::Now);
    assert_eq!(reason(now), WakeReason::TimedOut);
    assert_blocked(sched.wait_ready([watch(5, READ)], until(5)));
    assert_eq!(sched.schedule(), Next::Nothing);
    sched.expire(at(5));
    assert_eq!(resume_with(&mut sched, hasty).reason, WakeReason::TimedOut);
    end(&mut sched, hasty);
    assert_eq!(sched.schedule(), Next::Nothing);
    assert!(!sched.all_blocked(), "the descriptor may become ready");
    let _ = sched.kill(patient);
    assert_eq!(sched.watching(), 0);
    assert_eq!(resume_with(&mut sched, patient).reason, WakeReason::Killed);
    let again = sched.wait_ready([watch(5, READ)], Deadline::Never);
    assert_eq!(reason(again), WakeReason::Killed);
    invariants::check(&sched);
}
