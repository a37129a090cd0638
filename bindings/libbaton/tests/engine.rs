//! A guest in C whose interpreter keeps something once that belongs to one process, with the
//! `switched` of the header.

mod library;

use baton_harness::Program;
use library::LIBRARY;

static ENGINE: Program = Program::new("engine", &LIBRARY);

/// A process whose call had lost the VM was left without a `switched`. So nobody put its state
/// away, and an old one was brought back after the call.
#[test]
fn a_process_keeps_its_state_in_calls_that_lose_the_vm() {
    ENGINE.succeeds("calls");
}

/// The record of a process that had ended and was freed was written to.
#[test]
fn a_process_that_has_ended_is_not_put_away() {
    ENGINE.succeeds("ends");
}

#[test]
fn a_forks_child_goes_on_with_the_state_of_the_process_that_forked() {
    ENGINE.succeeds("fork_in_call");
}

#[test]
fn a_report_names_processes_and_the_holder_of_a_lock() {
    ENGINE.succeeds("names");
}

#[test]
fn a_guest_chooses_the_next_process_and_is_told_of_switches() {
    ENGINE.succeeds("hooks");
}

/// It was a bare SIGSEGV.
#[test]
fn a_process_that_uses_up_its_stack_is_named() {
    ENGINE.ends_with("use_up", "'clerk' overflowed its C stack of 10");
    ENGINE.ends_with("use_up_own_size", " overflowed its C stack of 2");
    ENGINE.ends_with("use_up_in_call", " overflowed its C stack of 10");
    let said = ENGINE.ends("access_nothing");
    assert!(!said.contains("overflowed"), "{said}");
}

#[test]
fn a_switched_that_forgets_something_ends_with_a_message() {
    for mistake in ["forget_at_switch", "forget_in_call"] {
        ENGINE.ends_with(mistake, "a switch has changed the engine's state");
        ENGINE.ends_with(mistake, "was 0x1 when it was left");
    }
}
