//! A finalizer that would wait is put off to a daemon. The process that triggered the collection
//! continues.

mod harness;

use harness::{baton, cases};

cases! {
    mod put_off from "finalizers/put_off.lua":
        a_collection_does_not_wait_for_a_busy_module_and_the_order_stays,
        wrapped_coroutines_and_lua_functions_run_in_order,
        nothing_is_put_off_while_nothing_is_busy,
        a_collection_that_is_asked_for_returns_after_finalizers_that_do_not_wait,
        finalizers_that_fail_are_warned_about_and_the_next_are_called,
        an_object_that_a_finalizer_keeps_is_intact,
        objects_stay_alive_through_collections_of_every_kind,
        a_killed_daemon_loses_nothing,
        a_waiting_finalizer_does_not_hold_up_handles_of_processes,
        garbage_does_not_pile_up_while_the_daemon_works,
        cooperative_processes_and_critical_sections_call_them_in_their_middle,
        a_finalizer_that_waits_for_its_collector_s_lock_does_not_stop_it,
        many_processes_collect_while_a_finalizer_waits;
}

/// A regression test: beside a long call, an allocating process waited for the end of that call.
#[test]
fn a_process_that_allocates_is_not_held_up_by_a_finalizer() {
    let code = "process.concurrent('finalized', 'serial')
         local finalized = require 'finalized'
         local objects, worst = {}, 0
         for i = 1, 100 do objects[i] = finalized.new 'o' end
         local reading, writing = finalized.pipe()
         local path = finalized.path(writing)
         local p = process.spawn(finalized.hold, reading)
         repeat process.sleep(0.001) until p:status() == 'foreign'
         objects = nil
         local first = process.now()
         local last = first
         while last < first + 0.15 do
           for i = 1, 500 do local t = { i, {} } end
           local now = process.now()
           worst = math.max(worst, now - last)
           last = now
         end
         io.open(path, 'w'):write('x'):close()
         p:join()
         print(worst)";
    let mut worst = f64::MAX;
    // A busy machine causes gaps of its own, but not in each run.
    for _ in 0..40 {
        let outcome = baton().process_code(code).run();
        outcome.succeeds();
        worst = worst.min(outcome.stdout.trim().parse::<f64>().expect("a time"));
        if worst <= 0.020 {
            break;
        }
    }
    assert!(worst <= 0.020, "the worst gap was {worst} s");
}

#[test]
fn finalizers_put_off_at_the_end_run_in_order_when_the_state_is_closed() {
    for end in ["", "os.exit(0, true)"] {
        baton()
            .process_code(&format!(
                "process.concurrent('finalized', 'serial')
                 local finalized = require 'finalized'
                 local objects = {{}}
                 for i = 1, 3 do objects[i] = finalized.new('speaks ' .. i) end
                 local p, path
                 do
                   local reading, writing = finalized.pipe()
                   path = finalized.path(writing)
                   p = process.spawn(function() finalized.hold(reading) process.suspend() end)
                 end
                 repeat process.sleep(0.001) until p:status() == 'foreign'
                 collectgarbage 'stop' -- one collection finds all of them
                 objects = nil
                 setmetatable({{}}, {{ __gc = function() print 'a Lua function' end }})
                 collectgarbage()
                 process.critical(function()
                   io.open(path, 'w'):write('x'):close()
                   process.main:set_priority(80) -- the daemon is not let run before the end
                   os.execute 'sleep 0.05'
                 end)
                 p:kill()
                 {end}"
            ))
            .run()
            .succeeds()
            .wrote("a Lua function\nspeaks 3\nspeaks 2\nspeaks 1\n");
    }
}

#[test]
fn a_put_off_finalizer_does_not_run_at_the_end_if_a_call_of_its_module_was_abandoned() {
    baton()
        .process_code(
            "process.concurrent('finalized', 'serial')
             local finalized = require 'finalized'
             local object = finalized.new 'speaks'
             local p = process.spawn({ daemon = true }, finalized.hold, (finalized.pipe()))
             repeat process.sleep(0.001) until p:status() == 'foreign'
             object = nil
             kept = setmetatable({}, { __gc = function() print 'the rest' end })
             collectgarbage()",
        )
        .run()
        .succeeds()
        .wrote("the rest\n")
        .quietly();
}

#[test]
fn a_program_with_one_process_calls_finalizers_as_lua_does() {
    baton()
        .code(
            "local log = {}
             for _, mode in ipairs { 'generational', 'incremental' } do
               collectgarbage(mode)
               collectgarbage 'stop' -- one collection finds all of them
               for i = 1, 3 do setmetatable({}, { __gc = function() log[#log + 1] = i end }) end
               local pipe = io.popen 'true'
               pipe = nil
               collectgarbage()
               collectgarbage 'restart'
             end
             print(table.concat(log, ' '))
             print(#require 'baton.process'.list())",
        )
        .run()
        .succeeds()
        .wrote("3 2 1 3 2 1\n1\n")
        .quietly();
}
