//! Tests objects that several VMs share, within one VM: channels, words, buffers, the
//! dictionary.

mod harness;

use harness::{baton, cases};

cases! {
    mod buffers from "sharing/buffers.lua":
        a_buffer_is_zero_or_a_copy_of_a_string,
        a_large_buffer_is_zero_at_both_ends,
        numbers_of_all_types_come_back,
        a_number_that_does_not_fit_raises_and_writes_nothing,
        positions_out_of_the_buffer_raise,
        what_is_longer_than_the_buffer_is_not_made,
        pack_and_unpack_are_those_of_string,
        strings_of_any_length_are_unpacked,
        ranges_are_those_of_string_sub,
        a_slice_shares_the_bytes_and_keeps_them,
        the_ffi_takes_a_buffer_as_a_pointer_to_its_bytes,
        a_frozen_buffer_is_read_only_and_sent_by_reference,
        a_buffer_that_is_neither_moved_nor_frozen_is_refused,
        a_moved_buffer_is_closed_with_its_slices_and_not_copied,
        what_was_moved_and_never_received_comes_back,
        a_mover_is_good_for_one_message,
        memory_of_lost_buffers_is_given_back,
        misuse_raises;
    mod channel from "sharing/channel.lua":
        it_holds_as_many_messages_as_its_capacity,
        its_capacity_is_64_by_default,
        it_holds_no_more_bytes_than_its_limit_but_one_message_of_any_size,
        a_small_message_does_not_overtake_a_large_one,
        a_large_message_that_gives_up_lets_a_small_one_go,
        values_are_copied,
        buffered_values_still_arrive_after_close,
        close_wakes_receivers_and_senders,
        waits_end_in_their_order,
        a_killed_receiver_loses_no_value,
        an_interrupted_receiver_loses_no_value,
        many_with_timeouts_lose_and_double_nothing,
        a_channel_can_be_sent_through_another_and_through_itself,
        what_is_in_a_collected_channel_is_freed_with_it,
        its_name_is_in_its_text,
        misuse_raises,
        a_wait_in_a_critical_section_raises;
    mod dict from "sharing/dict.lua":
        objects_that_refer_to_each_other_are_freed,
        objects_that_refer_to_each_other_live_as_long_as_one_of_them_is_used,
        circles_are_collected_beside_other_vms_that_use_them,
        values_of_all_kinds_come_back,
        each_reader_of_a_table_gets_a_copy,
        shared_objects_are_stored_by_reference,
        keys_are_strings_numbers_and_booleans,
        add_stores_only_what_is_absent,
        compare_stores_only_in_place_of_the_expected_value,
        incr_counts_from_its_initial_value,
        a_full_dictionary_refuses_and_keeps_what_it_has,
        many_small_entries_count_with_their_overhead,
        the_least_recently_used_entry_is_evicted,
        an_entry_ends_with_its_time,
        what_has_ended_is_absent_for_every_method,
        what_has_ended_makes_room,
        a_dictionary_is_sent_by_reference,
        processes_count_together,
        memory_of_replaced_values_is_given_back,
        misuse_raises;
    mod select from "sharing/select.lua":
        a_ready_receive_and_a_ready_send_are_done,
        a_waiting_select_is_woken_by_a_sender_and_by_a_receiver,
        close_wakes_it,
        it_times_out_and_reserves_nothing,
        it_stands_beside_objects_of_one_vm,
        only_one_case_is_done_of_those_that_are_ready,
        it_never_meets_itself,
        a_killed_select_passes_its_message_on,
        an_interrupted_select_gives_its_message_back,
        a_bad_case_after_a_message_was_copied_raises,
        two_selects_meet_over_and_over;
    mod words from "sharing/words.lua":
        words_begin_as_zero_and_keep_what_is_stored,
        add_returns_the_new_value_and_wraps_around,
        exchange_returns_the_old_value,
        compare_sets_only_the_expected_value,
        a_wait_ends_by_a_wake_up_and_not_by_a_change,
        wake_ups_go_to_the_longest_waits,
        a_killed_process_passes_its_wake_up_on,
        a_lock_is_made_of_a_word,
        words_are_sent_by_reference,
        misuse_raises;
}

/// A wait that no other VM can end is a deadlock of the program.
#[test]
fn a_deadlock_names_the_shared_object() {
    let script = "local vm, process = require 'baton.vm', require 'baton.process'
        process.spawn(function() vm.shared(1):wait(1, 0) end)
        process.spawn(function()
          local ch = vm.channel(1)
          ch:send(1)
          ch:send(2)
        end)
        vm.channel(1, {name = 'jobs'}):receive()";
    let outcome = baton().arg("-e").arg(script).run();
    assert!(outcome.stderr.contains("deadlock"), "{outcome}");
    for text in [
        "to receive from the channel between VMs 'jobs'",
        "to send to a channel between VMs",
        "for a shared word",
    ] {
        assert!(outcome.stderr.contains(text), "{outcome}");
    }
}

/// The metatables of shared objects are made for the first object, long after the program began.
#[test]
fn what_a_program_has_replaced_before_it_opens_the_module_changes_nothing() {
    let script = "local format, registry = string.pack, debug.getregistry()
        string.pack, string.unpack, string.packsize = print, print, print
        registry['baton.vm.buffer*'] = {__index = {pack = print}}
        local vm = require 'baton.vm'
        local b = vm.buffer(8)
        assert(b:pack('<i4', 1, 7) == 5 and b:unpack('<i4') == 7)
        assert(tostring(b):find('^baton.vm.buffer%*: '))
        local print, channel = print, vm.channel(1)
        _G.print, io.open, coroutine.wrap = nil, nil, nil
        channel:send {print, format}
        local got = channel:receive()
        assert(got[1] == print and got[2] == format)
        print 'as it was'";
    let outcome = baton().arg("-e").arg(script).run();
    outcome.succeeds().wrote("as it was\n");
}
