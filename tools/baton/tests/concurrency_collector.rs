//! Tests the collector beside processes: major collections of a large heap, which run in steps, and
//! Lua threads of ended processes, which serve other processes.

mod harness;

use harness::{baton, cases};

cases! {
    mod in_steps from "collector/in_steps.lua":
        garbage_goes_in_pieces,
        steps_of_no_size_collect,
        all_calls_of_collectgarbage_in_the_middle,
        steps_that_are_asked_for_finish_cycles,
        equals_run_before_a_long_piece_of_the_collectors_work,
        finalizers_keep_their_order,
        finalizers_that_wait_in_the_middle,
        a_finalizer_that_never_returns_stops_no_process,
        weak_tables_and_ephemerons,
        processes_that_are_killed_in_the_middle;
    mod threads from "collector/threads.lua":
        results_stay_after_the_thread_has_served_others,
        a_thread_that_the_program_knows_serves_no_other,
        a_thread_known_by_debug_sethook_serves_no_other,
        a_thread_that_a_module_in_c_may_keep_serves_no_other,
        what_a_process_held_can_be_collected,
        closed_variables_and_upvalues_survive_the_process,
        many_processes_that_end_together_leave_little_memory,
        deep_and_wide_calls_leave_their_thread_to_the_collector,
        an_ended_process_still_has_its_priority_and_times;
}

/// Returns the most memory in use, in KiB, while a program replaces the objects of a large heap.
fn peak(before: &str, change: &str) -> f64 {
    let code = format!(
        "{before}
         local list, most = {{}}, 0
         for i = 1, 200000 do list[i] = {{ i, {{}} }} end
         for round = 1, 5 do
           for i = 1, 200000 do
             {change}
             if i % 1000 == 0 then most = math.max(most, collectgarbage 'count') end
           end
         end
         print(most)"
    );
    let outcome = baton().process_code(&code).run();
    outcome.succeeds();
    outcome.stdout.trim().parse().expect("a size")
}

#[test]
fn garbage_takes_at_most_twice_the_memory_that_it_takes_without_others() {
    for change in [
        "local t = { i }",
        "list[i] = { i, {} }",
        "list[i * 7919 % 200000 + 1] = { i, { i } }",
        "if i % 1000 == 0 then local s = ('x'):rep(100000 + i) end",
    ] {
        let alone = peak("", change);
        let beside = peak(
            "process.spawn({ daemon = true }, process.sleep, 1e6)",
            change,
        );
        assert!(
            beside <= 2.0 * alone,
            "{beside} KiB beside another process, {alone} without, of {change}"
        );
    }
}
