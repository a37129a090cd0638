-- Finalizers that wait while other processes run and collect.
local check = require "check"
local process = require "baton.process"
local case = {}

local function randoms(state)
  return function(n)
    state = (state * 1103515245 + 12345) & 0x7fffffff
    return state % n
  end
end

-- Processes that keep many objects and drop more. Some objects have finalizers that wait. Kept
-- objects must stay intact, and each finalizer must run once. `now_and_then` is called with a
-- random number below a thousand.
local function churn(now_and_then)
  local made, finalized, wrong = 0, 0, 0
  local waiting = {
    __gc = function(object)
      check.equal(object.finalized, nil)
      object.finalized = true
      process.yield()
      process.critical(function() finalized = finalized + 1 end)
    end,
  }
  local function work(number)
    local random = randoms(number)
    for _ = 1, 60 do
      local kept = {}
      for i = 1, 20 + random(300) do
        kept[i] = { leaf = { i, name = "name " .. i }, number = i }
        if random(20) == 0 then
          process.critical(function() made = made + 1 end)
          setmetatable({}, waiting)
        end
        if random(50) == 0 then process.yield() end
      end
      now_and_then(random(1000))
      for i, one in ipairs(kept) do
        if one.number ~= i or one.leaf[1] ~= i or one.leaf.name ~= "name " .. i then
          wrong = wrong + 1
        end
      end
    end
  end
  local workers = {}
  for number = 1, 12 do workers[number] = process.spawn(work, number) end
  for _, worker in ipairs(workers) do check.results("join", { true }, worker:join()) end
  check.equal(wrong, 0)
  collectgarbage()
  check.eventually("all finalizers have run", function()
    collectgarbage()
    return finalized == made
  end)
end

-- A regression test: after a finalizer returned, the collection continued in a heap that another
-- process had switched to another mode. It freed objects in use.
function case.those_that_wait_in_a_generational_collection_do_no_harm()
  collectgarbage "generational"
  churn(function() end)
end

function case.those_that_wait_in_an_incremental_collection_do_no_harm()
  collectgarbage("incremental", 110, 400)
  churn(function() end)
end

function case.those_that_wait_while_the_mode_changes_do_no_harm()
  churn(function(number)
    if number < 200 then collectgarbage(number % 2 == 0 and "generational" or "incremental")
    elseif number < 250 then collectgarbage()
    elseif number < 400 then collectgarbage "step"
    end
  end)
end

-- As in Lua, it calls the finalizers of all objects that were unreachable before. Another process
-- may be running one that is not counted yet.
function case.a_full_collection_calls_all_finalizers_though_they_wait()
  local called = 0
  local busy = process.spawn({ daemon = true }, function()
    while true do
      local _ = { {}, {} }
    end
  end)
  for mode in pairs { generational = true, incremental = true } do
    collectgarbage(mode)
    called = 0
    for _ = 1, 100 do
      setmetatable({}, {
        __gc = function()
          process.critical(function() called = called + 1 end)
          process.sleep(0.0002)
        end,
      })
    end
    collectgarbage()
    check.within(called, 99, 100, mode)
    check.eventually("the last one counts", function() return called == 100 end)
  end
  busy:kill()
end

-- No process is spawned and no finalizer waits, so everything equals Lua's behaviour.
function case.those_that_allocate_are_called_as_they_come()
  for _, mode in ipairs { "incremental", "generational" } do
    collectgarbage(mode)
    local called = 0
    local meta = { __gc = function() called = called + #string.rep("x", 4000) // 4000 end }
    for _ = 1, 15000 do setmetatable({}, meta) end
    check.that(called > 3000, mode .. ": " .. called .. " were called")
    collectgarbage()
    check.equal(called, 15000, mode)
  end
end

function case.the_mode_stays_as_it_was_set_though_they_wait()
  collectgarbage "generational"
  local waited, kept = 0, {}
  local meta = { __gc = function() process.yield() waited = waited + 1 end }
  local busy = process.spawn({ daemon = true }, function()
    while true do
      local _ = { {}, {} }
      process.yield()
    end
  end)
  for i = 1, 200000 do
    kept[i] = { i }
    if i % 50 == 0 then setmetatable({}, meta) end
  end
  busy:kill()
  check.that(waited > 0)
  check.equal(collectgarbage "generational", "generational")
end

-- Calls `f` until a finalizer has run in the middle of it, or close to it, so many times. Each
-- finalizer waits until another process has called `meanwhile`.
local function interrupt(times, f, meanwhile)
  local caller, waits, goes_on, count =
    process.current(), process.semaphore(), process.semaphore(), 0
  local another = {}
  function another:__gc()
    if process.current() ~= caller then return end
    count = count + 1
    waits:signal()
    goes_on:wait()
  end
  local other = process.spawn({ daemon = true }, function()
    while waits:wait() do
      meanwhile()
      goes_on:signal()
    end
  end)
  collectgarbage("incremental", 100, 1000)
  while count < times do
    setmetatable({}, another)
    f()
  end
  another.__gc = nil
  other:kill()
end

-- A regression test: handles were collected between the listing of live processes and the making of
-- the table.
function case.one_that_waits_in_the_middle_of_a_list_does_no_harm()
  local function spawn(n)
    local all = {}
    for i = 1, n do all[i] = process.spawn({ daemon = true }, process.suspend) end
    return all
  end
  -- so many that making the table includes a step of the collector
  local _, short_lived = spawn(1500), spawn(50)
  interrupt(15, function()
    for _, p in ipairs(process.list()) do
      check.that(p.id > 0)
      p:status()
    end
  end, function()
    for _, p in ipairs(short_lived) do
      p:kill()
      p:join()
    end
    short_lived = nil
    collectgarbage()
    collectgarbage()
    local overwriting = {}
    for i = 1, 400 do overwriting[i] = ("A"):rep(100 + 2 * i) end
    short_lived = spawn(50)
  end)
end

-- A regression test: tracebacks and debug.getinfo followed the frames of a process after a
-- finalizer had let it leave them. Each function that the process waits in is new and runs in a new
-- coroutine. After its return, only the collector refers to it.
function case.finalizers_that_wait_while_other_processes_are_inspected_do_no_harm()
  local waits, turn, co, rounds = process.semaphore(), process.semaphore(), nil, 0
  local source =
    "local turn, deep, n = ... if n > 0 then deep(turn, deep, n - 1) else turn:wait() end return n"
  local seen = process.spawn({ daemon = true }, function()
    while true do
      rounds = rounds + 1
      local f = load(source, "=function" .. rounds)
      co = coroutine.create(f)
      waits:signal()
      coroutine.resume(co, turn, f, 10)
    end
  end)
  waits:wait()
  check.becomes(seen, "waiting")
  interrupt(200, function()
    check.matches(seen:traceback(), "function%d+:1: in local .deep")
    check.matches(debug.traceback(co), "function%d+:1: in local .deep")
    local info = debug.getinfo(co, 1, "Sfl")
    check.matches(info.source, "^=function%d+$")
    check.equal(type(info.func), "function")
    check.equal(info.currentline, 1)
  end, function()
    co = nil
    turn:signal()
    waits:wait()
    check.becomes(seen, "waiting")
    collectgarbage()
    collectgarbage()
    local overwriting = {}
    for i = 1, 100 do overwriting[i] = ("A"):rep(10 + 3 * i) end
  end)
end

check.run(case)
