//! Tests scheduling: critical sections, directed yields, scheduler hooks and switch hooks.

mod harness;

use harness::{baton, cases};

cases! {
    mod critical from "processes/critical.lua":
        critical_passes_arguments_and_results,
        no_other_process_runs_during_a_critical_section,
        critical_sections_nest,
        an_error_ends_the_section,
        only_a_wait_that_would_block_raises,
        a_mutex_of_another_cannot_be_waited_for_inside,
        timers_that_are_due_inside_fire_after,
        suspending_oneself_leaves_the_section_and_takes_it_again,
        a_kill_is_held_back_inside_a_section,
        a_process_suspended_out_of_its_section_can_be_killed,
        a_foreign_call_inside_a_section_is_not_retaken,
        a_coroutine_cannot_leave_a_section_by_a_yield,
        an_interrupt_that_comes_inside_is_raised_after,
        exit_from_inside_a_section_closes_the_others,
        misuse_of_critical_and_yield_to_raises,
        a_directed_yield_ignores_the_order_of_equals,
        a_directed_yield_falls_back_to_the_next,
        a_process_that_is_not_preemptible_runs_until_it_waits;
    mod waking from "processes/waking.lua":
        by_a_signal,
        by_a_value,
        by_taking_a_value,
        by_closing_a_channel,
        out_of_a_choice,
        out_of_a_choice_by_an_event,
        out_of_a_choice_by_a_semaphore,
        by_setting_a_timer,
        by_an_event,
        by_a_condition,
        by_the_last_one_at_a_barrier,
        by_resuming,
        by_a_kill,
        by_a_priority,
        by_the_clock;
    mod hooks from "processes/hooks.lua":
        a_scheduler_chooses_who_runs,
        a_scheduler_that_declines_changes_nothing,
        one_that_cannot_run_is_not_chosen,
        a_switch_hook_may_end_the_one_that_would_run_next,
        a_scheduler_may_prefer_the_less_urgent,
        a_scheduler_hook_may_inspect_and_act_but_cannot_wait,
        a_scheduler_sees_preemptions,
        a_scheduler_is_collected_and_may_allocate,
        misuse_of_hooks_raises,
        switch_hooks_are_called_around_each_run,
        switch_hooks_see_waits_and_sleeps_and_can_be_removed,
        a_switch_hook_alone_is_enough,
        switch_hooks_measure_time,
        an_exit_hook_runs_at_every_kind_of_end,
        an_exit_hook_is_called_for_one_that_never_ran,
        an_exit_hook_may_wait_and_holds_kills_back,
        an_exit_hook_can_be_replaced_and_removed,
        hooks_go_with_their_process;
}

/// Runs a program whose hook fails. The program must succeed, and print `complaint` once.
fn complains_once(program: &str, complaint: &str) {
    let outcome = baton().process_code(program).run();
    outcome.succeeds().complained(complaint);
    let times = outcome.stderr.matches(complaint).count();
    assert_eq!(times, 1, "said {times} times\n{outcome}");
    assert!(
        outcome.stdout.ends_with("goes on\n"),
        "did not go on\n{outcome}"
    );
}

#[test]
fn a_scheduler_that_fails_is_reported_and_removed() {
    complains_once(
        "local asked = 0
         process.set_scheduler(function() asked = asked + 1 error 'no idea' end)
         process.yield() process.yield()
         assert(asked == 1) print 'goes on'",
        "the scheduler failed: (command line):3: no idea; it is not used any more",
    );
}

#[test]
fn a_scheduler_that_ends_the_one_suggested_and_fails_is_reported_and_removed() {
    complains_once(
        "local victim = process.spawn(function() print 'has run' end)
         process.set_scheduler(function(_, suggested)
           suggested:kill()
           suggested, victim = nil, nil
           collectgarbage() collectgarbage()
           local junk = {} -- takes the memory of its record
           for i = 1, 300 do junk[i] = ('x'):rep(500 + i) end
           error 'no idea'
         end)
         process.yield() assert(victim == nil) print 'goes on'",
        "the scheduler failed: (command line):9: no idea; it is not used any more",
    );
}

#[test]
fn a_scheduler_that_returns_rubbish_is_reported_and_removed() {
    complains_once(
        "process.set_scheduler(function() return 'rubbish' end)
         process.yield() process.yield() print 'goes on'",
        "the scheduler returned rubbish: process or nil expected, got string; it is not used any \
         more",
    );
}

#[test]
fn an_error_in_a_scheduler_hook_ends_its_critical_section_and_coroutine() {
    complains_once(
        "local function close() error 'in close' end
         process.set_scheduler(function()
           process.critical(function()
             coroutine.wrap(function()
               local _ <close> = setmetatable({}, { __close = close })
               error 'inside'
             end)()
           end)
         end)
         process.yield()
         local asked = 0
         process.set_scheduler(function() asked = asked + 1 process.critical(print, 'asked') end)
         process.yield()
         process.set_scheduler(nil)
         assert(asked == 1) print 'goes on'",
        "in close",
    );
}

#[test]
fn a_switch_hook_that_fails_is_reported_and_removed() {
    complains_once(
        "local p = process.spawn({ suspended = true, name = 'worker' }, function() for _ = 1, 3 do \
         process.yield() end end)
         p:on_switch(function() error 'no' end, print)
         p:resume() assert(p:join()) print 'goes on'",
        "process 2 'worker': its on_switch hook failed: (command line):3: no; it is not called any \
         more",
    );
}

#[test]
fn an_exit_hook_that_fails_is_reported_and_changes_nothing() {
    complains_once(
        "local p = process.spawn({ suspended = true, name = 'worker' }, function() return 7 end)
         p:on_exit(function() error(setmetatable({}, { __tostring = function() return 'shown' end \
         })) end)
         p:resume() assert(select(2, p:join()) == 7) print 'goes on'",
        "process 2 'worker': its on_exit hook failed: shown",
    );
}

#[test]
fn the_exit_hook_of_the_main_process_is_called_at_its_end() {
    let program = "process.main:on_exit(function(p) print(p.name, 'ends') end)
                   process.spawn(function() process.sleep(0.01) print 'the last one' end)";
    baton()
        .process_code(program)
        .run()
        .succeeds()
        .quietly()
        .wrote("the last one\nmain\tends\n");
    let program = "process.main:on_exit(function() print 'ends' end) error 'on purpose'";
    baton()
        .process_code(program)
        .run()
        .ends_with(1)
        .complained("on purpose")
        .wrote("ends\n");
}

#[test]
fn a_program_ends_under_a_scheduler_and_hooks() {
    let program = "process.set_scheduler(function(_, p) return p end)
                   local p = process.spawn({ daemon = true }, function() while true do end end)
                   p:on_switch(function() end, function() end)
                   p:on_exit(function() print 'the daemon ends' end)
                   process.sleep(0.01) print 'over'";
    baton()
        .process_code(program)
        .run()
        .succeeds()
        .quietly()
        .wrote("over\nthe daemon ends\n");
    let program = "process.set_scheduler(function() os.exit(3) end) process.yield()";
    baton().process_code(program).run().ends_with(3).quietly();
}
