//! Parked calls: blocking system calls by listed libraries, in which the process waits in the poller.

mod harness;

use harness::{Run, baton, cases};
use std::path::Path;

cases! {
    mod sockets from "parking/sockets.lua":
        a_textbook_echo_server_holds_hundreds_of_connections_on_few_threads,
        waiting_processes_keep_no_thread_and_no_processor,
        hundreds_of_requests_to_a_slow_server_wait_side_by_side,
        a_request_that_is_killed_or_times_out_gives_its_connection_up,
        who_waits_in_receive_can_be_killed,
        a_kill_ends_a_sleep_of_the_library,
        what_is_closed_only_at_exec_is_waited_for_on,
        a_timeout_of_a_socket_holds,
        closing_ends_the_wait_of_another_process,
        one_process_sends_while_another_one_receives,
        a_second_reader_waits_for_its_turn,
        several_processes_accept_from_one_socket,
        large_messages_pass_slow_readers,
        select_and_sleep_of_luasocket_let_others_run,
        a_loop_does_not_starve_who_waits_for_a_socket,
        who_runs_a_command_does_not_keep_those_who_wait_for_sockets,
        who_reads_from_a_pipe_does_not_keep_those_who_wait_for_sockets,
        datagrams_are_waited_for,
        a_wait_in_a_coroutine_stops_its_process_only,
        in_a_critical_section_and_in_finalizers_the_system_waits;
}

cases! {
    mod datagrams from "parking/datagrams.lua":
        a_hundred_processes_exchange_datagrams_at_once,
        a_timeout_ends_the_wait_of_its_process_only,
        who_waits_for_a_datagram_can_be_killed,
        a_killed_process_may_close_the_socket_it_waited_for;
}

cases! {
    mod closing from "parking/closing.lua":
        who_receives_from_what_dup2_replaces_is_told_so,
        who_receives_from_what_dup3_replaces_is_told_so,
        who_accepts_sends_or_waits_for_a_datagram_is_told_of_a_replacement,
        a_select_ends_when_one_of_its_sockets_is_replaced,
        who_waits_for_what_a_range_closes_is_told_so,
        a_call_that_fails_ends_no_wait,
        numbers_that_go_round_mix_nobody_up;
}

cases! {
    mod calls from "parking/calls.lua":
        the_answers_are_those_of_the_system,
        what_another_program_has_taken_keeps_no_thread,
        a_declared_module_parks_and_an_undeclared_one_does_not,
        a_module_that_holds_a_mutex_across_a_wait_does_not_deadlock,
        other_threads_children_and_signal_handlers_get_the_systems_calls,
        a_handler_that_was_left_by_a_jump_keeps_nobody_from_parking,
        a_handler_ends_the_waits_of_its_thread_and_no_sleep_of_baton,
        whatever_closes_a_descriptor_ends_the_waits_for_it,
        a_kill_ends_a_parked_wait_at_once,
        wrong_options_are_refused;
}

cases! {
    mod rust from "parking/rust.lua":
        threads_get_the_systems_calls_of_a_library_that_parks,
        threads_run_beside_processes_that_park_in_the_same_library,
        a_process_gets_the_systems_calls_of_a_library_that_does_not_park,
        a_process_parks_in_a_library_of_which_that_is_declared;
}

/// As `calls::the_answers_are_those_of_the_system`, where signals come between whenever a descriptor is looked at.
#[test]
#[cfg(target_os = "linux")]
fn a_signal_that_comes_while_a_descriptor_is_looked_at_changes_no_answer() {
    baton()
        .env("LD_PRELOAD", harness::modules::dir().join("interrupted_polls.so"))
        .script("parking/calls.lua")
        .arg("the_answers_are_those_of_the_system")
        .run()
        .succeeds()
        .quietly();
}

/// A case of `parking/names.lua`, in which look-ups last until the case lets them end.
#[cfg(target_os = "linux")]
fn look_up(case: &str) {
    let run = baton();
    let lasts_until = run.scratch().join("slow-names");
    run.env("LD_PRELOAD", harness::modules::dir().join("slow_names.so"))
        .env("SLOW_NAMES", lasts_until)
        .script("parking/names.lua")
        .arg(case)
        .run()
        .succeeds()
        .quietly();
}

#[test]
#[cfg(target_os = "linux")]
fn others_go_on_while_a_name_is_looked_up() {
    look_up("others_go_on_while_a_name_is_looked_up");
}

#[test]
#[cfg(target_os = "linux")]
fn a_killed_look_up_is_left_behind() {
    look_up("a_killed_look_up_is_left_behind");
}

#[test]
#[cfg(target_os = "linux")]
fn more_look_ups_than_helpers_wait_for_their_turn() {
    look_up("more_look_ups_than_helpers_wait_for_their_turn");
}

#[test]
#[cfg(target_os = "linux")]
fn answers_and_failures_of_look_ups_are_the_systems() {
    look_up("answers_and_failures_are_the_systems");
}

/// A few rounds of `cargo xtask soak net`.
#[test]
fn nothing_is_left_of_sockets_that_go_wrong() {
    let soak = harness::lua_dir().join("parking/soak.lua");
    baton().arg(soak).arg("2").run().succeeds().quietly();
}

#[test]
fn a_server_goes_on_when_there_are_no_descriptors_left() {
    let soak = harness::lua_dir().join("parking/soak.lua");
    Run::of(Path::new("/bin/sh"))
        .arg("-c")
        .arg("ulimit -n 80; exec \"$0\" \"$@\"")
        .arg(harness::baton_path())
        .arg(soak)
        .arg("2")
        .arg("few")
        .run()
        .succeeds()
        .quietly();
}

#[test]
fn an_interrupt_ends_the_main_process_s_wait_for_a_socket() {
    baton()
        .process_code(
            "local socket = require 'socket'
             local server = assert(socket.bind('127.0.0.1', 0))
             local pid = io.open('/proc/self/stat'):read('n')
             process.spawn({ daemon = true }, function()
                 repeat process.sleep(0.001) until process.main:status() == 'waiting'
                 io.popen('kill -INT ' .. pid):close()
             end)
             server:accept()
             print 'not reached'",
        )
        .run()
        .ends_with(1)
        .wrote("")
        .complained("interrupted!");
}
