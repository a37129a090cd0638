//! Tests preemption: which loops are preempted, and that programs cannot observe it.

mod harness;

use harness::{baton, cases};

cases! {
    mod loops from "preempt/loops.lua":
        a_plain_loop,
        a_repeat_loop,
        a_numeric_loop,
        a_goto_loop,
        a_loop_of_calls,
        a_loop_of_tail_calls,
        a_loop_of_pcalls,
        a_loop_inside_pcall,
        a_sort_comparator,
        a_loop_of_sorts,
        a_gsub_callback,
        an_index_metamethod,
        a_loop_of_metamethods,
        a_coroutine,
        a_loop_of_generators,
        a_for_in_loop,
        a_loop_of_long_strings,
        a_loop_of_garbage,
        a_loop_of_concatenations,
        a_loop_of_loading,
        a_loop_under_a_count_hook,
        a_loop_under_a_line_hook,
        a_loop_under_a_call_hook,
        a_loop_inside_a_hook,
        all_of_them_together_go_on,
        one_of_them_ends_the_program_under_all_the_others,
        an_endless_finalizer,
        a_loop_at_depth_190000;
    mod state from "preempt/state.lua":
        recursive_functions_keep_their_frames,
        varargs_keep_their_values,
        upvalues_stay_with_their_closures,
        coroutines_inside_processes_keep_their_place,
        sorting_gives_the_right_order,
        gsub_with_a_function_gives_the_right_string,
        metamethods_give_the_right_results,
        errors_and_close_variables_behave_under_preemption,
        deep_stacks_grow_and_shrink_beside_a_collector,
        the_incremental_and_the_generational_collector_both_work,
        a_process_without_a_hook_sees_none,
        a_hook_and_its_mask_read_back_unchanged,
        a_line_hook_gets_every_line_once,
        a_call_hook_gets_every_call_and_return_once,
        a_count_hook_is_called_as_often_as_without_preemption,
        a_hook_belongs_to_the_process_that_set_it,
        an_error_from_a_hook_ends_a_loop_as_in_lua,
        tracebacks_and_getinfo_tell_the_truth_under_preemption;
    mod slices from "preempt/slices.lua":
        equals_take_turns_by_slices,
        a_long_slice_keeps_equals_waiting,
        equal_processes_keep_alternating,
        a_slice_can_be_changed_while_running,
        a_cooperative_process_is_not_preempted_by_equals,
        a_cooperative_process_is_not_preempted_by_the_more_urgent,
        a_cooperative_program_switches_only_where_it_waits,
        the_more_urgent_do_not_interrupt_a_cooperative_program,
        increments_are_atomic_in_a_cooperative_program,
        one_table_access_and_one_library_call_are_atomic,
        a_switch_costs_the_same_at_any_depth;
    mod interrupts from "preempt/interrupts.lua":
        by_a_timer,
        by_a_timer_that_fires_again_and_again,
        by_a_call_that_returns,
        by_a_callback_of_a_foreign_thread,
        the_signal_lets_a_more_urgent_main_process_interrupt,
        the_signal_does_not_let_an_equal_main_process_interrupt,
        an_equal_main_process_runs_when_the_other_yields,
        a_yield_does_not_let_a_less_urgent_main_process_run,
        a_less_urgent_main_process_runs_when_the_other_sleeps,
        the_signal_does_not_interrupt_a_cooperative_process,
        a_more_urgent_main_process_runs_when_a_cooperative_one_yields;
}

#[test]
fn urgent_processes_do_not_interrupt_a_cooperative_simulated_run() {
    let outcome = baton()
        .arg("--simulate")
        .arg("1-20")
        .script("preempt/slices.lua")
        .arg("the_more_urgent_do_not_interrupt_a_cooperative_program")
        .run();
    outcome.succeeds().complained("20 seeds, none failed");
}

/// Timers are the only external events of a simulated run.
#[test]
fn timers_interrupt_in_simulated_runs_as_in_others() {
    for case in ["by_a_timer", "by_a_timer_that_fires_again_and_again"] {
        let outcome = baton()
            .arg("--simulate")
            .arg("1-3")
            .script("preempt/interrupts.lua")
            .arg(case)
            .run();
        outcome.succeeds().complained("3 seeds, none failed");
    }
}

#[test]
fn the_environment_sets_parameters_and_dash_e_ignores_it() {
    let code = harness::with_process("print(process.params.slice, process.params.preemptive)");
    let run = || {
        baton()
            .env("BATON_SLICE", "0.025")
            .env("BATON_PREEMPTIVE", "false")
    };
    run()
        .code(&code)
        .run()
        .succeeds()
        .wrote("0.025\tfalse\n")
        .quietly();
    run()
        .arg("-E")
        .code(&code)
        .run()
        .succeeds()
        .wrote("0.01\ttrue\n")
        .quietly();
}

#[test]
fn a_bad_parameter_in_the_environment_is_reported_and_not_obeyed() {
    let outcome = baton()
        .env("BATON_SLICE", "soon")
        .process_code("print(process.params.slice)")
        .run();
    outcome.without_panic().complained("BATON_SLICE");
}
