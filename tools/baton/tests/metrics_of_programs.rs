//! What the metrics say of a program and its VM at the moment.
#![cfg(target_os = "linux")]

mod harness;

use harness::scraped::{samples, scrape, serving_at_a_socket};
use harness::{Outcome, baton};

/// Runs code with `process`, `inspect`, and a function that returns the value of a metric with
/// these labels, or nil.
fn measuring(code: &str) -> Outcome {
    let code = format!(
        "local inspect = require 'baton.inspect'
         local function value(name, labels)
           for _, family in ipairs(inspect.metrics().families) do
             if family.name == name then
               for _, point in ipairs(family.points) do
                 local fits = true
                 for label, text in pairs(labels or {{}}) do
                   fits = fits and point.labels[label] == text
                 end
                 if fits then return point.value end
               end
             end
           end
         end
         {code}"
    );
    baton().process_code(&code).run()
}

#[test]
fn the_program_is_a_process_of_the_system() {
    measuring(
        "assert(value 'process_resident_memory_bytes' > 2^20)
         assert(value 'process_virtual_memory_bytes' > value 'process_resident_memory_bytes')
         local before = value 'process_cpu_seconds'
         while os.clock() < before + 0.1 do end
         local after = value 'process_cpu_seconds'
         assert(after > before + 0.05 and after <= os.clock(), after - before)
         local open = value 'process_open_fds'
         local files = {}
         for i = 1, 50 do files[i] = assert(io.open '/dev/null') end
         -- The pipe of the last question may be open yet.
         local more = value 'process_open_fds' - open
         assert(more > 40 and more < 60, more)
         assert(value 'process_max_fds' > open)
         local age = os.time() - value 'process_start_time_seconds'
         assert(age > -60 and age < 600, age)
         assert(value('baton_build_info', { lua = '5.4' }) == 1)",
    )
    .succeeds()
    .quietly();
}

#[test]
fn the_heap_and_the_collectors_time_are_those_of_lua() {
    measuring(
        "local count = collectgarbage 'count' * 1024
         local heap = value 'baton_lua_heap_bytes'
         assert(heap > count / 2 and heap < count * 2, heap)
         local kept = ('x'):rep(10000000)
         assert(value 'baton_lua_heap_bytes' > heap + 9000000)
         local began, time = process.now(), value 'baton_lua_collector_seconds'
         local ended = value 'baton_lua_collections'
         for i = 1, 300000 do local t = {} end
         collectgarbage()
         time = value 'baton_lua_collector_seconds' - time
         -- Short steps are counted by samples.
         assert(time > 0 and time < 20 * (process.now() - began), time)
         assert(value 'baton_lua_collections' > ended)
         collectgarbage 'stop'
         time, ended = value 'baton_lua_collector_seconds', value 'baton_lua_collections'
         for i = 1, 1000 do local t = {} end
         assert(value 'baton_lua_collector_seconds' == time)
         assert(value 'baton_lua_collections' == ended)",
    )
    .succeeds()
    .quietly();
}

#[test]
fn a_finalizer_is_no_time_of_the_collector() {
    measuring(
        "setmetatable({}, { __gc = function() process.sleep(0.6) end })
         local time = value 'baton_lua_collector_seconds'
         collectgarbage()
         time = value 'baton_lua_collector_seconds' - time
         assert(time < 0.5, time)",
    )
    .succeeds()
    .quietly();
}

#[test]
fn waiting_processes_are_counted_by_object() {
    measuring(
        "local hot, jobs = process.mutex { name = 'hot' }, process.channel { 0, name = 'jobs' }
         hot:lock()
         local all = {}
         for i = 1, 20 do all[i] = process.spawn(function() hot:with(function() end) end) end
         for i = 1, 3 do process.spawn(function() jobs:receive() end) end
         for i = 1, 2 do process.spawn(function() process.mutex():with(process.sleep, 0.01) end) end
         local of_hot = { kind = 'mutex', name = 'hot' }
         repeat process.sleep(0.01)
         until value('baton_waiting_processes', of_hot) == 20
         local of_jobs = { kind = 'channel', to = 'receive', name = 'jobs' }
         repeat until value('baton_waiting_processes', of_jobs) == 3
         local first = value('baton_waiting_longest_seconds', of_hot)
         process.sleep(0.05)
         assert(value('baton_waiting_longest_seconds', of_hot) > first + 0.04)
         hot:unlock()
         jobs:close()
         for i = 1, 20 do all[i]:join() end
         repeat until not value('baton_waiting_processes', of_hot)",
    )
    .succeeds()
    .quietly();
}

/// A look lasts half a millisecond, and ten thousand processes need more than one.
#[test]
fn each_of_many_processes_is_counted_once() {
    measuring(
        "local gate = process.event { name = 'gate' }
         local most = 10000
         for i = 1, most do process.spawn(function() gate:wait() end) end
         repeat process.sleep(0.01)
         until value('baton_waiting_processes', { kind = 'event', name = 'gate' }) == most
         gate:set()",
    )
    .succeeds()
    .quietly();
}

#[test]
fn objects_beyond_the_bound_share_a_name() {
    measuring(
        "local channels = {}
         for i = 1, 100 do
           channels[i] = process.channel { 5, name = 'c' .. i }
           for n = 1, i <= 10 and 2 or 1 do channels[i]:send(n) end
         end
         local names, values, capacity, count = 0, 0, 0, 0
         for _, family in ipairs(inspect.metrics().families) do
           for _, point in ipairs(family.points) do
             if point.labels.name then
               if family.name == 'baton_channels' then count = count + point.value end
               if family.name == 'baton_channel_capacity' then capacity = capacity + point.value end
               if family.name == 'baton_channel_values' then
                 names, values = names + 1, values + point.value
               end
             end
           end
         end
         assert(names == 65 and values == 110 and capacity == 500 and count == 100)
         assert(value('baton_channel_values', { name = 'c7' }) == 2)
         assert(value('baton_channels', { name = '(others)' }) == 36)",
    )
    .succeeds()
    .quietly();
}

#[test]
fn a_call_that_runs_is_seen_before_it_returns() {
    measuring(
        "process.concurrent('blocker', 'concurrent')
         local blocker = require 'blocker'
         local calls = {}
         local function call() blocker.block_ms(500) end
         for i = 1, 2 do calls[i] = process.spawn(call) end
         local of_blocker = { ['function'] = 'block_ms' }
         repeat process.sleep(0.001)
         until value('baton_foreign_calls_out', of_blocker) == 2
         local noted = inspect.metrics().histograms.foreign_call.series
         assert(#noted == 0)
         repeat until value('baton_foreign_calls_out_longest_seconds', of_blocker) > 0.05
         for i = 1, 2 do calls[i]:join() end
         assert(not value('baton_foreign_calls_out', of_blocker))",
    )
    .succeeds()
    .quietly();
}

#[test]
fn a_call_that_nobody_runs_beside_is_seen_too() {
    let (mut program, path, _home) =
        serving_at_a_socket("print 'ready' io.stdout:flush() io.read()");
    // It may not have come to the call yet.
    loop {
        let text = scrape(&path, "*/*");
        let values = samples(&text);
        assert_eq!(values.get("baton_waiting_processes"), None);
        if values.get("baton_foreign_calls_out{function=\"read\"}") == Some(&1.0) {
            break;
        }
    }
    program.close_stdin();
    program.finish().succeeds();
}
