-- The order of execution by priority. Slices are off where a test expects an exact order.
local check = require "check"
local process = require "baton.process"
local case = {}

local log = {}
local function note(what) return function() log[#log + 1] = what end end

function case.the_default_priority_is_40_and_children_inherit()
  check.equal(process.main:priority(), 40)
  check.equal(process.spawn({ suspended = true }, print):priority(), 40)
  local p = process.spawn({ priority = 30 }, function()
    local child = process.spawn(function() end)
    return child:priority()
  end)
  check.results("join", { true, 30 }, p:join())
  for _, q in ipairs(process.list()) do
    if q ~= process.main then q:kill() end
  end
end

function case.priorities_reach_from_1_to_80()
  local low = process.spawn({ priority = 1 }, function() return process.current():priority() end)
  local high = process.spawn({ priority = 80 }, function() return process.current():priority() end)
  check.results("low", { true, 1 }, low:join())
  check.results("high", { true, 80 }, high:join())
end

function case.a_more_urgent_child_runs_at_once()
  check.without_slices()
  local ran = false
  local p = process.spawn({ priority = 41 }, function() ran = true end)
  check.equal(ran, true)
  p:join()
end

function case.a_less_urgent_child_waits_for_all_others()
  check.without_slices()
  local low = process.spawn({ priority = 39 }, note "low")
  local a = process.spawn(function() note "a1" () process.yield() note "a2" () end)
  local b = process.spawn(note "b")
  process.yield()
  note "main" ()
  low:join()
  check.list(log, { "a1", "b", "main", "a2", "low" })
end

function case.an_equal_never_preempts()
  check.without_slices()
  local gate = process.event()
  local p = process.spawn(function() gate:wait() note "woken" () end)
  process.yield()
  gate:set()
  for _ = 1, 1000 do math.abs(1) end
  note "main" ()
  p:join()
  check.list(log, { "main", "woken" })
end

function case.each_way_of_waking_a_more_urgent_process_preempts_at_once()
  check.without_slices()
  local ch, buffered, s, e, m =
    process.channel(), process.channel(1), process.semaphore(0), process.event(), process.mutex()
  local c, cm = nil, process.mutex()
  c = process.condition(cm)
  local target
  local ways = {
    { function() ch:receive() end, function() ch:send(1) end },
    { function() ch:send(1) end, function() ch:receive() end },
    { function() buffered:receive() end, function() buffered:send(1) end },
    { function() s:wait() end, function() s:signal() end },
    { function() e:wait() end, function() e:set() end },
    { function() m:lock() m:unlock() end, function() m:unlock() end },
    { function() process.suspend() end, function() target:resume() end },
    { function() process.select { ch } end, function() ch:send(1) end },
  }
  m:lock()
  for i, way in ipairs(ways) do
    local woken = false
    target = process.spawn({ priority = 60 }, function() way[1]() woken = true end)
    check.equal(woken, false, "way " .. i .. " waits")
    way[2]()
    check.equal(woken, true, "way " .. i .. " preempts")
    target:join()
  end
  local woken = false
  target = process.spawn({ priority = 60 }, function()
    cm:lock()
    c:wait()
    woken = true
    cm:unlock()
  end)
  cm:lock()
  c:signal()
  cm:unlock()
  check.equal(woken, true, "the condition")
end

function case.raising_a_runnable_process_preempts_at_once()
  check.without_slices()
  local ran = false
  local p = process.spawn({ priority = 30 }, function() ran = true end)
  check.equal(ran, false)
  p:set_priority(50)
  check.equal(ran, true)
  check.equal(p:priority(), 50)
end

function case.lowering_its_own_priority_switches_at_once()
  check.without_slices()
  local p = process.spawn(note "other")
  process.current():set_priority(20)
  note "main" ()
  p:join()
  check.list(log, { "other", "main" })
end

function case.a_preempted_process_returns_to_the_head_of_its_level()
  check.without_slices()
  local b = process.spawn(note "b")
  local urgent = process.spawn({ priority = 60 }, note "urgent")
  note "main" ()
  b:join() urgent:join()
  check.list(log, { "urgent", "main", "b" })
end

function case.yield_goes_to_the_back_of_the_level()
  check.without_slices()
  local all = {}
  for i = 1, 3 do
    all[i] = process.spawn(function()
      for turn = 1, 3 do
        note(i .. "." .. turn)()
        process.yield()
      end
    end)
  end
  for i = 1, 3 do all[i]:join() end
  check.list(log, { "1.1", "2.1", "3.1", "1.2", "2.2", "3.2", "1.3", "2.3", "3.3" })
end

function case.yield_does_not_give_way_to_the_less_urgent()
  check.without_slices()
  local p = process.spawn({ priority = 39 }, note "low")
  process.yield()
  note "main" ()
  p:join()
  check.list(log, { "main", "low" })
end

function case.a_yield_of_the_only_process_returns_at_once()
  for _ = 1, 100000 do process.yield() end
end

function case.an_endless_loop_does_not_hold_up_the_more_urgent()
  local stop = false
  local p = process.spawn({ priority = 10 }, function() while not stop do end end)
  for _ = 1, 20 do process.sleep(0.001) end
  stop = true
  check.equal(p:join(), true)
end

function case.a_busy_process_starves_the_less_urgent_until_it_waits()
  local ran = false
  local p = process.spawn({ priority = 39 }, function() ran = true end)
  local until_then = os.clock() + 0.05
  while os.clock() < until_then do end
  check.equal(ran, false)
  p:join()
  check.equal(ran, true)
end

function case.equal_endless_loops_take_turns()
  local counts = { 0, 0, 0 }
  local all = {}
  for i = 1, 3 do
    all[i] = process.spawn(function() while true do counts[i] = counts[i] + 1 end end)
  end
  check.eventually(
    "all run",
    function() return counts[1] > 0 and counts[2] > 0 and counts[3] > 0 end
  )
  local before = { table.unpack(counts) }
  check.eventually("all run on", function()
    return counts[1] > before[1] and counts[2] > before[2] and counts[3] > before[3]
  end)
  for i = 1, 3 do all[i]:kill() all[i]:join() end
end

function case.waiters_of_one_priority_are_served_in_order()
  check.without_slices()
  local ch, all = process.channel(), {}
  for i = 1, 5 do all[i] = process.spawn(function() ch:receive() note(i)() end) end
  process.yield()
  for _ = 1, 5 do ch:send(true) end
  for i = 1, 5 do all[i]:join() end
  check.list(log, { 1, 2, 3, 4, 5 })
end

function case.a_change_of_priority_counts_while_waiting()
  check.without_slices()
  local s = process.semaphore(0)
  local a = process.spawn(function() s:wait() note "a" () end)
  local b = process.spawn(function() s:wait() note "b" () end)
  process.yield()
  b:set_priority(50)
  s:signal()
  s:signal()
  a:join() b:join()
  check.list(log, { "b", "a" })
end

function case.priority_80_preempts_79_and_so_on_down()
  check.without_slices()
  process.current():set_priority(1)
  local function nest(n)
    if n > 80 then return end
    process.spawn({ priority = n }, function() nest(n + 1) note(n)() end)
  end
  nest(2)
  check.equal(#log, 79)
  for i = 1, 79 do check.equal(log[i], 81 - i) end
end

check.run(case)
