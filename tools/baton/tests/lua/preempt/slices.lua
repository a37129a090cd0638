-- Slices; programs and processes that are not preempted.
local check = require "check"
local process = require "baton.process"
local case = {}

-- Computes without waiting until an equal that computes has run.
local function see_an_equal_run()
  local n = 0
  local p = process.spawn(function() while true do n = n + 1 end end)
  local deadline = process.now() + 30
  while n == 0 and process.now() < deadline do end
  check.that(n > 0, "a busy equal came to run")
  p:kill()
  p:join()
end

local function busy_for(seconds)
  return function()
    local until_then = process.now() + seconds
    while process.now() < until_then do end
  end
end

function case.equals_take_turns_by_slices()
  see_an_equal_run()
end

function case.a_long_slice_keeps_equals_waiting()
  check.without_slices()
  local n = 0
  local p = process.spawn(function() n = n + 1 end)
  busy_for(0.06)()
  check.equal(n, 0)
  p:join()
end

function case.equal_processes_keep_alternating()
  process.params.slice = 0.001
  local turns, last, all = 0, nil, {}
  for i = 1, 2 do
    all[i] = process.spawn(function()
      while turns < 20 do
        if last ~= i then
          last = i
          turns = turns + 1
        end
      end
    end)
  end
  for i = 1, 2 do check.equal(all[i]:join(), true) end
end

function case.a_slice_can_be_changed_while_running()
  check.without_slices()
  local n = 0
  local p = process.spawn(function() while true do n = n + 1 end end)
  process.params.slice = 0.001
  check.eventually("the other runs", function() return n > 0 end)
  p:kill()
  p:join()
end

function case.a_cooperative_process_is_not_preempted_by_equals()
  local n = 0
  local other = process.spawn({ suspended = true }, function() while true do n = n + 1 end end)
  local p = process.spawn({ preemptible = false }, function()
    other:resume()
    busy_for(0.06)()
    local during = n
    process.yield()
    return during
  end)
  check.results("join", { true, 0 }, p:join())
  check.eventually("the other runs", function() return n > 0 end)
  other:kill()
  other:join()
end

function case.a_cooperative_process_is_not_preempted_by_the_more_urgent()
  local ran = false
  local p = process.spawn({ preemptible = false }, function()
    local urgent = process.spawn({ priority = 60 }, function() ran = true end)
    busy_for(0.03)()
    local during = ran
    process.yield()
    return during, ran
  end)
  check.results("join", { true, false, true }, p:join())
end

function case.a_cooperative_program_switches_only_where_it_waits()
  process.params.preemptive = false
  check.equal(process.params.preemptive, false)
  local n = 0
  local p = process.spawn(function() n = n + 1 end)
  busy_for(0.06)()
  check.equal(n, 0)
  process.yield()
  check.equal(n, 1)
  p:join()
  process.params.preemptive = true
  see_an_equal_run()
end

-- Equals would not show it. Something becomes due for a more urgent process and is taken in, but no
-- process is interrupted.
function case.the_more_urgent_do_not_interrupt_a_cooperative_program()
  process.params.preemptive = false
  local delay, ran, urgent = 0.0005, nil, nil
  -- on a busy machine it may be due before the sleep; then try again with more time
  repeat
    delay, ran = 2 * delay, false
    urgent = process.spawn({ priority = 60 }, function()
      process.sleep(delay)
      ran = true
    end)
    process.yield()
  until not ran
  repeat until urgent:status() ~= "sleeping"
  busy_for(0.002)()
  check.equal(ran, false)
  check.equal(urgent:status(), "runnable")
  process.yield()
  check.equal(ran, true)
  urgent:join()
end

function case.increments_are_atomic_in_a_cooperative_program()
  process.params.preemptive = false
  process.params.slice = 0.0005
  local n, all = 0, {}
  for i = 1, 10 do
    all[i] = process.spawn(function() for _ = 1, 20000 do n = n + 1 end end)
  end
  for i = 1, 10 do all[i]:join() end
  check.equal(n, 200000)
end

function case.one_table_access_and_one_library_call_are_atomic()
  process.params.slice = 0.0005
  local list, all = {}, {}
  for i = 1, 10 do
    all[i] = process.spawn(function() for k = 1, 2000 do table.insert(list, i * 10000 + k) end end)
  end
  for i = 1, 10 do all[i]:join() end
  check.equal(#list, 20000)
  local last = {}
  for _, v in ipairs(list) do
    local i, k = v // 10000, v % 10000
    check.equal(k, (last[i] or 0) + 1)
    last[i] = k
  end
end

-- A regression test: each switch examined every frame. Two processes at this depth made a hundredth
-- of the rounds.
function case.a_switch_costs_the_same_at_any_depth()
  process.params.slice = 0.0001
  process.params.warn_blocked = 3600 -- unwinding such a deep stack may take long on a slow machine
  local function rounds_at(depth)
    local rounds, limit, left = {}, math.huge, nil
    local function body(n, i)
      if n > 0 then return (body(n - 1, i)) end
      rounds[i] = 0
      while os.clock() < limit do rounds[i] = rounds[i] + 1 end
      left = left or os.clock() -- the return from the recursion is not measured
    end
    local p, q = process.spawn(pcall, body, depth, 1), process.spawn(pcall, body, depth, 2)
    check.eventually("both are at the bottom", function() return rounds[1] and rounds[2] end)
    local before, used
    process.critical(function()
      -- CPU time, since other programs may use most of the processor
      before, used = rounds[1] + rounds[2], os.clock()
      limit = used + 0.2
    end)
    p:join() q:join()
    return (rounds[1] + rounds[2] - before) / (left - used)
  end
  -- The machine may be slow at times, at any depth, so the medians of five are compared.
  local all_shallow, all_deep = {}, {}
  for i = 1, 5 do all_shallow[i], all_deep[i] = rounds_at(10), rounds_at(150000) end
  local shallow, deep = check.middle(all_shallow), check.middle(all_deep)
  check.that(
    deep > shallow / 8,
    deep .. " rounds of a loop in a second, and " .. shallow .. " where the stack is shallow"
  )
end

check.run(case)
