//! Earliest deadline first.

use super::invariants::check;
use super::*;
use crate::sched::Preemption;

/// Spawns a process with this due time.
fn due(sched: &mut Scheduler<()>, nanoseconds: u64) -> ProcessId {
    let pid = spawn(sched);
    assert!(sched.set_due_time(pid, Some(at(nanoseconds))));
    check(sched);
    pid
}

#[test]
fn the_earliest_of_equals_goes_first_and_those_without_a_due_time_last() {
    let mut sched = sched();
    let plain = spawn(&mut sched);
    let [late, early, middle] = [30, 10, 20].map(|time| due(&mut sched, time));
    let as_early = due(&mut sched, 10);
    let urgent = spawn_at(&mut sched, 41);
    assert_eq!(sched.due_time(late), Some(at(30)));
    assert_eq!(
        order_of_ends(&mut sched),
        [urgent, early, as_early, middle, late, plain]
    );
    assert_eq!(sched.due_time(late), None);
    assert_eq!(sched.with_due_time, 0);
}

#[test]
fn a_newly_runnable_process_that_is_due_earlier_does_not_preempt() {
    let mut sched = sched();
    let running = due(&mut sched, 50);
    run(&mut sched, running);
    let early = due(&mut sched, 10);
    assert!(!sched.current_should_yield());
    assert_eq!(sched.schedule(), Next::Same);
    assert_eq!(sched.yield_current(), Next::Other(early));
}

#[test]
fn a_process_that_yields_continues_if_none_is_due_as_early() {
    let mut sched = sched();
    let [early, late] = [10, 20].map(|time| due(&mut sched, time));
    run(&mut sched, early);
    assert!(sched.yield_by_handoff().is_none());
    assert_eq!(sched.yield_current(), Next::Same);
    assert_eq!(sched.preempt_current(Preemption::SliceExpired), Next::Same);
    let as_early = due(&mut sched, 10);
    assert_eq!(sched.yield_current(), Next::Other(as_early));
    assert_eq!(sched.yield_current(), Next::Other(early));
    assert_eq!(sched.yield_to(late), Next::Other(late));
    assert_eq!(sched.yield_current(), Next::Other(as_early));
    check(&sched);
}

#[test]
fn a_due_time_that_changes_moves_a_process_and_one_that_is_taken_away_sends_it_back() {
    let mut sched = sched();
    let [a, b, c] = [10, 20, 30].map(|time| due(&mut sched, time));
    assert!(sched.set_due_time(c, Some(at(5))));
    assert!(sched.set_due_time(a, None));
    check(&sched);
    assert_eq!(order_of_ends(&mut sched), [c, b, a]);
    assert!(!sched.set_due_time(a, Some(at(1))));
}

#[test]
fn a_process_preempted_by_a_more_urgent_one_keeps_its_place() {
    let mut sched = sched();
    let running = due(&mut sched, 50);
    run(&mut sched, running);
    let early = due(&mut sched, 10);
    let urgent = spawn_at(&mut sched, 41);
    assert_eq!(
        sched.preempt_current(Preemption::MoreUrgent),
        Next::Other(urgent)
    );
    sched.exit_current();
    assert_eq!(sched.schedule(), Next::Other(running));
    sched.exit_current();
    assert_eq!(sched.schedule(), Next::Other(early));
}

#[test]
fn the_latest_time_there_is_is_a_due_time_too() {
    let mut sched = sched();
    let plain = spawn(&mut sched);
    let last = due(&mut sched, u64::MAX);
    assert!(sched.due_time(last).is_some());
    assert_eq!(order_of_ends(&mut sched), [last, plain]);
    assert_eq!(sched.with_due_time, 0);
}
