//! Two guests of different kinds in one program.

mod library;

use baton_harness::Program;
use library::LIBRARY;

static TWO: Program = Program::new("two_guests", &LIBRARY);

#[test]
fn each_is_preempted_by_its_own_callback_beside_the_other() {
    TWO.succeeds("side_by_side");
}

#[test]
fn each_is_preempted_by_its_own_callback_on_one_thread() {
    TWO.succeeds("by_turns");
}

#[test]
fn processes_of_one_wake_those_of_the_other() {
    TWO.succeeds("wake_each_other");
}

#[test]
fn a_deadlock_is_told_to_the_guest_that_has_it() {
    let said = TWO.succeeds("deadlock");
    assert_eq!(said.matches("no process can ever run again").count(), 1);
}
