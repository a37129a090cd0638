//! Policies: which calls of C modules may overlap. The program, the environment or a built-in list
//! declares them.

mod harness;

use harness::{baton, cases};

cases! {
    mod policies from "foreign/policies.lua":
        calls_about_different_objects_overlap,
        calls_beyond_the_number_of_threads_wait_and_all_run,
        a_second_call_about_an_object_waits_for_the_first,
        closing_an_object_waits_for_the_call_about_it,
        an_upvalue_is_an_object_too,
        calls_about_no_object_overlap,
        calls_of_a_concurrent_module_overlap_on_one_object,
        calls_into_a_serial_module_come_one_at_a_time,
        a_process_that_waits_for_its_turn_can_be_killed,
        a_declaration_can_be_taken_back,
        other_functions_are_not_held_up_by_a_call_that_is_out,
        references_that_overlapping_calls_make_lead_to_their_values,
        wrong_declarations_are_refused;
}

cases! {
    mod callbacks from "foreign/callbacks.lua":
        an_unknown_module_has_one_process_s_call_at_a_time_while_callbacks_wait,
        so_it_has_while_callbacks_are_preempted,
        a_serial_module_has_one_process_s_call_at_a_time_while_callbacks_wait,
        an_object_has_one_process_s_call_at_a_time_while_callbacks_wait,
        calls_about_other_objects_overlap_while_callbacks_wait,
        a_callback_may_call_the_module_again,
        others_enter_a_loop_s_module_while_a_callback_waits,
        an_error_in_a_callback_lets_others_enter,
        a_kill_in_a_callback_lets_others_enter,
        a_process_that_waits_to_enter_can_be_killed,
        others_enter_while_a_call_has_yielded,
        a_continued_call_is_in_use_again,
        a_collection_beside_a_callback_that_waits_goes_on;
}

cases! {
    mod in_call from "foreign/in_call.lua":
        one_that_is_concurrent_lets_others_run,
        so_does_the_main_process,
        several_calls_can_be_suspended_in_their_middle,
        a_second_call_about_its_object_waits_and_calls_about_others_do_not,
        one_that_is_exclusive_keeps_its_atomicity,
        one_that_is_not_exclusive_is_interrupted,
        none_gives_way_in_a_critical_section,
        none_gives_way_in_a_hook,
        none_gives_way_in_a_finalizer,
        one_that_is_not_preemptible_keeps_the_vm,
        a_more_urgent_process_does_not_wait_for_the_end_of_the_slice,
        a_kill_takes_effect_when_it_returns,
        its_traceback_shows_the_function,
        it_can_be_suspended_in_its_middle,
        processes_that_are_bound_to_its_thread_go_on_while_it_is_suspended,
        a_bound_process_goes_on_on_its_own_thread,
        in_a_coroutine_too,
        callbacks_run_and_wait_in_between,
        their_results_are_right_while_others_collect_and_allocate,
        without_another_thread_a_call_keeps_the_vm_and_ends,
        calls_that_block_and_calls_that_knead_share_the_threads,
        a_scheduler_hook_chooses_the_next_process,
        a_substitution_by_a_table_lets_others_run,
        reading_a_large_source_lets_others_run;
}

/// One process waits in the module until a more urgent process, which ticks, releases it. Without a
/// policy that lets others run, it would wait for ever.
const RELEASED_BY_ANOTHER: &str = "local latch = require 'latch'
    local object, path = latch.new()
    local p = process.spawn(object.wait, object)
    repeat process.sleep(0.001) until p:status() == 'foreign'
    io.open(path, 'w'):write('x'):close()
    print(p:join())";

#[test]
fn the_environment_declares_modules() {
    for declaration in [
        "latch",
        "latch=object",
        "other=exclusive,latch=serial,",
        "latch=concurrent",
    ] {
        baton()
            .env("BATON_CONCURRENT", declaration)
            .process_code(RELEASED_BY_ANOTHER)
            .run()
            .succeeds()
            .wrote("true\tx\n")
            .quietly();
    }
}

#[test]
fn simulated_runs_find_no_two_calls_of_an_unknown_module_at_once() {
    for case in [
        "an_unknown_module_has_one_process_s_call_at_a_time_while_callbacks_wait",
        "so_it_has_while_callbacks_are_preempted",
        "an_object_has_one_process_s_call_at_a_time_while_callbacks_wait",
    ] {
        for seed in ["1", "2", "3"] {
            let run = baton().arg("--simulate").arg(seed);
            let outcome = run.script("foreign/callbacks.lua").arg(case).run();
            outcome.succeeds();
        }
    }
}

/// A callback of the module waits until another process has called the module.
const WAITS_FOR_A_CALL: &str = "local module = require 'calls_back'
    local entered = process.event()
    local p = process.spawn({ name = 'loop' }, function()
      module.loop(function() entered:wait() end)
    end)
    require 'check'.becomes(p, 'waiting')
    module.touch()
    entered:set()
    print(p:join())";

#[test]
fn a_loop_of_an_unknown_module_keeps_others_out_for_a_second_and_a_warning_says_what_to_do() {
    baton()
        .process_code(WAITS_FOR_A_CALL)
        .run()
        .succeeds()
        .wrote("true\n")
        .complained("'loop': 'loop' of the module 'calls_back' has called back, and kept")
        .complained("process.concurrent('calls_back', 'loop')");
}

#[test]
fn a_call_that_keeps_another_process_waiting_for_a_second_is_named() {
    baton()
        .env("BATON_CONCURRENT", "calls_back=serial")
        .process_code(
            "local module = require 'calls_back'
             local over = false
             local p = process.spawn({ name = 'holder' }, function()
               module.new():each(1, function()
                 process.sleep(1.3)
                 over = true
               end)
             end)
             require 'check'.becomes(p, 'sleeping')
             module.touch()
             print(over, p:join())",
        )
        .run()
        .succeeds()
        .wrote("true\ttrue\n")
        .complained("'holder': 'each' of the module 'calls_back' has kept")
        .complained("waiting for a second");
}

#[test]
fn a_vm_that_waits_for_another_one_s_call_for_a_second_says_so() {
    baton()
        .process_code(
            "local module, vm = require 'calls_back', require 'baton.vm'
             vm.spawn(function() end):join() -- from now on, calls have turns
             local p = process.spawn(function()
               module.new():each(1, function() process.sleep(1.3) end)
             end)
             require 'check'.becomes(p, 'sleeping')
             print(vm.spawn(function() require 'calls_back'.touch() end):join())
             print(p:join())",
        )
        .run()
        .succeeds()
        .wrote("true\ntrue\n")
        .complained("has waited for a second to call the module 'calls_back'");
}

#[test]
fn a_module_is_declared_before_it_is_loaded() {
    baton()
        .process_code(&format!(
            "process.concurrent('latch', 'object')\n{RELEASED_BY_ANOTHER}"
        ))
        .run()
        .succeeds()
        .wrote("true\tx\n")
        .quietly();
}

#[test]
fn a_wrong_declaration_in_the_environment_is_reported_and_dash_e_ignores_it() {
    for wrong in ["latch=sometimes", "=object", "latch="] {
        baton()
            .env("BATON_CONCURRENT", wrong)
            .code("print 'not reached'")
            .run()
            .ends_with(1)
            .complained("BATON_CONCURRENT: modules expected");
        baton()
            .env("BATON_CONCURRENT", wrong)
            .arg("-E")
            .code("print 'reached'")
            .run()
            .succeeds()
            .wrote("reached\n");
    }
}

#[test]
fn the_warning_about_a_module_that_keeps_the_vm_names_the_remedy() {
    // On a busy machine, the monitor may miss one or two calls. The program runs until the test
    // ends it.
    let mut program = baton()
        .process_code(
            "process.params.warn_blocked = 0.02
             local blocker = require 'blocker'
             process.spawn({ daemon = true }, function() while true do process.sleep(0.001) end end)
             process.yield()
             while true do blocker.block_ms(400) end",
        )
        .start();
    program.await_stderr("'block_ms' of the module 'blocker' keeps all other processes waiting");
    program.await_stderr("process.concurrent('blocker', 'object')");
}

/// Starts a program and waits until its stderr has all these texts. Then ends it.
fn warns(code: &str, parts: &[&str]) {
    let mut program = baton()
        .process_code(&format!(
            "process.params.warn_blocked = 0.02
             process.spawn({{ daemon = true }}, function() while true do process.sleep(0.001) end \
             end)
             process.yield()
             {code}"
        ))
        .start();
    for part in parts {
        program.await_stderr(part);
    }
}

/// A regression test: a function that nothing in the program's text names was "a C function at
/// 0x...".
#[test]
fn the_warning_names_a_function_that_is_called_without_a_name() {
    warns(
        "local blocker = require 'blocker'
         while true do pcall(blocker.block_ms, 400) end",
        &["'blocker.block_ms' of the module 'blocker' keeps all other processes waiting"],
    );
    warns(
        "local block = require 'blocker'.block_ms
         package.loaded.blocker = true
         while true do
           local ended = pcall(block, 400)
         end",
        &[
            "a C function without a name (at (command line):",
            "of the module 'blocker' keeps all",
        ],
    );
}

#[test]
fn the_warning_about_a_module_that_was_declared_does_not_say_to_declare_it() {
    warns(
        "process.concurrent('kneader', 'exclusive')
         local kneader = require 'kneader'
         while true do kneader.for_ms(400) end",
        &[
            "'for_ms' of the module 'kneader', which is declared exclusive, keeps all other \
             processes waiting. Give it less at a time",
        ],
    );
    warns(
        "process.concurrent('kneader', 'concurrent')
         local kneader = require 'kneader'
         while true do
           setmetatable({}, { __gc = function() kneader.for_ms(400) end })
           collectgarbage()
         end",
        &["although its policy lets them run: it is called in a finalizer. Call it elsewhere"],
    );
}

#[test]
fn a_call_that_gives_way_is_not_warned_of() {
    baton()
        .process_code(
            "process.params.warn_blocked = 0.2
             process.concurrent('kneader', 'concurrent')
             local kneader = require 'kneader'
             process.spawn({ daemon = true }, function() while true do process.sleep(0.001) end end)
             process.yield()
             kneader.for_ms(600)
             print 'done'",
        )
        .run()
        .succeeds()
        .wrote("done\n")
        .quietly();
}

#[test]
fn a_long_piece_of_the_collectors_work_is_warned_of_by_name() {
    warns(
        "process.params.warn_blocked = 0.005
         local all = {}
         for i = 1, 1000000 do all[i] = { i } end
         while true do collectgarbage() process.sleep(0.001) end",
        &[
            "the garbage collector keeps all processes waiting",
            "collectgarbage 'step'",
        ],
    );
}

#[test]
fn a_call_that_keeps_its_thread_from_others_is_warned_of() {
    for call in [
        "kneader.until_told()",      // gives way
        "blocker.block_ms(3600000)", // was retaken
    ] {
        warns(
            &format!(
                "process.concurrent('kneader', 'concurrent')
                 process.concurrent('blocker', 'concurrent')
                 local kneader, blocker, has_begun = require 'kneader', require 'blocker'
                 process.spawn({{ thread = 'drawing', name = 'painter' }}, function()
                   has_begun = true
                   {call}
                 end)
                 repeat process.sleep(0.01) until has_begun
                 process.spawn({{ thread = 'drawing', name = 'printer' }}, print)
                 process.sleep(3600)"
            ),
            &[
                "'painter'",
                "has the native thread of process 4 'printer', which is bound to it, and keeps it \
                 waiting",
            ],
        );
    }
}
