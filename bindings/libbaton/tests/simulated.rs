//! A guest in C whose runs are simulated.

mod library;

use baton_harness::Program;
use library::LIBRARY;

static SIMULATED: Program = Program::new("simulated", &LIBRARY);

#[test]
fn the_same_seed_gives_the_same_run() {
    SIMULATED.succeeds("seeds");
}

#[test]
fn a_schedule_repeats_a_fault_and_a_part_of_it_is_enough() {
    SIMULATED.succeeds("schedules");
}

#[test]
fn a_year_passes_at_once() {
    SIMULATED.succeeds("years");
}

#[test]
fn what_the_guest_chooses_is_decided_by_the_seed_or_the_schedule() {
    SIMULATED.succeeds("choices");
}

#[test]
fn a_foreign_call_takes_no_time_and_stays_on_its_thread() {
    SIMULATED.succeeds("calls");
}

#[test]
fn a_deadlock_ends_a_simulated_run() {
    let said = SIMULATED.succeeds("deadlock");
    assert!(said.contains("no process can ever run again"), "{said}");
}

#[test]
fn what_cannot_be_simulated_is_refused() {
    SIMULATED.succeeds("refusals");
}
