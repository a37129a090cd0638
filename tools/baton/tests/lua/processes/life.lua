-- Spawning, joining, and what a process reports about itself.
local check = require "check"
local process = require "baton.process"
local case = {}

function case.join_gives_all_results_of_the_function()
  local p = process.spawn(function(...) return select("#", ...), ... end, 1, nil, false, nil)
  check.results("join", { n = 6, true, 4, 1, nil, false, nil }, p:join())
end

function case.a_process_without_results_joins_with_true_alone()
  check.results("join", { true }, process.spawn(function() end):join())
end

function case.two_hundred_results_come_through_join()
  local list = {}
  for i = 1, 200 do list[i] = i end
  local got = table.pack(process.spawn(table.unpack, list):join())
  check.equal(got.n, 201)
  check.equal(got[201], 200)
end

function case.a_c_function_can_be_the_body_of_a_process()
  check.results("join", { true, 3 }, process.spawn(math.max, 1, 3, 2):join())
end

function case.join_can_be_repeated()
  local p = process.spawn(function() return "once" end)
  check.results("first", { true, "once" }, p:join())
  check.results("second", { true, "once" }, p:join())
  check.results("in time", { true, "once" }, p:join(0))
end

function case.every_joiner_gets_the_results()
  local gate = process.event()
  local p = process.spawn(function() gate:wait() return "result" end)
  local joiners = {}
  for i = 1, 20 do joiners[i] = process.spawn(function() return p:join() end) end
  process.yield()
  gate:set()
  for i = 1, 20 do check.results("joiner " .. i, { true, true, "result" }, joiners[i]:join()) end
end

function case.a_failed_process_joins_with_false_and_its_error()
  local p = process.spawn({ quiet = true }, function() error("no luck", 0) end)
  check.results("join", { false, "no luck" }, p:join())
end

function case.an_error_value_keeps_its_identity_through_join()
  local value = {}
  local p = process.spawn({ quiet = true }, function() error(value) end)
  check.results("join", { false, value }, p:join())
end

function case.an_error_says_where_it_happened()
  local p = process.spawn({ quiet = true }, function() local nothing; return nothing.field end)
  local ok, message = p:join()
  check.equal(ok, false)
  check.matches(message, "life%.lua:%d+: attempt to index a nil value %(local 'nothing'%)")
end

function case.a_failure_that_is_awaited_is_not_printed()
  local p = process.spawn(function()
    check.becomes(process.main, "waiting")
    error("awaited", 0)
  end)
  check.results("join", { false, "awaited" }, p:join())
end

function case.a_join_that_times_out_says_so()
  local gate = process.event()
  local p = process.spawn(function() gate:wait() return 1 end)
  check.results("short", { n = 2, nil, "timeout" }, p:join(0.005))
  check.results("zero", { n = 2, nil, "timeout" }, p:join(0))
  check.results("negative", { n = 2, nil, "timeout" }, p:join(-1))
  gate:set()
  check.results("then", { true, 1 }, p:join(math.huge))
end

function case.joining_oneself_raises()
  local p = process.spawn({ quiet = true }, function() process.current():join() end)
  check.equal(p:join(), false)
  check.raises("", function() process.main:join() end)
end

function case.an_equal_process_does_not_start_at_once()
  check.without_slices()
  local log = {}
  local p = process.spawn(function() log[#log + 1] = "child" end)
  log[#log + 1] = "parent"
  p:join()
  check.list(log, { "parent", "child" })
end

function case.processes_start_in_the_order_of_their_spawning()
  check.without_slices()
  local log, last = {}, nil
  for i = 1, 10 do last = process.spawn(function() log[i] = #log + 1 end) end
  last:join()
  check.list(log, { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 })
end

function case.a_process_has_its_name_and_a_unique_id()
  local seen = { [process.main.id] = true }
  for i = 1, 100 do
    local p = process.spawn({ name = "worker " .. i }, function() end)
    check.equal(p.name, "worker " .. i)
    check.that(p.id ~= nil and not seen[p.id], "a new id")
    seen[p.id] = true
    p:join()
    check.equal(p.name, "worker " .. i, "the name of a dead process")
  end
end

function case.daemon_tells_how_a_process_was_spawned()
  local p = process.spawn({ daemon = true }, function() end)
  local q = process.spawn(function() end)
  check.equal(p.daemon, true)
  check.equal(q.daemon, false)
  p:join() q:join()
end

function case.data_is_a_table_of_the_process_own()
  local p = process.spawn(function() process.current().data.x = "mine" end)
  local q = process.spawn(function() end)
  check.equal(type(p.data), "table")
  check.equal(p.data, p.data)
  check.that(p.data ~= q.data, "two processes have two tables")
  p:join() q:join()
  check.equal(p.data.x, "mine", "written from inside, read after its death")
  check.equal(q.data.x, nil)
end

function case.current_is_the_process_that_asks()
  check.equal(process.current(), process.main)
  local p = process.spawn(function() return process.current() end)
  check.results("join", { true, p }, p:join())
end

function case.current_is_the_process_also_inside_a_coroutine()
  local p = process.spawn(function() return coroutine.wrap(process.current)() end)
  check.results("join", { true, p }, p:join())
end

function case.the_list_has_the_living_and_not_the_dead()
  local function listed(p)
    for _, other in ipairs(process.list()) do
      if other == p then return true end
    end
    return false
  end
  local gate = process.event()
  local p = process.spawn(function() gate:wait() end)
  check.that(listed(process.main), "main is listed")
  check.that(listed(p), "a living process is listed")
  gate:set()
  p:join()
  check.equal(listed(p), false, "a dead process is listed")
end

function case.a_process_can_be_a_key_of_a_table()
  local p = process.spawn(function() return process.current() end)
  local t = { [p] = "found" }
  local _, same = p:join()
  check.equal(t[same], "found")
end

function case.processes_share_globals_and_upvalues()
  local upvalue = 0
  shared_global = "before"
  process.spawn(function() upvalue = upvalue + 1 shared_global = "after" end):join()
  check.equal(upvalue, 1)
  check.equal(shared_global, "after")
end

function case.a_process_spawns_others_deeply()
  local function nest(n)
    if n == 0 then return 0 end
    local _, below = process.spawn(nest, n - 1):join()
    return below + 1
  end
  check.equal(nest(200), 200)
end

function case.ten_thousand_processes_live_at_once()
  local gate, n = process.event(), 0
  local all = {}
  for i = 1, 10000 do all[i] = process.spawn(function() gate:wait() n = n + 1 end) end
  gate:set()
  for i = 1, #all do check.equal(all[i]:join(), true) end
  check.within(n, 1, 10000)
end

function case.a_coroutine_may_be_resumed_by_one_process_after_another()
  local co = coroutine.wrap(function()
    for i = 1, 4 do coroutine.yield(i) end
  end)
  for i = 1, 4 do
    check.results("turn " .. i, { true, i }, process.spawn(co):join())
  end
end

function case.a_wait_inside_a_coroutine_stops_its_whole_process()
  local ch = process.channel()
  local p = process.spawn(function()
    local inner = coroutine.wrap(function()
      coroutine.yield("yielded")
      return ch:receive()
    end)
    check.equal(inner(), "yielded")
    return inner()
  end)
  ch:send("received")
  check.results("join", { true, "received" }, p:join())
end

-- A regression test: closing methods ran on a state that belonged to no process, so they could not
-- wait and were not preempted.
function case.a_method_that_closes_a_coroutine_may_wait_and_be_preempted()
  local turns, stop = 0, false
  local p = process.spawn(function()
    local routine = coroutine.create(function()
      local _ <close> = check.closing(function()
        check.results(
          "a wait",
          { true, true },
          pcall(function() return process.sleep(0.001) == nil or true end)
        )
        while not stop do turns = turns + 1 end
      end)
      coroutine.yield()
    end)
    coroutine.resume(routine)
    return coroutine.close(routine)
  end)
  check.eventually("it turns", function() return turns > 0 end)
  stop = true
  check.results("join", { true, true }, p:join())
end

function case.variadic_spawn_options_do_not_reach_the_function()
  local p = process.spawn({ name = "n" }, function(...) return select("#", ...), ... end, "a")
  check.results("join", { true, 1, "a" }, p:join())
end

check.run(case)
