//! Waiting for descriptors.

use super::*;
use crate::kernel::{Blocker, Edition, Readiness, Watch};

const READ: Readiness = Readiness::READ;
const WRITE: Readiness = Readiness::WRITE;

const FIRST: Edition = Edition(1);

fn watch(descriptor: u32, wants: Readiness) -> (Watch, Edition) {
    (Watch { descriptor, wants }, FIRST)
}

fn waiting(kernel: &mut Kernel<()>, watches: &[(Watch, Edition)]) -> ProcessId {
    let pid = spawn_running(kernel);
    assert_blocked(kernel.wait_ready(watches.iter().copied(), Deadline::Never));
    pid
}

#[test]
fn all_who_want_what_has_come_are_told_what_it_is() {
    let mut kernel = kernel();
    let reader = waiting(&mut kernel, &[watch(7, READ)]);
    let writer = waiting(&mut kernel, &[watch(7, WRITE)]);
    let either = waiting(&mut kernel, &[watch(8, READ), watch(7, READ | WRITE)]);
    assert_eq!(kernel.blocker(reader), Some(Blocker::Descriptor(7)));
    assert_eq!(kernel.blocker(either), Some(Blocker::Descriptors(2)));
    assert_eq!(kernel.watching(), 4);
    assert_eq!(kernel.descriptor_is_ready(9, READ), 0);
    assert_eq!(kernel.descriptor_is_ready(7, READ), 2);
    invariants::check(&kernel);
    assert_eq!(kernel.watching(), 1);
    let wake = resume_with(&mut kernel, either);
    assert_eq!(
        (wake.reason, wake.case, wake.value),
        (WakeReason::Done, 1, u64::from(READ.bits()))
    );
    assert_eq!(resume_with(&mut kernel, reader).case, 0);
    assert_eq!(kernel.blocker(writer), Some(Blocker::Descriptor(7)));
}

#[test]
fn a_failure_concerns_everybody() {
    let mut kernel = kernel();
    let [a, b] = [READ, WRITE].map(|wants| waiting(&mut kernel, &[watch(3, wants)]));
    assert_eq!(kernel.descriptor_is_ready(3, Readiness::FAILED), 2);
    for pid in [a, b] {
        assert_eq!(resume_with(&mut kernel, pid).reason, WakeReason::Done);
    }
}

#[test]
fn a_process_may_wait_for_one_descriptor_twice() {
    let mut kernel = kernel();
    let pid = waiting(&mut kernel, &[watch(3, READ), watch(3, WRITE)]);
    assert_eq!(kernel.descriptor_is_ready(3, READ | WRITE), 1);
    assert_eq!(resume_with(&mut kernel, pid).case, 0);
    invariants::check(&kernel);
}

#[test]
fn closing_tells_all_who_wait_for_that_edition_and_nobody_else() {
    let mut kernel = kernel();
    assert_eq!(kernel.descriptor_closes(5, FIRST), 0);
    let old = waiting(&mut kernel, &[watch(5, READ)]);
    let of_next = Watch {
        descriptor: 5,
        wants: READ,
    };
    let new = waiting(&mut kernel, &[(of_next, Edition(2))]);
    assert_eq!(kernel.descriptor_closes(5, FIRST), 1);
    assert_eq!(resume_with(&mut kernel, old).reason, WakeReason::Closed);
    assert!(kernel.is_watched(5));
    assert_eq!(kernel.descriptor_is_ready(5, READ), 1);
    assert_eq!(resume_with(&mut kernel, new).reason, WakeReason::Done);
    assert!(!kernel.is_watched(5));
    invariants::check(&kernel);
}

#[test]
fn waits_time_out_are_killed_and_are_no_deadlock() {
    let mut kernel = kernel();
    let patient = waiting(&mut kernel, &[watch(5, READ)]);
    let hasty = spawn_running(&mut kernel);
    let now = kernel.wait_ready([watch(5, READ)], Deadline::Now);
    assert_eq!(reason(now), WakeReason::TimedOut);
    assert_blocked(kernel.wait_ready([watch(5, READ)], until(5)));
    assert_eq!(kernel.schedule(), Next::Nothing);
    kernel.expire(at(5));
    assert_eq!(resume_with(&mut kernel, hasty).reason, WakeReason::TimedOut);
    end(&mut kernel, hasty);
    assert_eq!(kernel.schedule(), Next::Nothing);
    assert!(!kernel.all_blocked(), "the descriptor may become ready");
    let _ = kernel.kill(patient);
    assert_eq!(kernel.watching(), 0);
    assert_eq!(resume_with(&mut kernel, patient).reason, WakeReason::Killed);
    let again = kernel.wait_ready([watch(5, READ)], Deadline::Never);
    assert_eq!(reason(again), WakeReason::Killed);
    invariants::check(&kernel);
}
