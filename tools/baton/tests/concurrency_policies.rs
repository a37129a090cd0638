//! Policies: which calls of C modules may overlap, declared by the program, by the environment, or built in.

mod harness;

use harness::{baton, cases};

cases! {
    mod policies from "foreign/policies.lua":
        calls_about_different_objects_overlap,
        more_calls_than_threads_wait_for_their_turn_and_all_come_to_it,
        a_second_call_about_an_object_waits_for_the_first,
        closing_an_object_waits_for_the_call_about_it,
        an_upvalue_is_an_object_too,
        calls_about_no_object_overlap,
        calls_of_a_concurrent_module_overlap_on_one_object,
        calls_into_a_serial_module_come_one_at_a_time,
        a_process_that_waits_for_its_turn_can_be_killed,
        a_declaration_can_be_taken_back,
        other_functions_are_not_held_up_by_a_call_that_is_out,
        wrong_declarations_are_refused;
}

/// One process waits in the module until a more important one, which ticks, lets it go: without a policy that allows it, nobody ever would.
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
fn a_module_is_declared_before_it_is_loaded() {
    baton()
        .process_code(&format!("process.concurrent('latch', 'object')\n{RELEASED_BY_ANOTHER}"))
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
    // The monitor may not be let run during a call or two. The end of the test ends the program.
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
