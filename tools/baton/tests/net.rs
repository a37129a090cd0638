//! Tests `require "baton.net"`.

mod harness;

use harness::{baton, cases};

cases! {
    mod streams from "net/streams.lua":
        lines_numbers_and_the_rest_are_read,
        some_is_what_has_come,
        what_comes_in_pieces_is_one_line,
        lines_are_iterated_until_the_end,
        the_end_before_the_number_is_told_and_leaves_what_came,
        long_lines_and_long_rests_are_refused,
        a_timeout_ends_a_read_and_loses_nothing,
        large_writes_wait_for_a_slow_reader_and_arrive_whole,
        a_write_that_times_out_says_how_much_was_written,
        a_write_to_a_peer_that_is_gone_says_closed,
        closing_ends_the_waits_of_other_processes,
        a_process_can_be_killed_in_each_wait,
        one_process_reads_while_another_one_writes,
        readers_and_writers_of_one_connection_take_turns,
        a_killed_reader_gives_its_turn_to_the_next,
        a_number_that_is_used_again_is_not_mistaken,
        what_comes_between_a_read_and_the_next_wait_is_read,
        idle_connections_are_collected_and_closed,
        a_connection_is_closed_at_the_end_of_its_scope,
        misuse_is_refused,
        waits_take_no_thread;
    mod listeners from "net/listeners.lua":
        a_port_of_0_becomes_a_free_one,
        addresses_of_ipv6_have_brackets,
        an_empty_host_is_any_address,
        unix_sockets_have_a_path_that_goes_with_the_listener,
        a_path_that_a_dead_listener_has_left_is_taken,
        a_file_that_is_no_socket_is_left_alone,
        a_connection_that_is_refused_says_so,
        accept_waits_times_out_and_ends_with_its_listener,
        several_processes_accept_from_one_listener,
        a_limit_holds_further_connections_back,
        closing_a_listener_ends_the_wait_for_a_place,
        two_listeners_of_one_socket_accept_its_connections,
        a_passed_descriptor_is_taken_over,
        two_listeners_share_a_port_if_both_ask_for_it,
        a_connection_waits_for_a_full_backlog_of_a_unix_socket,
        datagrams_are_sent_and_received;
    mod transports from "net/transports.lua":
        what_is_written_through_a_transport_is_read_through_it,
        a_handshake_that_fails_says_why,
        what_was_buffered_before_is_the_transports_to_read,
        a_connection_in_use_takes_no_transport,
        reading_past_the_buffer_takes_what_is_buffered_first;
    mod moving from "net/moving.lua":
        a_connection_goes_there_and_back_with_what_was_read,
        an_acceptor_sends_connections_to_another_vm,
        a_listener_and_a_socket_for_datagrams_are_moved,
        what_was_never_received_comes_back,
        what_nobody_has_any_more_is_closed,
        what_cannot_be_moved_is_refused;
}

/// A case of `net/names.lua`, with the preloaded look-ups of `slow_names.c`.
#[cfg(target_os = "linux")]
fn look_up(case: &str) {
    let run = baton();
    let lasts_until = run.scratch().join("slow-names");
    run.env("LD_PRELOAD", harness::modules::dir().join("slow_names.so"))
        .env("SLOW_NAMES", lasts_until)
        .script("net/names.lua")
        .arg(case)
        .run()
        .succeeds()
        .quietly();
}

#[test]
#[cfg(target_os = "linux")]
fn a_look_up_holds_nobody_up_and_can_be_killed() {
    look_up("a_look_up_holds_nobody_up_and_can_be_killed");
}

#[test]
#[cfg(target_os = "linux")]
fn the_second_address_wins_if_the_first_one_does_not_answer() {
    look_up("the_second_address_wins_if_the_first_one_does_not_answer");
}

#[test]
#[cfg(target_os = "linux")]
fn accepting_without_descriptors_waits_and_warns_once() {
    let outcome = baton().script("net/short.lua").run();
    outcome.succeeds();
    assert_eq!(outcome.stdout, "passed\n", "{outcome}");
    let warnings = outcome.stderr.matches("cannot accept: ").count();
    assert_eq!(warnings, 1, "{outcome}");
    assert!(outcome.stderr.contains("ulimit -n"), "{outcome}");
}
