//! Tests major collections of a large heap beside other processes. They run in steps; in the middle
//! of one, all functions of the collector must work as ever.

mod harness;

use harness::{baton, cases};

cases! {
    mod in_steps from "collector/in_steps.lua":
        garbage_goes_in_pieces,
        all_calls_of_collectgarbage_in_the_middle,
        steps_that_are_asked_for_finish_cycles,
        equals_run_before_a_long_piece_of_the_collectors_work,
        finalizers_keep_their_order,
        finalizers_that_wait_in_the_middle,
        a_finalizer_that_never_returns_stops_no_process,
        weak_tables_and_ephemerons,
        processes_that_are_killed_in_the_middle;
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
