//! Tests processes: spawning and ending, states, kill, suspend, priorities, time, and the end of
//! the program.

mod harness;

use harness::{baton, cases};

cases! {
    mod shield from "processes/shield.lua":
        arguments_and_results_pass,
        others_run_and_a_kill_waits,
        a_kill_of_oneself_takes_effect_after_the_shield,
        a_second_kill_ends_it,
        its_time_is_limited_by_the_parameter,
        the_time_does_not_count_without_a_kill,
        a_close_method_after_a_shield_has_its_own_time,
        shields_in_a_close_method_have_their_own_time,
        a_shield_that_begins_after_the_kill_has_a_limit_too,
        an_error_ends_it_and_is_raised,
        shields_nest,
        a_failed_link_waits_too,
        the_end_of_the_program_is_not_held_up;
    mod pool from "processes/pool.lua":
        an_object_is_used_again,
        there_are_no_more_than_the_size,
        those_who_wait_get_their_turns_in_order,
        a_wait_has_a_timeout,
        a_loan_is_given_back_by_its_variable_or_by_hand,
        a_loan_of_a_process_that_has_ended_is_taken_back,
        an_object_of_a_failure_or_a_kill_is_made_anew,
        what_check_refuses_is_made_anew,
        what_a_check_cannot_check_is_made_anew,
        a_failing_close_of_what_the_dead_had_is_only_reported,
        a_closed_coroutine_leaves_its_object_in_doubt,
        closing_closes_all_and_raises_the_first_error,
        a_closed_pool_takes_back_what_the_dead_had,
        a_failed_making_gives_the_slot_back,
        a_kill_during_a_making_loses_nothing,
        a_failing_close_gives_the_slot_back,
        a_closed_pool_lends_nothing,
        wrong_arguments_are_refused;
    mod life from "processes/life.lua":
        join_gives_all_results_of_the_function,
        a_process_without_results_joins_with_true_alone,
        two_hundred_results_come_through_join,
        a_c_function_can_be_the_body_of_a_process,
        join_can_be_repeated,
        every_joiner_gets_the_results,
        a_failed_process_joins_with_false_and_its_error,
        an_error_value_keeps_its_identity_through_join,
        an_error_says_where_it_happened,
        a_failure_that_is_awaited_is_not_printed,
        a_join_that_times_out_says_so,
        joining_oneself_raises,
        an_equal_process_does_not_start_at_once,
        processes_start_in_the_order_of_their_spawning,
        a_process_has_its_name_and_a_unique_id,
        daemon_tells_how_a_process_was_spawned,
        data_is_a_table_of_the_process_own,
        current_is_the_process_that_asks,
        current_is_the_process_also_inside_a_coroutine,
        the_list_has_the_living_and_not_the_dead,
        a_process_can_be_a_key_of_a_table,
        processes_share_globals_and_upvalues,
        a_process_spawns_others_deeply,
        ten_thousand_processes_live_at_once,
        a_coroutine_may_be_resumed_by_one_process_after_another,
        a_wait_inside_a_coroutine_stops_its_whole_process,
        a_method_that_closes_a_coroutine_may_wait_and_be_preempted,
        variadic_spawn_options_do_not_reach_the_function;
    mod ends from "processes/ends.lua":
        a_process_whose_error_is_being_printed_is_alive_and_can_be_killed,
        the_end_of_the_program_kills_a_daemon_whose_error_is_being_printed,
        one_that_waits_while_its_error_is_printed_is_joined_after_it,
        the_thread_of_a_dead_process_is_dead,
        a_function_among_the_results_is_not_called_by_a_resume,
        the_thread_of_a_failed_or_killed_process_is_dead,
        the_thread_of_a_living_process_can_be_neither_resumed_nor_closed,
        a_join_waits_for_a_retaken_call_of_a_failing_process,
        a_yield_at_the_base_of_a_process_is_outside_of_a_coroutine;
    mod debugging from "processes/debugging.lua":
        user_values_cannot_be_seen_or_set,
        a_channel_and_a_condition_work_with_any_parameters,
        a_foreign_metatable_makes_no_object_of_another_kind,
        an_object_without_its_metatable_is_still_one,
        upvalues_of_c_functions_cannot_be_set,
        upvalues_of_lua_functions_are_set_as_ever,
        slots_of_a_c_function_that_waits_cannot_be_set,
        removing_objects_from_the_registry_does_no_harm,
        a_metatable_s_functions_can_be_called_by_hand,
        functions_found_by_getinfo_refuse_foreign_objects,
        a_scope_survives_what_is_done_to_its_metatable,
        a_scope_whose_coroutine_is_collected_leaves_its_processes_alone;
    mod context from "processes/context.lua":
        there_is_none_at_first,
        fields_are_set_changed_and_removed,
        a_program_gets_copies,
        a_process_inherits_what_its_spawner_has_at_that_time,
        a_process_of_a_coroutine_inherits_it_too,
        timeouts_scopes_and_timers_pass_it_on,
        a_call_with_a_context_sets_it_back,
        a_coroutine_may_yield_in_a_call_with_a_context,
        a_kill_in_a_call_with_a_context_closes_it,
        a_later_process_has_nothing_of_an_earlier_one,
        collections_keep_it,
        a_call_of_another_vm_takes_it_along,
        a_vm_begins_with_that_of_its_spawner,
        the_time_left_is_that_of_the_earliest_deadline,
        the_deadline_follows_the_work,
        a_deadline_may_be_given_to_a_process_and_ends_nothing,
        calls_of_other_vms_have_the_deadline_of_the_caller,
        misuse_raises;
    mod finalizers from "processes/finalizers.lua":
        those_that_wait_in_a_generational_collection_do_no_harm,
        those_that_wait_in_an_incremental_collection_do_no_harm,
        those_that_wait_while_the_mode_changes_do_no_harm,
        a_full_collection_calls_all_finalizers_though_they_wait,
        those_that_allocate_are_called_as_they_come,
        the_mode_stays_as_it_was_set_though_they_wait,
        one_that_waits_in_the_middle_of_a_list_does_no_harm,
        finalizers_that_wait_while_other_processes_are_inspected_do_no_harm;
    mod scopes from "processes/scope.lua":
        a_scope_waits_for_all_its_processes_and_returns_the_results_of_its_function,
        a_process_of_a_scope_is_like_any_other,
        processes_spawn_others_into_their_scope,
        the_first_failure_ends_the_others_and_is_raised,
        a_failure_is_raised_although_the_function_fails_of_it,
        a_failure_may_be_nil,
        the_traceback_of_a_failed_process_names_its_function,
        an_error_in_the_function_ends_the_processes,
        a_kill_of_the_caller_ends_the_processes,
        a_kill_between_two_instructions_leaves_no_child,
        a_process_that_is_killed_is_no_failure,
        scopes_nest,
        nothing_is_spawned_after_the_end_or_a_failure,
        wrong_arguments_are_refused,
        a_dot_in_place_of_a_colon_is_told,
        a_scope_may_be_left_by_a_coroutine,
        a_function_may_have_many_results;
    mod states from "processes/states.lua":
        the_running_process_is_running,
        a_process_that_waits_for_its_turn_is_runnable,
        a_process_on_a_channel_is_waiting,
        a_process_that_joins_is_waiting,
        a_sleeping_process_is_sleeping,
        a_suspended_process_is_suspended,
        a_process_in_a_long_c_call_is_foreign,
        an_ended_process_is_dead,
        the_traceback_of_a_waiting_process_names_its_functions,
        the_traceback_of_an_endless_loop_names_it,
        the_traceback_of_a_failed_process_shows_where_it_failed,
        a_process_can_print_its_own_traceback,
        a_traceback_of_a_process_inside_a_coroutine_is_text,
        the_running_time_of_a_process_counts_its_work,
        the_cpu_time_of_a_process_excludes_time_off_the_processor,
        a_process_in_a_call_that_sleeps_neither_runs_nor_computes,
        stats_has_the_most_stack_that_a_process_has_used,
        the_parameter_sets_the_stack_size_of_later_processes,
        the_counters_of_the_program_are_numbers_and_grow,
        threads_are_counted_and_main_runs_on_main,
        bind_to_main_keeps_a_process_on_the_first_thread,
        features_returns_a_table,
        parameters_are_read_and_written;
    mod threads from "processes/threads.lua":
        bound_processes_run_on_the_thread_of_the_name,
        a_process_binds_itself_and_others,
        the_main_process_may_be_bound_elsewhere,
        a_busy_thread_holds_up_only_those_that_are_bound_to_it,
        binding_to_a_busy_thread_waits_for_that_thread,
        a_process_that_waits_for_a_thread_can_be_unbound,
        kill_suspend_and_set_priority_reach_a_process_that_waits_for_a_thread,
        close_variables_of_a_killed_process_run_on_its_thread,
        those_on_one_thread_share_it_fairly,
        a_thread_ends_when_no_process_is_bound_to_it,
        the_bound_on_threads_is_named,
        other_processes_run_when_all_threads_are_named_or_in_calls,
        wrong_names_are_reported,
        critical_sections_do_not_move,
        generators_and_coroutines_move_with_their_process;
    mod kill from "processes/kill.lua":
        a_kill_ends_a_process_on_a_channel,
        a_kill_ends_a_sender,
        a_kill_ends_a_select,
        a_kill_ends_a_sleeper,
        a_kill_ends_a_suspended_process,
        a_kill_ends_an_endless_loop,
        a_kill_ends_an_endless_loop_of_calls,
        a_kill_ends_every_kind_of_wait,
        a_process_killed_before_its_start_never_starts,
        a_process_can_kill_itself,
        a_reason_is_given_to_the_joiner,
        a_kill_wakes_all_joiners,
        nested_pcall_does_not_stop_a_kill,
        a_loop_that_swallows_errors_does_not_stop_a_kill,
        a_kill_passes_over_message_handlers,
        close_runs_once_and_in_order_through_pcall_xpcall_and_coroutines,
        close_runs_in_a_busy_coroutine_too,
        a_kill_reaches_through_sort_gsub_and_metamethods,
        a_kill_waits_for_the_end_of_a_close_handler,
        a_close_handler_run_by_a_kill_may_wait,
        a_second_kill_abandons_a_close_handler,
        code_that_holds_a_kill_back_runs_as_fast_as_other_code,
        a_second_kill_before_anything_was_closed_changes_nothing,
        a_second_kill_is_for_the_close_handler_that_runs,
        a_failing_scope_lets_killed_processes_close_their_variables,
        a_kill_counts_although_the_process_was_at_its_end,
        an_error_in_a_close_handler_does_not_save_the_process,
        a_killed_owner_frees_its_mutex_and_says_so,
        a_killed_owner_passes_its_mutex_to_the_first_waiter,
        a_kill_inside_with_frees_the_mutex,
        a_kill_waits_for_the_return_of_a_c_function,
        methods_of_a_dead_process_return_dead,
        a_killed_generator_frees_its_iteration,
        a_hundred_busy_processes_are_killed_one_by_one;
    mod suspend from "processes/suspend.lua":
        a_process_spawned_suspended_starts_when_resumed,
        a_runnable_process_is_held_by_suspend,
        a_busy_loop_is_held_by_suspend,
        a_sleeper_whose_time_comes_while_suspended_stays_suspended,
        a_receiver_that_is_suspended_gets_its_value_when_resumed,
        a_process_suspends_itself_and_keeps_its_place,
        a_process_suspends_itself_through_its_own_handle,
        resuming_a_process_that_is_not_suspended_does_nothing,
        suspending_twice_needs_one_resume,
        a_suspended_owner_keeps_its_mutex,
        a_process_suspended_in_a_c_call_stays_so_after_its_return,
        a_kill_of_a_suspended_process_runs_its_close_handlers,
        suspend_and_resume_take_turns_thousands_of_times,
        a_timeout_that_passes_while_suspended_is_reported_after_resume;
    mod priorities from "processes/priorities.lua":
        the_default_priority_is_40_and_children_inherit,
        priorities_reach_from_1_to_80,
        a_more_urgent_child_runs_at_once,
        a_less_urgent_child_waits_for_all_others,
        an_equal_never_preempts,
        each_way_of_waking_a_more_urgent_process_preempts_at_once,
        raising_a_runnable_process_preempts_at_once,
        lowering_its_own_priority_switches_at_once,
        a_preempted_process_returns_to_the_head_of_its_level,
        yield_goes_to_the_back_of_the_level,
        yield_does_not_give_way_to_the_less_urgent,
        a_yield_of_the_only_process_returns_at_once,
        an_endless_loop_does_not_hold_up_the_more_urgent,
        a_busy_process_starves_the_less_urgent_until_it_waits,
        equal_endless_loops_take_turns,
        waiters_of_one_priority_are_served_in_order,
        a_change_of_priority_counts_while_waiting,
        priority_80_preempts_79_and_so_on_down;
    mod time from "processes/time.lua":
        sleepers_wake_in_the_order_of_their_deadlines,
        sleepers_of_one_deadline_wake_in_order,
        a_sleep_never_ends_early,
        sleep_until_does_not_wait_for_a_past_time,
        a_sleep_of_zero_or_less_does_not_wait,
        an_endless_sleep_can_be_killed,
        the_clock_never_goes_back,
        a_busy_equal_does_not_keep_a_sleeper_from_waking,
        after_calls_once_with_its_arguments_in_a_process_of_its_own,
        after_zero_fires_soon,
        a_cancelled_timer_does_not_fire,
        after_does_not_fire_early_and_fires_in_order,
        every_fires_until_cancelled,
        every_does_not_drift,
        a_firing_that_finds_the_last_one_running_is_skipped,
        a_cancel_does_not_stop_the_firing_that_runs,
        ten_thousand_sleepers_all_wake,
        a_thousand_timers_fire_and_a_thousand_are_cancelled;
}

#[test]
fn the_program_goes_on_until_every_process_has_ended() {
    baton()
        .process_code(
            "process.spawn(function() process.sleep(0.02) process.spawn(function() \
             process.sleep(0.02) print 'last' end) end)
             print 'main has returned'",
        )
        .run()
        .succeeds()
        .wrote("main has returned\nlast\n")
        .quietly();
}

#[test]
fn the_program_goes_on_while_a_timer_is_pending() {
    baton()
        .process_code("process.after(0.02, print, 'fired')")
        .run()
        .succeeds()
        .wrote("fired\n")
        .quietly();
    baton()
        .process_code(
            "local n, timer = 0
             timer = process.every(0.005, function() n = n + 1 if n == 3 then timer:cancel() \
             print(n) end end)",
        )
        .run()
        .succeeds()
        .wrote("3\n")
        .quietly();
}

#[test]
fn a_cancelled_timer_does_not_keep_the_program() {
    baton()
        .process_code("process.after(1000, print):cancel() print 'end'")
        .run()
        .succeeds()
        .wrote("end\n")
        .quietly();
}

#[test]
fn daemons_are_killed_at_the_end_and_their_close_handlers_run() {
    baton()
        .process_code(
            "local ready = process.semaphore(0)
             process.spawn({ daemon = true }, function()
               local guard <close> = setmetatable({}, { __close = function() print 'closed' end })
               ready:signal()
               process.sleep(1000)
             end)
             process.spawn({ daemon = true }, function()
               ready:signal()
               while true do pcall(function() while true do end end) end
             end)
             ready:wait()
             ready:wait()
             print 'main has returned'",
        )
        .run()
        .succeeds()
        .wrote("main has returned\nclosed\n")
        .quietly();
}

#[test]
fn a_finalizer_that_fails_after_a_wait_is_warned_about_and_the_others_run() {
    let outcome = baton()
        .process_code(
            "warn '@on'
             local stops, others = false, 0
             local collector = process.spawn(function()
               while not stops do collectgarbage 'step' process.yield() end
             end)
             for _ = 1, 3 do setmetatable({}, { __gc = function() others = others + 1 end }) end
             setmetatable({}, { __gc = function() process.sleep(0.005) error 'after a wait' end })
             collectgarbage()
             while others < 3 do collectgarbage() end
             stops = true
             collector:join() -- it may be in the one that fails
             print(others, debug.gethook())",
        )
        .run();
    outcome
        .succeeds()
        .wrote("3\tnil\n")
        .complained("error in __gc");
    assert_eq!(
        outcome.stderr.matches("after a wait").count(),
        1,
        "one warning\n{outcome}"
    );
}

#[test]
fn a_daemon_inside_an_endless_c_call_does_not_keep_the_program() {
    baton()
        .process_code(
            "local check = require 'check'
             local path = check.fifo()
             check.becomes(process.spawn({ daemon = true }, io.open, path), 'foreign')
             print 'main has returned'",
        )
        .run()
        .succeeds()
        .wrote("main has returned\n");
}

#[test]
fn a_daemon_whose_close_handler_never_ends_does_not_keep_the_program() {
    let outcome = baton()
        .process_code(
            "local ready = process.event()
             process.spawn({ daemon = true }, function()
               local guard <close> = setmetatable({}, { __close = function() while true do \
               process.sleep(0.01) end end })
               ready:set()
               process.sleep(1000)
             end)
             ready:wait()",
        )
        .run();
    outcome.succeeds();
}

#[test]
fn finalizers_run_at_the_end_as_in_lua() {
    baton()
        .process_code(
            "kept = setmetatable({}, { __gc = function() print 'collected' end })
             process.spawn(function() process.sleep(0.005) print 'process' end)",
        )
        .run()
        .succeeds()
        .wrote("process\ncollected\n")
        .quietly();
}

#[test]
fn an_error_in_the_main_chunk_ends_the_program_with_status_1() {
    let outcome = baton()
        .process_code(
            "process.spawn(function() while true do process.sleep(0.01) end end)
             process.spawn(function() while true do end end)
             process.sleep(0.005)
             error 'main is lost'",
        )
        .run();
    outcome
        .ends_with(1)
        .wrote("")
        .complained("main is lost")
        .complained("stack traceback:")
        .without_panic();
}

#[test]
fn os_exit_ends_the_program_at_once_from_any_process() {
    for (argument, status) in [("3", 3), ("true", 0), ("false", 1), ("", 0)] {
        let code = format!(
            "local guard <close> = setmetatable({{}}, {{ __close = function() print 'closed' end }})
             process.spawn(function() while true do end end)
             process.spawn(function() process.sleep(0.002) os.exit({argument}) end)
             process.sleep(1000)"
        );
        baton()
            .process_code(&code)
            .run()
            .ends_with(status)
            .wrote("")
            .quietly();
    }
    baton()
        .process_code(
            "process.spawn(function() process.sleep(1000) end) process.yield() os.exit(5)",
        )
        .run()
        .ends_with(5)
        .quietly();
}

#[test]
fn os_exit_ends_the_program_while_c_calls_go_on() {
    baton()
        .process_code(
            "local check = require 'check'
             for _ = 1, 3 do check.becomes(process.spawn(check.endless_match), 'foreign') end
             os.exit(4)",
        )
        .run()
        .ends_with(4);
}

#[test]
fn os_exit_with_close_kills_the_others_first() {
    for from in ["main", "another"] {
        let code = format!(
            "local ready = process.event()
             local function leave() os.exit(7, true) end
             process.spawn(function()
               local guard <close> = setmetatable({{}}, {{ __close = function() print 'closed' end \
               }})
               ready:set()
               while true do pcall(process.sleep, 1000) end
             end)
             ready:wait()
             if '{from}' == 'main' then leave() end
             process.spawn(leave)
             process.sleep(1000)"
        );
        baton()
            .process_code(&code)
            .run()
            .ends_with(7)
            .wrote("closed\n")
            .quietly();
    }
}

#[test]
fn an_unjoined_failure_is_printed_and_makes_the_status_1() {
    let outcome = baton()
        .process_code(
            "local function failing_function() error 'unseen' end
             process.spawn({ name = 'the unlucky' }, function() failing_function() end)
             process.sleep(0.01)
             print 'main goes on'",
        )
        .run();
    outcome.ends_with(1).wrote("main goes on\n").without_panic();
    outcome
        .complained("the unlucky")
        .complained("unseen")
        .complained("stack traceback:")
        .complained("failing_function");
}

#[test]
fn a_failure_is_printed_when_it_happens() {
    let mut program = baton()
        .process_code(
            "process.spawn({ name = 'early' }, function() error 'at once' end)
             process.yield()
             io.read()
             print 'much later'
             process.sleep(1000)",
        )
        .stdin("line\n")
        .start();
    program.await_stderr("at once");
    program.await_stdout("much later");
}

#[test]
fn a_failure_that_is_joined_after_its_death_leaves_status_0() {
    baton()
        .process_code(
            "local p = process.spawn(function() error 'printed' end)
             require 'check'.becomes(p, 'dead')
             print(p:join())",
        )
        .run()
        .succeeds()
        .complained("printed");
}

#[test]
fn a_failure_that_is_awaited_leaves_status_0_and_no_message() {
    baton()
        .process_code(
            "print(process.spawn({ priority = 39 }, function() error('awaited', 0) end):join())",
        )
        .run()
        .succeeds()
        .wrote("false\tawaited\n")
        .quietly();
}

#[test]
fn an_unjoined_quiet_failure_does_not_change_the_status() {
    baton()
        .process_code("process.spawn({ quiet = true }, error, 'x')")
        .run()
        .succeeds()
        .quietly();
    baton()
        .process_code(
            "local p = process.spawn({ quiet = true }, error, 'x')
             process.sleep(0.01) p:join() process.spawn(error, 'loud')",
        )
        .run()
        .ends_with(1)
        .complained("loud");
}

#[test]
fn a_failure_is_printed_before_its_joiner_continues() {
    let program = "local seen, go = process.event(), process.event()
        local text = { __tostring = function() seen:set() go:wait() return 'its text' end }
        local value = setmetatable({}, text)
        local p = process.spawn(error, value)
        seen:wait()
        local joined = process.spawn(function()
          local ok, same = p:join()
          io.stderr:write(tostring(not ok and same == value), '\\n')
        end)
        process.yield() go:set() joined:join()";
    let outcome = baton().process_code(program).run();
    outcome.succeeds();
    let (failure, joined) = (
        outcome.stderr.find("failed: its text"),
        outcome.stderr.find("\ntrue\n"),
    );
    assert!(failure.is_some() && failure < joined, "{outcome}");
}

#[test]
fn a_quiet_failure_is_not_printed() {
    baton()
        .process_code(
            "process.spawn({ quiet = true }, error, 'never seen') process.sleep(0.01) print 'end'",
        )
        .run()
        .wrote("end\n")
        .quietly();
}

#[test]
fn a_failure_of_a_timer_is_printed_and_makes_the_status_1() {
    baton()
        .process_code("process.after(0.001, function() error 'in a timer' end)")
        .run()
        .ends_with(1)
        .complained("in a timer");
}

#[test]
fn a_failure_with_an_error_value_that_is_no_string_is_printed() {
    baton()
        .process_code("process.spawn({ name = 'odd' }, function() error {} end)")
        .run()
        .ends_with(1)
        .complained("odd")
        .complained("table");
    baton()
        .process_code(
            "process.spawn(function() error(setmetatable({}, { __tostring = function() return 'as \
             text' end })) end)",
        )
        .run()
        .ends_with(1)
        .complained("as text");
}

#[test]
fn being_killed_is_no_error() {
    baton()
        .process_code(
            "local p = process.spawn(process.sleep, 1000) process.yield() p:kill() \
                       process.sleep(0.002)",
        )
        .run()
        .succeeds()
        .wrote("")
        .quietly();
}

#[test]
fn processes_run_from_a_script_file_stdin_and_several_chunks() {
    let code = harness::with_process("process.spawn(print, 'from stdin')");
    baton()
        .arg("-")
        .stdin(&code)
        .run()
        .succeeds()
        .wrote("from stdin\n")
        .quietly();
    baton()
        .process_code("first = process.spawn(function() process.sleep(0.005) print 'one' end)")
        .process_code("process.spawn(function() first:join() print 'two' end)")
        .run()
        .succeeds()
        .wrote("one\ntwo\n")
        .quietly();
}

#[test]
fn the_program_ends_from_a_named_thread_and_while_one_is_in_a_call() {
    for end in ["", "os.exit(0)", "os.exit(0, true)", "process.main:kill()"] {
        let code = format!(
            "local check = require 'check'
             local path = check.fifo()
             check.becomes_stuck(process.spawn({{ daemon = true, thread = 'out' }}, io.open, \
             path), 'open')
             process.spawn({{ daemon = true, thread = 'out' }}, print, 'not reached')
             process.spawn({{ daemon = true, thread = 'idle' }}, process.sleep, 1000)
             process.main:bind 'elsewhere'
             print(process.thread())
             {end}"
        );
        let outcome = baton().process_code(&code).run();
        let is_killed = end.ends_with("kill()");
        outcome.ends_with(is_killed.into()).wrote("elsewhere\n");
        assert!(is_killed || outcome.stderr.is_empty(), "{outcome}");
    }
}

#[test]
fn a_report_says_which_thread_a_process_waits_for() {
    let mut program = baton()
        .process_code(
            "local check = require 'check'
             check.becomes_stuck(process.spawn({ daemon = true, thread = 'device' }, io.open, \
             check.fifo()), 'open')
             process.spawn({ name = 'patient', thread = 'device' }, print)
             process.yield()
             print 'ready'
             process.sleep(1000)",
        )
        .start();
    program.await_stdout("ready");
    program.signal("QUIT");
    program.await_stderr(
        "runnable, for the thread 'device', which is out in a call of another process",
    );
}
