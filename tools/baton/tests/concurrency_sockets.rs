//! Unmodified LuaSocket and LuaSec: waits for sockets use the poller and take no native thread.

mod harness;

use harness::{Run, baton, cases};
use std::path::Path;

cases! {
    mod streams from "sockets/streams.lua":
        a_textbook_echo_server_holds_hundreds_of_connections_on_few_threads,
        waiting_processes_keep_no_thread_and_no_processor,
        hundreds_of_requests_to_a_slow_server_wait_side_by_side,
        a_request_that_is_killed_or_times_out_gives_its_connection_up,
        a_process_that_waits_in_receive_can_be_killed,
        a_kill_ends_a_sleep_of_the_library,
        a_timeout_of_a_socket_holds,
        closing_ends_the_wait_of_another_process,
        one_process_sends_while_another_one_receives,
        a_second_reader_waits_for_its_turn,
        several_processes_accept_from_one_socket,
        large_messages_pass_slow_readers,
        select_and_sleep_of_luasocket_let_others_run,
        a_loop_does_not_starve_a_process_that_waits_for_a_socket,
        running_a_command_does_not_delay_waits_for_sockets,
        reading_from_a_pipe_does_not_delay_waits_for_sockets,
        datagrams_are_waited_for,
        a_wait_in_a_coroutine_stops_its_process_only,
        in_a_critical_section_and_in_finalizers_the_system_waits,
        a_number_that_the_program_gives_to_another_file_works_for_it,
        a_number_that_c_code_closes_and_opens_works_for_its_next_file,
        a_duplicate_of_the_file_that_had_the_number_does_no_harm,
        a_process_that_waits_goes_on_to_wait_when_the_number_becomes_known,
        a_number_that_is_known_stays_so_in_another_vm,
        a_select_leaves_registrations_as_they_are;
}

cases! {
    mod parts from "sockets/parts.lua":
        a_line_comes_in_pieces,
        a_number_of_bytes_comes_in_pieces,
        all_until_the_end_comes_in_pieces,
        the_end_comes_before_all_has,
        many_pieces_become_one_text,
        a_part_is_answered_when_the_time_is_over,
        timeouts_are_those_that_were_set,
        data_that_arrives_after_a_timeout_is_received,
        data_that_another_process_leaves_after_a_timeout_is_received,
        send_returns_how_many_bytes_were_sent,
        methods_refuse_what_luasockets_refuse,
        accept_times_out_and_takes_those_that_wait_already,
        connections_are_refused_and_names_not_known_as_by_luasocket,
        a_name_of_several_families_connects_to_the_one_that_answers,
        a_socket_may_take_a_descriptor_over,
        select_waits_for_many,
        half_closing_ends_the_wait_of_the_other_end,
        a_killed_reader_gives_its_turn_to_the_next,
        foreign_user_values_do_no_harm;
}

cases! {
    mod drained from "sockets/drained.lua":
        what_comes_while_the_process_answers_is_received,
        lines_that_came_together_are_all_received,
        more_than_the_module_reads_at_once_is_received,
        the_end_that_came_with_the_last_data_is_noticed,
        data_behind_out_of_band_data_is_received,
        a_process_receives_what_it_sends_to_itself,
        readers_that_answer_in_turn_receive_all_lines;
}

cases! {
    mod datagrams from "sockets/datagrams.lua":
        a_hundred_processes_exchange_datagrams_at_once,
        a_timeout_ends_the_wait_of_its_process_only,
        a_process_that_waits_for_a_datagram_can_be_killed,
        a_killed_process_may_close_the_socket_it_waited_for;
}

/// A case of `sockets/names.lua`, whose look-ups last until the case lets them end.
#[cfg(target_os = "linux")]
fn look_up(case: &str) {
    let run = baton();
    let lasts_until = run.scratch().join("slow-names");
    run.env("LD_PRELOAD", harness::modules::dir().join("slow_names.so"))
        .env("SLOW_NAMES", lasts_until)
        .script("sockets/names.lua")
        .arg(case)
        .run()
        .succeeds()
        .quietly();
}

#[test]
#[cfg(target_os = "linux")]
fn other_processes_run_during_a_look_up() {
    look_up("other_processes_run_during_a_look_up");
}

#[test]
#[cfg(target_os = "linux")]
fn a_killed_look_up_is_abandoned() {
    look_up("a_killed_look_up_is_abandoned");
}

#[test]
#[cfg(target_os = "linux")]
fn look_ups_beyond_the_number_of_helpers_wait() {
    look_up("look_ups_beyond_the_number_of_helpers_wait");
}

#[test]
#[cfg(target_os = "linux")]
fn results_and_errors_of_look_ups_equal_the_systems() {
    look_up("answers_and_failures_are_the_systems");
}

#[test]
#[cfg(all(target_os = "linux", not(baton_portable)))]
fn a_server_of_many_connections_reads_in_vain_seldom() {
    baton()
        .env("LD_PRELOAD", harness::modules::dir().join("vain_reads.so"))
        .script("sockets/vain_reads.lua")
        .run()
        .succeeds()
        .quietly();
}

/// A few rounds of `cargo xtask soak net`.
#[test]
fn failing_sockets_leave_nothing_behind() {
    let soak = harness::lua_dir().join("sockets/soak.lua");
    baton().arg(soak).arg("2").run().succeeds().quietly();
}

#[test]
fn a_server_recovers_when_descriptors_ran_out() {
    let soak = harness::lua_dir().join("sockets/soak.lua");
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
