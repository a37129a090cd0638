//! Tests `require "baton.vm"`: VMs, calls between them, and what they share.
#![cfg(target_os = "linux")]

mod harness;

use harness::cases;

cases! {
    mod spawn from "vms/spawn.lua":
        a_function_runs_in_another_vm_and_its_results_come_back,
        nothing_of_the_heap_is_shared,
        nil_results_and_arguments_keep_their_places,
        a_module_is_required_there_and_its_function_called,
        a_module_with_functions_serves_calls_until_it_is_killed,
        a_module_that_is_not_there_is_an_answer,
        a_module_that_fails_to_load_gives_its_error_and_traceback,
        a_module_that_returns_neither_function_nor_table_is_refused,
        an_error_reaches_the_joiner_with_both_places,
        an_error_that_is_a_table_is_copied,
        results_that_cannot_be_sent_are_an_error_that_names_them,
        arguments_that_cannot_be_sent_raise_and_start_nothing,
        wrong_arguments_raise,
        the_search_paths_arg_and_parameters_are_those_of_the_program,
        a_vm_knows_itself_and_the_others,
        a_vm_starts_vms,
        a_vm_ends_when_its_processes_have_ended,
        a_join_with_a_timeout_times_out_and_the_vm_lives_on,
        two_vms_compute_at_the_same_time,
        a_heap_with_a_limit_runs_out_of_memory_alone,
        a_bound_vm_runs_on_its_processor_only,
        a_vm_that_a_bound_vm_starts_is_not_bound,
        a_core_that_is_not_there_is_an_answer_that_names_those_there_are,
        fifty_vms_at_once_answer_and_end,
        messages_between_several_vms_keep_their_contents,
        a_vm_with_too_little_memory_for_its_start_is_an_answer,
        a_quiet_vm_may_fail_with_an_error_that_has_no_text,
        a_module_that_kills_its_process_while_it_loads_is_an_answer;
    mod starting from "vms/starting.lua":
        each_vm_loads_the_parts_that_it_uses,
        an_error_names_the_line_of_the_caller_whether_or_not_the_part_is_loaded,
        a_field_that_the_program_has_set_stays,
        a_heap_begins_small;
    mod calls from "vms/calls.lua":
        a_call_runs_there_and_its_results_come_back,
        a_name_with_a_dot_is_a_field_of_a_module,
        an_error_is_raised_here_with_the_traceback_of_there,
        what_cannot_be_sent_is_named_on_the_way_there_and_back,
        calls_run_beside_each_other,
        a_killed_caller_kills_its_call,
        the_end_of_a_vm_ends_the_calls_that_wait_for_it,
        a_busy_vm_answers_a_call,
        a_vm_is_sent_to_another_one_which_calls_it,
        a_proxy_runs_where_it_was_made,
        the_function_of_a_proxy_that_nobody_has_is_collected,
        errors_of_a_proxy_are_raised_at_its_caller,
        a_proxy_of_a_vm_that_has_ended_is_dead,
        many_processes_call_many_vms;
    mod ending from "vms/ending.lua":
        vms_with_the_ffi_leave_nothing_behind,
        a_sleeping_vm_is_killed,
        a_busy_vm_is_killed,
        a_vm_that_catches_everything_is_killed,
        a_vm_whose_processes_all_wait_is_killed,
        close_variables_run_before_the_end,
        a_command_of_a_halted_vm_is_waited_for,
        a_vm_that_still_loads_its_module_is_killed_with_its_close_variables,
        a_call_of_a_vm_that_still_loads_its_module_waits_for_that,
        a_vm_that_has_ended_is_dead_to_everybody,
        a_monitor_hears_of_the_end,
        a_vm_outlives_the_process_that_started_it,
        two_hundred_vms_are_killed_in_every_moment,
        nothing_is_left_of_five_hundred_vms,
        what_vms_have_sent_is_freed_when_it_was_received;
    mod halted from "vms/halted.lua":
        nothing_is_left_of_vms_that_sleep_in_a_close_variable,
        nothing_is_left_of_vms_that_compute_in_a_close_variable,
        nothing_is_left_of_vms_that_compute_in_a_critical_section,
        nothing_is_left_of_vms_that_compute_in_a_finalizer,
        nothing_is_left_of_vms_that_compute_in_a_finalizer_at_their_end,
        nothing_is_left_of_a_buffer_that_the_library_was_filling,
        nothing_is_left_of_vms_that_end_just_as_their_grace_does,
        nothing_is_left_of_calls_of_modules_that_called_back,
        what_is_shared_with_a_halted_vm_stays;
    mod workers from "vms/workers.lua":
        a_map_gives_the_results_in_order,
        an_unordered_map_gives_each_result_once,
        an_empty_list_has_no_results,
        the_function_may_be_a_module,
        the_first_error_ends_the_map,
        values_and_results_that_cannot_be_sent_are_errors,
        a_loop_that_is_left_ends_the_workers,
        wrong_arguments_of_a_map_raise,
        a_pool_calls_its_members,
        calls_of_a_pool_run_at_the_same_time_in_different_vms,
        a_caller_that_is_killed_with_its_turn_passes_it_on,
        a_full_pool_says_so,
        a_member_that_dies_is_started_again,
        without_restart_a_dead_member_stays_dead,
        wrong_arguments_of_a_pool_raise;
    mod listing from "vms/listing.lua":
        all_vms_that_live_are_in_the_list_of_each,
        a_listed_vm_can_be_called_and_killed,
        a_listed_vm_that_was_started_here_gives_its_results,
        the_list_is_complete_while_vms_start_and_end,
        a_vm_that_waits_says_so;
    mod supervised from "vms/supervised.lua":
        a_supervised_vm_is_called_and_ends_with_its_supervisor,
        arguments_are_sent_and_a_vm_that_returns_is_not_started_again,
        a_vm_that_fails_is_started_again_and_its_error_is_known,
        a_supervisor_of_vms_gives_up_with_the_error_of_the_vm,
        a_module_that_is_not_there_is_a_failure,
        a_vm_that_is_killed_by_others_has_ended_as_killed,
        a_restarted_child_has_another_vm,
        close_variables_of_a_supervised_vm_run_at_its_stop,
        a_vm_that_does_not_end_is_halted_within_the_time_of_its_child,
        wrong_descriptions_raise;
    mod modules_in_c from "vms/modules_in_c.lua":
        a_module_that_is_not_declared_is_in_one_vm_at_a_time,
        a_module_that_is_declared_serial_is_in_one_vm_at_a_time,
        a_module_that_is_declared_concurrent_is_in_all_of_them,
        a_declaration_holds_for_vms_that_start_later_and_earlier,
        a_call_that_calls_back_keeps_its_turn,
        a_killed_process_gives_its_turn_back,
        a_process_that_is_killed_while_it_waits_for_a_turn_leaves_the_queue,
        well_known_modules_are_in_all_vms_at_once,
        databases_are_in_all_vms_at_once,
        tls_is_in_all_vms_at_once,
        sockets_of_all_vms_reach_each_other;
}
