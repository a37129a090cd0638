//! A program in C that embeds Lua, with a loop of its own.

mod library;

use baton_harness::Program;
use library::LIBRARY;

static HOST: Program = Program::new("host", &LIBRARY);

#[test]
fn a_state_without_processes_is_plain_lua() {
    HOST.succeeds("plain");
}

#[test]
fn a_call_into_lua_waits_while_other_processes_run() {
    HOST.succeeds("calls");
}

#[test]
fn a_loop_by_poll_runs_a_socket_a_sleep_and_a_blocking_call_in_the_background() {
    HOST.succeeds("loop");
}

#[test]
fn a_script_that_loops_for_ever_leaves_the_program_its_frames() {
    HOST.succeeds("frames");
}

#[test]
#[cfg(target_os = "linux")]
fn a_call_into_lua_makes_the_descriptor_readable() {
    HOST.succeeds("spawned_later");
}

#[test]
fn closing_a_state_ends_processes_threads_descriptors_and_memory() {
    HOST.succeeds("closed");
}

/// Guards against zombies, and descriptors of processes, in a program that closes states.
#[test]
fn closing_a_state_leaves_no_command_without_somebody_who_waits_for_it() {
    HOST.succeeds("commands");
}

#[test]
fn another_thread_is_told_that_it_cannot_use_the_state() {
    HOST.ends_with("other_thread", "is used on another thread");
}

#[test]
fn a_second_state_stays_plain() {
    HOST.succeeds("two");
}

#[test]
fn a_call_of_the_program_may_run_the_others() {
    HOST.succeeds("nested");
}

#[test]
fn what_the_program_has_replaced_stays() {
    HOST.succeeds("replaced");
}

#[test]
fn the_program_calls_a_callback_from_its_loop() {
    HOST.succeeds("called_back");
}

#[test]
fn a_program_that_takes_its_signals_on_a_thread_has_processes_that_are_preempted() {
    HOST.succeeds("blocked");
}

#[test]
fn a_process_that_uses_up_its_c_stack_is_named() {
    HOST.ends_with("overflows", "'the digger' overflowed its C stack of ");
}

#[test]
fn a_program_that_handles_faults_itself_still_does() {
    HOST.succeeds("handles_faults");
}

#[test]
fn a_fault_that_uses_up_no_stack_kills_as_before() {
    let said = HOST.ends("fails");
    assert_eq!(said, "");
}
