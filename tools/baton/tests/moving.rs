//! Tests `vm.move`: open files and sockets of LuaSocket go to other VMs.

mod harness;

use harness::cases;

cases! {
    mod files from "sharing/moving_files.lua":
        a_file_goes_there_and_back_with_its_position_and_its_buffer,
        a_moved_file_says_so,
        lines_of_a_moved_file_say_so,
        a_file_that_was_never_received_comes_back,
        a_file_that_nobody_has_any_more_is_closed,
        what_cannot_be_moved_is_refused,
        a_file_in_use_by_another_process_is_refused,
        a_file_that_waited_in_the_poller_waits_in_another_vm;
    mod sockets from "sharing/moving_sockets.lua":
        a_connection_goes_there_and_back,
        what_was_read_and_not_received_goes_along,
        a_whole_buffer_that_nobody_has_received_goes_along,
        timeouts_and_counts_go_along,
        a_moved_socket_is_closed,
        a_socket_that_was_never_received_comes_back,
        a_socket_that_nobody_has_any_more_is_closed,
        a_socket_that_a_process_waits_for_is_refused,
        sockets_are_moved_while_others_wait,
        a_server_accepts_in_another_vm,
        an_acceptor_sends_two_hundred_connections_to_two_vms,
        a_kill_of_the_receiving_vm_closes_what_it_had_and_gives_back_what_it_had_not,
        a_killed_sender_loses_nothing,
        datagrams_arrive_in_another_vm,
        unix_sockets_are_moved,
        sockets_of_ipv6_keep_their_family,
        what_cannot_be_moved_is_refused;
}
