//! One test for each fault that crashed or hung a prototype. Before its fix, each program failed
//! within seconds.

mod harness;

use harness::{Outcome, assert_all_cases_named, baton};

fn runs(code: &str) -> Outcome {
    let outcome = baton()
        .process_code(&format!("local check = require 'check'\n{code}"))
        .run();
    outcome.succeeds().without_panic();
    assert!(
        outcome.stdout.ends_with("sound\n"),
        "the program did not come to its end\n{outcome}"
    );
    outcome
}

#[test]
fn recursion_through_gsub_needs_more_than_256_kib_of_stack() {
    runs(
        "local function deep(n) return (('x'):gsub('x', function() return n == 0 and 'y' or deep(n \
         - 1) end)) end
         for i = 1, 5 do
           local p = process.spawn(deep, 60)
           local ok, got = p:join()
           assert(ok and got == 'y', got)
           local _, caught, message = process.spawn(pcall, deep, 1000):join()
           assert(caught == false and message:find 'stack overflow', message)
         end
         print 'sound'",
    )
    .quietly();
}

/// A method that computes delays a kill, but not for ever.
#[test]
fn a_close_method_that_never_ends_is_left_after_a_while() {
    baton()
        .process_code(
            "local begun
             local p = process.spawn(function()
               local _ <close> = setmetatable({}, { __close = function() begun = process.now() \
               while true do end end })
               process.sleep(1000)
             end)
             repeat process.yield() until p:status() == 'sleeping'
             p:kill 'enough'
             print(p:join())
             print(process.now() - begun > 4.9)",
        )
        .run()
        .succeeds()
        .wrote("false\tenough\ntrue\n")
        .quietly();
}

#[test]
fn a_process_that_waits_inside_a_finalizer_does_not_stop_the_collector() {
    runs(
        "local entered, gate = process.event(), process.event()
         local p = process.spawn(function()
           setmetatable({}, { __gc = function() entered:set() gate:wait() end })
           while not entered:is_set() do collectgarbage() end
         end)
         entered:wait()
         collectgarbage 'restart'
         for i = 1, 300 do local garbage = ('x'):rep(1000000) .. i end
         assert(collectgarbage 'count' < 100 * 1024, 'garbage was not collected')
         gate:set()
         assert(p:join())
         print 'sound'",
    )
    .quietly();
}

#[test]
fn a_process_preempted_inside_a_finalizer_does_not_stop_the_collector() {
    runs(
        "process.params.slice = 0.001
         local stop, entered = false, process.event()
         local p = process.spawn(function()
           setmetatable({}, { __gc = function() entered:set() while not stop do end end })
           collectgarbage()
         end)
         entered:wait()
         for i = 1, 200 do local garbage = ('x'):rep(1000000) .. i end
         assert(collectgarbage 'count' < 100 * 1024, 'garbage was not collected')
         stop = true
         assert(p:join())
         print 'sound'",
    )
    .quietly();
}

#[test]
fn closing_a_state_and_setting_warn_functions_leave_the_lock_unpaired() {
    let outcome = runs(
        "local own_state = require 'own_state'
         process.params.slice, process.params.warn_blocked = 0.0005, 10
         local all = {}
         for i = 1, 4 do
           all[#all + 1] = process.spawn(function()
             for k = 1, 200 do warn '@on' warn '@off' string.find(('a'):rep(20), ('a-'):rep(4) .. \
             'b') end
           end)
           all[#all + 1] = process.spawn(function()
             for k = 1, 10 do
               assert(own_state.run 'return 6 * 7' == '42')
               assert(own_state.run_in_thread 'local n = 0 for i = 1, 1000 do n = n + i end return \
               n' == 500500)
               assert(not pcall(own_state.run, 'error {}'))
             end
           end)
         end
         for i = 1, #all do assert(all[i]:join()) end
         warn '@on'
         warn('a ', 'warning')
         print 'sound'",
    );
    outcome.complained("Lua warning: a warning\n");
}

#[test]
fn the_end_of_the_program_closes_the_state_while_c_calls_return() {
    for _ in 0..5 {
        let outcome = baton()
            .process_code(
                "for i = 1, 5 do
                   process.spawn({ daemon = true }, function()
                     while true do string.find(('a'):rep(34), ('a-'):rep(5) .. 'b') end
                   end)
                 end
                 process.sleep(0.02)
                 kept = setmetatable({}, { __gc = function() print 'sound' end })",
            )
            .run();
        outcome.succeeds().wrote("sound\n").quietly();
    }
}

#[test]
fn two_processes_may_read_and_close_one_file() {
    runs(
        "process.params.slice, process.params.window = 0.0002, 0.00001
         for i = 1, 20 do
           local pipe = assert(io.popen 'sleep 0.01; seq 100')
           local readers = {}
           for k = 1, 3 do
             readers[k] = process.spawn(function() return pcall(function() for _ in pipe:lines() \
             do end end) end)
           end
           process.sleep(0.001 * (i % 15))
           pcall(pipe.close, pipe)
           for k = 1, 3 do assert(readers[k]:join()) end
         end
         print 'sound'",
    )
    .quietly();
}

#[test]
fn a_collection_by_one_process_moves_the_stack_of_another_between_instructions() {
    runs(
        "process.params.slice = 0.0002
         local stop = false
         local function deep(n, ...)
           if n == 0 then return select('#', ...) end
           local a, b, c = n, n + 1, n + 2
           local r = deep(n - 1, a, b, c)
           assert(a == n and b == n + 1 and c == n + 2, 'locals moved')
           return r
         end
         local collector = process.spawn({ priority = 41 }, function()
           while not stop do collectgarbage() process.sleep(0.0003) end
         end)
         local all = {}
         for i = 1, 8 do
           all[i] = process.spawn(function()
             for k = 1, 60 do assert(deep(500 + 37 * k % 3000) == 3) end
           end)
         end
         for i = 1, 8 do assert(all[i]:join()) end
         stop = true
         collector:join()
         print 'sound'",
    )
    .quietly();
}

#[test]
fn preemption_at_depth_190000_costs_no_walk_over_the_frames() {
    let outcome = runs(
        "local stop, turns, deepest = false, 0, process.event()
         local function descend(n)
           if n > 0 then return 1 + descend(n - 1) end
           deepest:set()
           while not stop do turns = turns + 1 end
           return 0
         end
         local p = process.spawn(descend, 190000)
         deepest:wait()
         local before = turns
         for i = 1, 500 do process.sleep(0.0002) end
         assert(turns > before)
         stop = true
         local ok, depth = p:join()
         assert(ok and depth == 190000)
         print 'sound'",
    );
    outcome.quietly();
}

#[test]
fn preemption_does_not_disturb_the_hooks_of_the_user() {
    runs(
        "process.params.slice = 0.0005
         local events = 0
         local function hook() events = events + 1 end
         local other = process.spawn(function() while true do end end)
         debug.sethook(hook, 'l', 100)
         for i = 1, 200000 do local x = i end
         local f, mask, count = debug.gethook()
         debug.sethook()
         other:kill()
         assert(f == hook and mask == 'l' and count == 100)
         assert(events > 2000)
         print 'sound'",
    )
    .quietly();
}

#[test]
fn unlocked_api_functions_during_a_retaken_call() {
    runs(
        "process.params.window = 0.00001
         local stop = false
         local function grow(n) if n == 0 then return 0 end return 1 + grow(n - 1) end
         local all = {}
         for i = 1, 6 do
           all[i] = process.spawn(function()
             for k = 1, 8 do
               grow(20000)
               -- The stack is now far too large; while the match lasts the others collect and \
               would shrink it.
               local text = 'k' .. ('a'):rep(32) .. 'v' .. i
               local key, value = text:match('^(k)' .. ('a-'):rep(4) .. '(v%d)$')
               assert(key == 'k' and value == 'v' .. i, 'captures were lost')
               assert(not string.find(('a'):rep(34), ('a-'):rep(5) .. 'b'))
               assert(string.rep('ab', 1000000, ','):sub(-2) == 'ab')
             end
           end)
         end
         local collector = process.spawn(function()
           while not stop do collectgarbage() process.sleep(0.0001) end
         end)
         for i = 1, 6 do assert(all[i]:join()) end
         stop = true
         collector:join()
         print 'sound'",
    )
    .quietly();
}

#[test]
fn unlocked_api_functions_of_c_modules_beside_a_collector() {
    runs(
        "local unlocked = require 'unlocked'
         process.params.slice = 0.0002
         local stop = false
         local function grow(n) if n == 0 then return 0 end return 1 + grow(n - 1) end
         local collector = process.spawn({ priority = 41 }, function()
           while not stop do collectgarbage() process.sleep(0.0003) end
         end)
         local function body(i)
           local rounds = 300
           local sum = unlocked.stress(rounds, function(n) if n % 50 == 0 then grow(5000) end \
           return n end)
           return sum
         end
         local wanted = body(0)
         local all = {}
         for i = 1, 6 do all[i] = process.spawn(body, i) end
         for i = 1, 6 do
           local ok, sum = all[i]:join()
           assert(ok and sum == wanted, sum)
         end
         stop = true
         collector:join()
         print 'sound'",
    )
    .quietly();
}

#[test]
fn upvaluejoin_and_conversions_in_many_processes() {
    runs(
        "process.params.slice = 0.0002
         local all = {}
         for i = 1, 6 do
           all[i] = process.spawn(function()
             for k = 1, 3000 do
               local a, b = k, -k
               local function f() return a end
               local function g() return b end
               debug.upvaluejoin(f, 1, g, 1)
               assert(f() == -k and tonumber('0x' .. ('%x'):format(k)) == k and rawlen { k, k } == \
               2)
             end
           end)
         end
         for i = 1, 6 do assert(all[i]:join()) end
         print 'sound'",
    )
    .quietly();
}

#[test]
fn an_unprotected_error_goes_to_the_current_process_base() {
    runs(
        "local unprotected = require 'unprotected'
         local p = process.spawn(function() unprotected.raise_on_new_thread() end)
         local q = process.spawn(function() process.sleep(0.01) return 'unharmed' end)
         local ok, message = p:join()
         assert(ok == false and tostring(message):find 'raised on a bare thread', message)
         local _, result = q:join()
         assert(result == 'unharmed')
         print 'sound'",
    )
    .quietly();
}

#[test]
fn an_unprotected_error_in_the_main_process_is_an_error_of_main() {
    let outcome = baton()
        .process_code("require 'unprotected'.raise_on_new_thread()")
        .run();
    outcome
        .ends_with(1)
        .complained("raised on a bare thread")
        .without_panic();
}

#[test]
fn a_module_that_stored_its_state_at_load_is_called_by_other_processes() {
    runs(
        "process.params.warn_blocked = 10
         local stored
         process.spawn(function() stored = require 'stored_state' end):join()
         local all = {}
         for i = 1, 20 do
           all[i] = process.spawn(function()
             for k = 1, 50 do
               assert(stored.call_at_load(function(x) return x + check.fib(5) end, k) == k + 5)
               local ok, message = pcall(stored.call_at_load, function() error('passed on', 0) \
               end, k)
               assert(not ok and message == 'passed on', message)
               process.yield()
             end
           end)
         end
         for i = 1, 20 do assert(all[i]:join()) end
         print 'sound'",
    );
}

#[test]
fn a_module_that_calls_on_a_stored_state_of_another_process() {
    let outcome = runs(
        "process.params.warn_blocked, process.params.slice = 10, 0.001
         local stored = require 'stored_state'
         local gate = process.event()
         local owner = process.spawn({ name = 'owner' }, function()
           local a, b, c = 1, 2, 3
           stored.remember()
           gate:wait()
           assert(a == 1 and b == 2 and c == 3, 'locals were overwritten')
           return check.fib(10)
         end)
         check.eventually('the owner waits', function() return owner:status() == 'waiting' end)
         local other = process.spawn(function() while true do end end)
         for i = 1, 5 do
           local caller = process.spawn({ name = 'caller' }, function()
             return stored.call_remembered(function(x) return x + check.fib(22) end, i)
           end)
           local ok, result = caller:join()
           assert(ok and result == i + 17711, result)
         end
         other:kill()
         gate:set()
         local ok, result = owner:join()
         assert(ok and result == 55, result)
         print 'sound'",
    );
    assert!(
        !outcome.stderr.is_empty(),
        "nothing warned of it\n{outcome}"
    );
    assert!(
        outcome.stderr.lines().count() <= 4,
        "the warning came more than once\n{outcome}"
    );
}

#[test]
fn a_module_that_calls_on_the_main_state_from_another_process() {
    runs(
        "process.params.warn_blocked = 10
         local stored = require 'stored_state'
         local a, b, c = 1, 2, 3
         for i = 1, 5 do
           local p = process.spawn(function()
             return stored.call_main(function(x) return x + check.fib(15) end, i)
           end)
           local ok, result = p:join()
           assert(ok and result == i + 610, result)
         end
         assert(a == 1 and b == 2 and c == 3)
         print 'sound'",
    );
}

#[test]
fn a_call_on_the_state_of_another_process_may_raise() {
    runs(
        "process.params.warn_blocked = 10
         local stored = require 'stored_state'
         local gate = process.event()
         local owner = process.spawn(function() stored.remember() gate:wait() return 'whole' end)
         check.eventually('the owner waits', function() return owner:status() == 'waiting' end)
         local caller = process.spawn(function()
           return pcall(stored.call_remembered, function() error('inside', 0) end)
         end)
         local _, ok, message = caller:join()
         assert(ok == false and message == 'inside', message)
         gate:set()
         local _, result = owner:join()
         assert(result == 'whole')
         print 'sound'",
    );
}

/// Runs a case of foreign/stored_states.lua. Nothing but one warning may be on stderr.
fn stored_state(name: &str) {
    let script = baton().script("foreign/stored_states.lua").arg(name);
    let outcome = script.run();
    outcome.succeeds();
    assert!(
        outcome.stdout.ends_with(&format!("passed {name}\n")),
        "the case did not come to its end\n{outcome}"
    );
    let is_warning =
        |line: &str| line.contains("calls on a lua_State that another process runs on");
    assert!(
        outcome.stderr.lines().all(is_warning) && outcome.stderr.lines().count() <= 1,
        "the case wrote to stderr\n{outcome}"
    );
}

const STORED_STATES: [&str; 7] = [
    "of_the_main_process",
    "of_another_process",
    "of_a_coroutine_that_another_process_runs",
    "of_a_coroutine_that_is_suspended",
    "of_a_coroutine_that_has_not_begun",
    "of_the_caller_itself_below_a_coroutine",
    "a_kill_ends_a_call_and_its_caller",
];

#[test]
fn an_error_in_a_call_on_a_stored_state_stays_on_that_state() {
    assert_all_cases_named("foreign/stored_states.lua", &STORED_STATES);
    for name in STORED_STATES {
        stored_state(name);
    }
}

#[test]
fn exceptions_of_cpp_pass_calls_on_the_main_state_and_switches() {
    if !harness::modules::has_cpp() {
        return harness::skip::skip("a compiler for C++", "install g++");
    }
    runs(
        "local cpp = require 'exceptions'
         local function fails(name, f, ...)
           local ok, got = pcall(f, ...)
           assert(not ok and got == name, got)
         end
         local all = {}
         for i = 1, 8 do
           local name = 'number ' .. i
           all[i] = process.spawn(function()
             local function raise() cpp.raise(name) end
             for _ = 1, 50 do
               fails(name, cpp.raise, name)
               fails(name, cpp.call, raise)
               fails(name, cpp.call, function() return (('x'):gsub('x', raise)) end)
               fails(name, cpp.call, function() return cpp.call(raise) end)
               assert(cpp.call(function() return name end) == name)
               local got = cpp.while_caught(name, function()
                 fails(name, cpp.raise, name)
                 process.yield()
                 fails(name, cpp.call, raise)
               end)
               assert(got == name, got)
             end
           end)
         end
         for i = 1, 8 do assert(all[i]:join()) end
         assert(not pcall(error))
         print 'sound'",
    );
}

#[test]
fn a_hook_that_a_module_sets_in_its_signal_handler_is_called_where_lua_runs() {
    runs(
        "local hook = require 'signal_hook'
         local got = 0
         hook.on_usr1(function() got = got + 1 end)
         hook.raise()
         for _ = 1, 1000 do end
         assert(got == 1, 'in the main process')
         coroutine.wrap(function() hook.raise() for _ = 1, 1000 do end end)()
         assert(got == 2, 'in a coroutine')
         process.spawn(function() hook.raise() for _ = 1, 1000 do end end):join()
         assert(got == 3, 'in another process')
         os.execute('kill -USR1 ' .. hook.pid())
         check.eventually('the hook of a signal that came while no process ran', function()
           return got == 4
         end)
         print 'sound'",
    )
    .quietly();
}

#[test]
fn a_traceback_in_a_callback_of_a_module_goes_on_with_the_call_of_the_module() {
    let outcome = runs(
        "local stored = require 'stored_state'
         local function inner() return debug.traceback('here') end
         local function outer() return (stored.call_at_load(inner)) end
         print(outer())
         print 'sound'",
    );
    let frames = [
        "'stored_state.call_at_load'",
        "in local 'outer'",
        "in main chunk",
    ];
    for frame in frames {
        assert!(outcome.stdout.contains(frame), "without {frame}\n{outcome}");
    }
}

#[test]
fn an_error_value_thrown_across_switches_is_not_mixed_up() {
    runs(
        "process.params.slice = 0.0002
         local all = {}
         for i = 1, 10 do
           all[i] = process.spawn(function()
             for k = 1, 2000 do
               local ok, got = pcall(error, i * 10000 + k)
               assert(not ok and got == i * 10000 + k)
             end
           end)
         end
         for i = 1, 10 do assert(all[i]:join()) end
         print 'sound'",
    )
    .quietly();
}

#[test]
fn errno_stays_with_the_process_that_got_it() {
    runs(
        "process.params.slice = 0.0002
         local all = {}
         for i = 1, 8 do
           all[i] = process.spawn(function()
             for k = 1, 300 do
               if i % 2 == 0 then
                 local _, message, code = io.open '/nonexistent/file'
                 assert(code == 2, message)
               else
                 local _, message, code = io.open('/', 'w')
                 assert(code == 21, message)
               end
             end
           end)
         end
         for i = 1, 8 do assert(all[i]:join()) end
         print 'sound'",
    )
    .quietly();
}
