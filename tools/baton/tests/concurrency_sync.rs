//! Channels, select, semaphores, mutexes, conditions and events.

mod harness;

use harness::cases;

cases! {
    mod channel from "sync/channel.lua":
        a_rendezvous_holds_the_sender_until_the_value_is_taken,
        zero_is_a_rendezvous_too,
        a_buffered_channel_takes_as_many_as_it_holds,
        a_waiting_sender_moves_up_into_the_buffer_in_order,
        false_and_every_other_value_but_nil_can_be_sent,
        nil_cannot_be_sent,
        what_is_buffered_still_arrives_after_close,
        nothing_can_be_sent_after_close,
        close_wakes_receivers_and_senders,
        values_goes_on_until_the_channel_is_closed,
        a_receive_that_times_out_takes_nothing_later,
        a_send_that_times_out_is_not_received_later,
        a_killed_sender_takes_its_value_with_it,
        a_killed_receiver_loses_no_value,
        the_more_urgent_receiver_is_served_first,
        the_more_urgent_sender_is_served_first,
        one_producer_and_one_consumer_keep_the_order,
        five_thousand_processes_on_one_channel_lose_and_double_nothing,
        a_ring_of_processes_passes_a_token_around,
        senders_and_receivers_with_timeouts_never_lose_a_value;
    mod select from "sync/select.lua":
        a_ready_receive_is_taken,
        a_ready_send_is_made,
        false_is_received_and_sent,
        a_closed_channel_answers_both_ways,
        what_is_buffered_comes_before_closed,
        timeouts_are_reported,
        a_waiting_select_is_woken_by_a_sender,
        a_waiting_select_is_woken_by_a_receiver,
        a_waiting_select_is_woken_by_close,
        two_selects_meet,
        a_select_never_meets_itself,
        only_one_of_the_ready_cases_is_done,
        only_one_case_is_done_when_two_become_ready_together,
        a_random_one_among_the_ready_is_taken,
        the_same_channel_may_stand_in_several_cases,
        a_killed_select_leaves_nothing_behind,
        a_thousand_selects_on_the_same_channels_lose_nothing;
    mod locks from "sync/locks.lua":
        a_semaphore_counts,
        a_semaphore_serves_its_waiters_in_order,
        a_signal_to_many_waiters_leaves_the_rest_counted,
        waiters_that_gave_up_or_were_killed_take_no_signal,
        five_thousand_waiters_on_one_semaphore_all_pass,
        a_semaphore_bounds_how_many_are_inside,
        a_mutex_is_locked_and_unlocked,
        a_mutex_is_not_recursive,
        only_the_owner_unlocks,
        a_lock_times_out_while_another_holds_it,
        with_gives_the_results_and_the_arguments,
        an_error_inside_with_frees_the_mutex_and_goes_on,
        with_may_wait_inside,
        a_mutex_makes_an_increment_whole,
        a_mutex_serves_its_waiters_in_order_of_priority_then_arrival,
        killed_waiters_do_not_get_the_mutex,
        a_process_that_ends_with_a_mutex_leaves_it_free_for_others,
        a_condition_frees_the_mutex_while_it_waits_and_takes_it_again,
        a_condition_that_times_out_still_takes_the_mutex_again,
        signal_wakes_one_and_broadcast_all,
        a_signal_without_waiters_is_not_remembered,
        waiting_on_a_condition_without_its_mutex_raises,
        a_process_killed_on_a_condition_does_not_keep_the_mutex,
        an_event_stays_set_until_cleared,
        an_event_wakes_five_thousand,
        who_was_woken_by_an_event_stays_woken_after_clear;
    mod conventions from "sync/conventions.lua":
        zero_and_less_do_not_wait,
        a_small_timeout_waits_that_long,
        nan_raises_and_changes_nothing,
        what_is_no_number_raises,
        huge_timeouts_wait_for_ever,
        a_nil_timeout_waits_for_ever,
        what_can_be_had_at_once_is_had_whatever_the_timeout,
        waiters_killed_and_timed_out_by_the_thousand_leave_the_object_sound;
}
