//! A guest in C, linked with `libbaton.a`.

mod library;

use baton_harness::Program;
use library::LIBRARY;

static GUEST: Program = Program::new("guest", &LIBRARY);

#[test]
fn processes_take_turns_and_the_end_of_the_vm_returns() {
    GUEST.succeeds("everything");
}

#[test]
fn others_run_during_a_foreign_call() {
    GUEST.succeeds("call");
}

#[test]
fn a_loop_without_end_is_preempted() {
    GUEST.succeeds("loop");
}

/// A request that came too early for the slice was repeated by a signal alone. A guest without a
/// poll of its own never saw it.
#[test]
fn a_loop_that_only_asks_for_requests_lets_calls_return() {
    GUEST.succeeds("ask_in_loop");
}

#[test]
fn a_foreign_thread_wakes_a_process() {
    GUEST.succeeds("be_woken");
}

#[test]
fn leaving_twice_ends_with_a_message() {
    GUEST.ends_with("leave_twice", "baton_leave was called outside the VM");
}

#[test]
fn entering_twice_ends_with_a_message() {
    GUEST.ends_with("enter_twice", "baton_enter was called inside the VM");
}

#[test]
fn entering_from_a_foreign_thread_ends_with_a_message() {
    GUEST.ends_with("enter_from_elsewhere", "by a thread that runs no process");
}

#[test]
fn a_deadlock_ends_the_vm_with_a_message_and_returns() {
    let said = GUEST.succeeds("wait_for_ever");
    assert!(said.contains("no process can ever run again"), "{said}");
}

#[test]
fn a_vm_that_has_ended_beside_a_call_is_freed_after_the_call() {
    GUEST.succeeds("be_outlasted");
}

#[test]
fn yielding_outside_ends_with_a_message() {
    GUEST.ends_with("yield_outside", "baton_yield was called outside the VM");
}

#[test]
fn yielding_on_a_foreign_thread_ends_with_a_message() {
    let message = "baton_yield was called by a thread that runs no process";
    GUEST.ends_with("yield_from_elsewhere", message);
}

#[test]
fn a_process_that_ends_outside_ends_with_a_message() {
    GUEST.ends_with("end_outside", "the guest's `run` returned outside the VM");
}

#[test]
fn switching_in_a_callback_ends_with_a_message() {
    let message = "baton_yield was called in the guest's `switched`";
    GUEST.ends_with("switch_in_callback", message);
}

#[test]
fn leaving_a_section_that_was_not_entered_ends_with_a_message() {
    GUEST.ends_with("leave_section", "that was not entered");
}

#[test]
fn a_wait_in_a_critical_section_is_refused() {
    GUEST.succeeds("wait_in_section");
}

#[test]
fn a_first_process_of_a_vm_that_runs_ends_with_a_message() {
    GUEST.ends_with("spawn_first_late", "a VM that does not run yet");
}

#[test]
fn a_collector_finds_the_part_of_a_stack_that_is_in_use() {
    GUEST.succeeds("scan_stack");
}

#[test]
fn a_process_may_have_slices_of_its_own() {
    GUEST.succeeds("change_slices");
}

#[test]
fn a_call_sees_whether_others_run_beside_it() {
    GUEST.succeeds("ask_in_call");
}
