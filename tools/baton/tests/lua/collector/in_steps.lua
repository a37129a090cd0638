-- Major collections of a large heap beside other processes. A case cannot see where in its cycle
-- the collector is. So each repeats its check all along while the heap grows and shrinks through
-- several cycles.
local check = require "check"
local process = require "baton.process"
local case = {}

process.spawn({ name = "beside", daemon = true }, process.sleep, 1e6)

local OBJECTS <const> = 200000 -- 23 MB
local ROUNDS <const> = 3

local function objects(count)
  local list = {}
  for i = 1, count do list[i] = { i, {} } end
  return list
end

-- In each round, makes and drops as many objects. Calls `now_and_then` 200 times per round.
local function rounds(now_and_then)
  for round = 1, ROUNDS do
    local list = {}
    for i = 1, OBJECTS do
      list[i] = { i, { i } }
      if i % 1000 == 0 then now_and_then(i) end
    end
    for i = 1, OBJECTS, 997 do check.equal(list[i][1] + list[i][2][1], 2 * i) end
  end
end

-- Returns the collector's mode. This makes a whole collection, in which finalizers may wait.
local function mode()
  return process.critical(function()
    local before = collectgarbage "incremental"
    collectgarbage(before)
    return before
  end)
end

function case.garbage_goes_in_pieces()
  local kept, garbage = objects(OBJECTS), objects(3 * OBJECTS)
  collectgarbage() -- all of them are old now
  garbage = collectgarbage "count"
  local before, largest, least = garbage, 0, garbage
  repeat
    local t = { {} }
    local now = collectgarbage "count"
    largest, before, least = math.max(largest, before - now), now, math.min(least, now)
  until least < garbage / 2
  check.within(largest, 1, garbage / 4, "KiB freed at once, of " .. garbage)
  check.equal(#kept, OBJECTS)
  check.equal(collectgarbage "generational", "generational")
end

-- A step that the program asks for is made, although one of the collector's own may be put off.
function case.steps_of_no_size_collect()
  local kept = objects(OBJECTS)
  for _ = 1, 10 do
    local weak, steps, most = setmetatable({ {}, {} }, { __mode = "v" }), 0, 2000
    repeat
      steps = steps + 1
      collectgarbage("step", 0)
    until next(weak) == nil or steps > most
    check.within(steps, 1, most, "steps")
  end
  check.equal(#kept, OBJECTS)
end

function case.all_calls_of_collectgarbage_in_the_middle()
  local calls = {
    function() check.that(collectgarbage "count" > 0) end,
    function() collectgarbage "step" end,
    function() collectgarbage("step", 1) end,
    function() collectgarbage("step", 1000) end,
    function() collectgarbage "stop" end,
    function() check.equal(collectgarbage "isrunning", false) end,
    function() collectgarbage "restart" end,
    function() check.equal(collectgarbage "isrunning", true) end,
    function() check.equal(collectgarbage "incremental", "generational") end,
    function() check.equal(collectgarbage "generational", "incremental") end,
    function() check.equal(collectgarbage "generational", "generational") end,
    function(i) if i % 25000 == 0 then collectgarbage() end end,
  }
  local turn = 0
  rounds(function(i)
    turn = turn % #calls + 1
    calls[turn](i)
  end)
  collectgarbage "restart"
  check.equal(collectgarbage "generational", "generational")
end

function case.steps_that_are_asked_for_finish_cycles()
  local kept = objects(3 * OBJECTS)
  local weak = setmetatable({}, { __mode = "k" })
  collectgarbage "stop"
  for _ = 1, 3 do
    weak[{}] = true
    local steps = 0
    repeat
      steps = steps + 1
      collectgarbage("step", 100)
    until next(weak) == nil or steps == 100000
    check.equal(next(weak), nil)
  end
  collectgarbage "restart"
  check.equal(#kept, 3 * OBJECTS)
end

function case.equals_run_before_a_long_piece_of_the_collectors_work()
  check.without_slices()
  local turns, is_done = 0, false
  local equal = process.spawn(function()
    repeat
      turns = turns + 1
      process.yield()
    until is_done
  end)
  local before = turns
  for i = 1, 3 do check.equal(#objects(3 * OBJECTS), 3 * OBJECTS) end
  check.that(turns >= before + 3, "an equal ran " .. turns - before .. " times")
  is_done = true
  equal:join()
end

-- Objects that die together are finalized in reverse order of marking.
function case.finalizers_keep_their_order()
  for _ = 1, 3 do
    local called = {}
    local metatable = { __gc = function(object) called[#called + 1] = object.number end }
    local list = {}
    for i = 1, 500 do list[i] = setmetatable({ number = i }, metatable) end
    collectgarbage()
    list = nil
    local kept = objects(OBJECTS)
    while #called < 500 do kept[#kept + 1] = { {} } end
    for i = 1, 500 do check.equal(called[i], 501 - i) end
  end
end

function case.finalizers_that_wait_in_the_middle()
  local made, called, modes = 0, 0, {}
  local metatable = { __gc = function(object)
    check.equal(object.part[1], object)
    if called % 10 == 0 then process.sleep(0) else process.yield() end
    check.equal(object.part[1], object)
    called = called + 1
  end }
  local workers = check.spawn_all(3, function()
    local held
    rounds(function(i)
      if i == 1000 then held = {} end -- those of the last round die together, and are old
      local object = { part = {} }
      object.part[1] = object
      held[#held + 1] = setmetatable(object, metatable)
      made = made + 1
      if i == 75000 then modes[mode()] = true end
      process.yield()
    end)
  end)
  check.join_all(workers)
  check.eventually("all are called", function() collectgarbage() return called == made end)
  check.equal(made, 3 * 3 * 200)
  check.equal(next(modes), "generational")
  check.equal(next(modes, "generational"), nil)
end

function case.a_finalizer_that_never_returns_stops_no_process()
  local waits = false
  local p = process.spawn({ daemon = true, quiet = true }, function()
    local object = setmetatable({}, { __gc = function() waits = true process.suspend() end })
    collectgarbage()
    object = nil
    local list = objects(OBJECTS)
    while true do list[#list % OBJECTS + 1] = { {} } end
  end)
  check.eventually("it waits", function() return waits end)
  rounds(function(i) if i == 75000 then check.equal(mode(), "generational") end end)
  check.within(collectgarbage "count", 0, 100000, "KiB")
  p:kill()
end

function case.weak_tables_and_ephemerons()
  local keys, values = setmetatable({}, { __mode = "k" }), setmetatable({}, { __mode = "v" })
  local chain = setmetatable({}, { __mode = "k" })
  local first, kept, number = {}, {}, 0
  local last = first
  rounds(function()
    number = number + 1
    keys[{}], values[number] = number, {}
    local key, value = {}, {}
    kept[number] = { key, value }
    keys[key], values[-number] = number, value
    local following = {}
    chain[last] = { following } -- only the previous table refers to this one
    last = following
  end)
  for i = 1, number do
    check.equal(keys[kept[i][1]], i)
    check.equal(values[-i], kept[i][2])
  end
  local length, link = 0, first
  while chain[link] do length, link = length + 1, chain[link][1] end
  check.equal(length, number)
  check.equal(link, last)
  first, last, link = nil, nil, nil
  local list = objects(OBJECTS)
  local function left(table, is_counted)
    local count = 0
    for k, v in pairs(table) do if is_counted(k) then count = count + 1 end end
    return count
  end
  local function any() return true end
  local function is_positive(k) return k > 0 end
  while left(chain, any) > 0 or left(keys, any) > number or left(values, is_positive) > 0 do
    for i = 1, 10000 do list[#list + 1] = { {} } end
    check.that(#list < 100 * OBJECTS, "they are cleared")
  end
end

function case.processes_that_are_killed_in_the_middle()
  collectgarbage()
  local before = collectgarbage "count"
  local deaths = 0
  for i = 1, 30 do
    local p = process.spawn({ quiet = true }, function()
      local guard <close> = check.closing(function() deaths = deaths + 1 end)
      setmetatable({}, { __gc = function() process.sleep(0.001) end })
      rounds(process.yield)
    end)
    for _ = 1, i * 10 do process.yield() end
    p:kill()
    check.equal((p:join()), false)
  end
  check.equal(deaths, 30)
  check.equal(mode(), "generational")
  collectgarbage()
  collectgarbage()
  check.within(collectgarbage "count", 0, before + 1000, "KiB left")
end

check.run(case)
