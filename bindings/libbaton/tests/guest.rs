//! A guest in C, linked with `libbaton.a`.

mod library;

use library::Program;

static GUEST: Program = Program::new("guest");

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
