//! Tests child processes of fork: what runs in them, and how they end.

mod harness;

use harness::{baton, cases};

cases! {
    mod children from "forking/children.lua":
        the_child_can_do_everything,
        the_child_of_an_idle_program_can_do_everything,
        a_child_may_fork_again,
        a_fork_inside_a_coroutine_goes_on_there,
        the_others_are_dead_in_the_child,
        timers_fire_in_the_parent_only,
        fifty_forks_in_a_row_beside_loops_and_calls,
        many_processes_fork_at_once,
        a_child_that_never_comes_back_costs_nothing,
        a_retaken_call_may_fork_beside_loops,
        a_retaken_call_may_fork_while_the_others_sleep,
        a_retaken_call_may_fork_while_the_owner_is_out,
        a_retaken_call_may_fork_while_the_owner_cannot_be_preempted,
        a_child_of_a_bound_process_is_bound_to_its_only_thread,
        a_child_has_what_is_in_shared_objects_and_none_of_their_waits;
}

/// Defines `forking(body, ...)`: spawns a process that forks. The child runs `body` and ends by
/// itself; the parent prints the child's status.
const FORKING: &str = "local forker = require 'forker'
  process.params.warn_blocked = 3600
  local here = forker.getpid()
  local _ <close> = setmetatable({}, { __close = function()
    if forker.getpid() ~= here then print 'the main process goes on in the child' end
  end })
  local function in_parent(pid)
    local status
    repeat process.sleep(0.001) status = forker.reap(pid) until status
    print(status)
  end
  local function forking(body, ...)
    local p = process.spawn({ name = 'forking' }, function(...)
      local pid = forker.fork()
      if pid ~= 0 then return in_parent(pid) end
      return body(...)
    end, ...)
    assert(p:join())
  end\n";

fn forks(code: &str) -> harness::Outcome {
    let outcome = baton().process_code(&format!("{FORKING}{code}")).run();
    outcome.succeeds().without_panic();
    outcome
}

#[test]
fn the_child_ends_with_the_process_that_forked() {
    forks("forking(function() return 'results' end)")
        .wrote("0\n")
        .quietly();
}

#[test]
fn the_child_waits_for_what_it_has_spawned_and_closes_its_daemons() {
    forks(
        "forking(function()
           process.spawn(function() process.sleep(0.01) print 'slept' end)
           process.after(0.5, print, 'fired')
           process.spawn({ daemon = true }, function()
             local _ <close> = setmetatable({}, { __close = function() print 'closed' end })
             process.sleep(1000)
           end)
         end)",
    )
    .wrote("slept\nfired\nclosed\n0\n")
    .quietly();
}

#[test]
fn joining_the_process_that_forked_returns_its_results() {
    forks(
        "forking(function()
           local me = process.current()
           process.spawn(function() print(me:join()) end)
           process.sleep(0.01)
           return 'results', 7
         end)",
    )
    .wrote("true\tresults\t7\n0\n")
    .quietly();
}

#[test]
fn a_failure_in_the_child_is_reported_and_is_its_status() {
    forks("forking(function() error 'the child fails' end)")
        .wrote("1\n")
        .complained("'forking' failed")
        .complained("the child fails");
}

#[test]
fn a_kill_of_the_process_that_forked_is_no_failure() {
    forks(
        "forking(function()
           local me = process.current()
           process.spawn(function() me:kill() process.sleep(0.01) print 'after the kill' end)
           process.sleep(1000)
         end)",
    )
    .wrote("after the kill\n0\n")
    .quietly();
}

#[test]
fn any_process_of_the_child_may_end_it() {
    for close in ["false", "true"] {
        forks(&format!(
            "forking(function() process.spawn(function() os.exit(9, {close}) end) \
             process.sleep(1000) end)"
        ))
        .wrote("9\n")
        .quietly();
    }
}

#[test]
fn a_deadlock_of_the_child_is_reported() {
    forks("forking(function() process.event():wait() end)")
        .wrote("1\n")
        .complained("deadlock");
}

#[test]
fn an_interrupt_of_the_child_is_raised_in_the_process_that_forked() {
    forks(
        "local ready = os.getenv 'SCRATCH' .. '/ready'
         assert(os.execute(\"mkfifo '\" .. ready .. \"'\"))
         local p = process.spawn(function()
           local pid = forker.fork()
           if pid ~= 0 then
             assert(io.open(ready):read 'l')
             assert(os.execute('kill -INT ' .. pid))
             return in_parent(pid)
           end
           local file = io.open(ready, 'w')
           file:write 'ready\\n'
           local _, message = pcall(function() file:close() while true do end end)
           print(message)
         end)
         assert(p:join())",
    )
    .wrote("interrupted!\n0\n")
    .quietly();
}

#[test]
fn the_main_process_of_a_child_goes_on_to_the_end_of_the_script() {
    let code = "local forker = require 'forker'
      process.params.warn_blocked = 3600
      process.spawn({ daemon = true }, function() while true do end end)
      local other = process.spawn(function() process.sleep(0.05) print 'the parent only' end)
      local pid = forker.fork()
      if pid == 0 then
        print(other:join())
        process.spawn(function() process.sleep(0.005) print 'the child only' end)
      else
        local status
        repeat process.sleep(0.001) status = forker.reap(pid) until status
        other:join()
        print(status)
      end";
    let outcome = baton().process_code(code).run();
    outcome.succeeds().quietly();
    let mut lines: Vec<_> = outcome.stdout.lines().collect();
    lines.sort_unstable();
    assert_eq!(
        lines,
        ["0", "false\tkilled", "the child only", "the parent only"],
        "{outcome}"
    );
}
