//! A program in C with a loop of its own, which runs a guest.

mod library;

use baton_harness::Program;
use library::LIBRARY;

static HOST: Program = Program::new("host", &LIBRARY);

#[test]
fn a_script_that_loops_for_ever_leaves_the_host_its_frames() {
    HOST.succeeds("frames");
}

#[test]
#[cfg(all(target_os = "linux", not(baton_portable)))]
fn the_descriptor_alone_tells_a_host_what_to_do() {
    HOST.succeeds("by_descriptor");
}

#[test]
fn deadlines_are_the_timeouts_of_a_hosts_loop() {
    HOST.succeeds("by_timeout");
}

#[test]
fn a_wake_by_another_thread_makes_the_descriptor_readable() {
    HOST.succeeds("woken");
}

#[test]
fn a_vm_is_freed_between_two_calls_and_a_call_of_it_returns_to_nobody() {
    HOST.succeeds("left_alone");
}

#[test]
fn a_deadlock_returns_to_the_program() {
    HOST.succeeds("deadlock");
}

#[test]
fn the_vm_ends_with_its_last_process() {
    HOST.succeeds("last_process");
}

#[test]
fn mistaken_calls_are_refused() {
    HOST.succeeds("refusals");
}

#[test]
fn two_vms_share_a_loop() {
    HOST.succeeds("two");
}

#[test]
fn a_forks_child_goes_on_in_the_loop() {
    HOST.succeeds("forked");
}
