//! Earliest deadline first.

use super::invariants::check;
use super::*;
use crate::kernel::Preemption;

/// A process that is due then.
fn due(kernel: &mut Kernel<()>, nanoseconds: u64) -> ProcessId {
    let pid = spawn(kernel);
    assert!(kernel.set_due_time(pid, Some(at(nanoseconds))));
    check(kernel);
    pid
}

#[test]
fn the_earliest_of_equals_goes_first_and_those_without_a_due_time_last() {
    let mut kernel = kernel();
    let plain = spawn(&mut kernel);
    let [late, early, middle] = [30, 10, 20].map(|time| due(&mut kernel, time));
    let as_early = due(&mut kernel, 10);
    let urgent = spawn_at(&mut kernel, 41);
    assert_eq!(kernel.due_time(late), Some(at(30)));
    assert_eq!(
        order_of_ends(&mut kernel),
        [urgent, early, as_early, middle, late, plain]
    );
    assert_eq!(kernel.due_time(late), None);
    assert_eq!(kernel.with_due_time, 0);
}

#[test]
fn a_newly_runnable_process_that_is_due_earlier_does_not_preempt() {
    let mut kernel = kernel();
    let running = due(&mut kernel, 50);
    run(&mut kernel, running);
    let early = due(&mut kernel, 10);
    assert!(!kernel.current_should_yield());
    assert_eq!(kernel.schedule(), Next::Same);
    assert_eq!(kernel.yield_current(), Next::Other(early));
}

#[test]
fn one_that_yields_goes_on_if_nobody_is_due_as_early() {
    let mut kernel = kernel();
    let [early, late] = [10, 20].map(|time| due(&mut kernel, time));
    run(&mut kernel, early);
    assert!(kernel.yield_by_turn().is_none());
    assert_eq!(kernel.yield_current(), Next::Same);
    assert_eq!(kernel.preempt_current(Preemption::SliceExpired), Next::Same);
    let as_early = due(&mut kernel, 10);
    assert_eq!(kernel.yield_current(), Next::Other(as_early));
    assert_eq!(kernel.yield_current(), Next::Other(early));
    assert_eq!(kernel.yield_to(late), Next::Other(late));
    assert_eq!(kernel.yield_current(), Next::Other(as_early));
    check(&kernel);
}

#[test]
fn a_due_time_that_changes_moves_a_process_and_one_that_is_taken_away_sends_it_back() {
    let mut kernel = kernel();
    let [a, b, c] = [10, 20, 30].map(|time| due(&mut kernel, time));
    assert!(kernel.set_due_time(c, Some(at(5))));
    assert!(kernel.set_due_time(a, None));
    check(&kernel);
    assert_eq!(order_of_ends(&mut kernel), [c, b, a]);
    assert!(!kernel.set_due_time(a, Some(at(1))));
}

#[test]
fn one_that_was_preempted_by_a_more_urgent_process_keeps_its_place() {
    let mut kernel = kernel();
    let running = due(&mut kernel, 50);
    run(&mut kernel, running);
    let early = due(&mut kernel, 10);
    let urgent = spawn_at(&mut kernel, 41);
    assert_eq!(kernel.preempt_current(Preemption::MoreUrgent), Next::Other(urgent));
    kernel.exit_current();
    assert_eq!(kernel.schedule(), Next::Other(running));
    kernel.exit_current();
    assert_eq!(kernel.schedule(), Next::Other(early));
}

#[test]
fn the_latest_time_there_is_is_a_due_time_too() {
    let mut kernel = kernel();
    let plain = spawn(&mut kernel);
    let last = due(&mut kernel, u64::MAX);
    assert!(kernel.due_time(last).is_some());
    assert_eq!(order_of_ends(&mut kernel), [last, plain]);
    assert_eq!(kernel.with_due_time, 0);
}
