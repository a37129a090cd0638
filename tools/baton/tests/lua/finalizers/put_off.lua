-- A finalizer that would wait for another process's call is put off to a daemon. The daemon calls
-- such finalizers in order.
local check = require "check"
local process = require "baton.process"
local ffi = require "baton.ffi"
local case = {}

process.concurrent("finalized", "serial")
local finalized = require "finalized"

-- Returns the names that the module's finalizers have recorded, and how many ran. Does not call the
-- module.
local function order() return ffi.string(ffi.cast("char *", finalized.text)) end
local function count() return ffi.cast("int *", finalized.count)[0] end

-- Spawns a process that keeps the module busy until the returned function is called.
local function busy()
  local reading, writing = finalized.pipe()
  local path = finalized.path(writing)
  local p = process.spawn(finalized.hold, reading)
  check.becomes(p, "foreign")
  return function()
    check.write_file(path, "x")
    check.equal(p:join(), true)
  end, p
end

local function make(...)
  local objects = {}
  for i, name in ipairs { ... } do objects[i] = finalized.new(name) end
  return objects
end

local function daemon()
  for _, p in ipairs(process.list()) do
    if p.name == "finalizers" then return p end
  end
end


-- Runs a case in each of the collector's modes.
local function in_both_modes(body)
  for _, mode in ipairs { "generational", "incremental" } do
    collectgarbage(mode)
    body(mode)
  end
end

function case.a_collection_does_not_wait_for_a_busy_module_and_the_order_stays()
  in_both_modes(function(mode)
    local objects = make("a", "b", "c", "d")
    local before, so_far = count(), order()
    local release = busy()
    objects = nil
    for _ = 1, 3 do collectgarbage() end
    check.equal(count(), before, mode)
    check.equal(daemon().daemon, true)
    check.becomes(daemon(), "waiting")
    release()
    check.eventually("they are called", function() return count() == before + 4 end)
    check.equal(order(), so_far .. "d c b a ")
  end)
end

function case.wrapped_coroutines_and_lua_functions_run_in_order()
  in_both_modes(function()
    local log, before, so_far = {}, count(), order()
    local objects = make("1", "2")
    local release = busy()
    objects = nil
    collectgarbage()
    for i = 1, 3 do
      setmetatable(
        {},
        { __gc = function() log[#log + 1] = "function " .. i .. " after " .. order() end }
      )
    end
    collectgarbage()
    collectgarbage()
    check.equal(#log, 0)
    check.equal(count(), before)
    release()
    check.eventually("all are called", function() return #log == 3 end)
    for i = 1, 3 do check.equal(log[i], "function " .. 4 - i .. " after " .. so_far .. "2 1 ") end
  end)
end

function case.nothing_is_put_off_while_nothing_is_busy()
  process.spawn({ daemon = true }, process.sleep, 1000)
  local log = {}
  local objects = make("x", "y")
  setmetatable({}, { __gc = function() log[1] = process.current() end })
  objects = nil
  collectgarbage()
  check.equal(order(), "y x ")
  check.equal(log[1], process.main)
  check.equal(daemon(), nil)
end

function case.a_collection_that_is_asked_for_returns_after_finalizers_that_do_not_wait()
  process.spawn({ daemon = true }, process.sleep, 1000)
  local function write(path, text)
    local pipe = io.popen("cat > '" .. path .. "'", "w")
    pipe:write(text)
  end
  for i = 1, 20 do
    local path = check.scratch("file" .. i)
    write(path, "text " .. i)
    collectgarbage()
    local file <close> = assert(io.open(path))
    check.equal(file:read "a", "text " .. i)
  end
end

function case.finalizers_that_fail_are_warned_about_and_the_next_are_called()
  local objects = make("last", "fails", "first")
  local release = busy()
  objects = nil
  collectgarbage()
  release()
  check.eventually("they are called", function() return order() == "first fails last " end)
  check.that(daemon(), "it lives")
end

function case.an_object_that_a_finalizer_keeps_is_intact()
  local kept
  local parts = { "a part of it" }
  setmetatable({ part = parts }, { __gc = function(object) kept = object end })
  parts = nil
  local objects = make("first")
  local release = busy()
  objects = nil
  for _ = 1, 3 do collectgarbage() end
  local trash = {}
  for i = 1, 10000 do trash[i] = { i } end
  trash = nil
  collectgarbage()
  check.equal(kept, nil)
  release()
  check.eventually("it is kept", function() return kept end)
  check.equal(kept.part[1], "a part of it")
  setmetatable(kept, getmetatable(kept)) -- mark it again
  kept = nil
  check.eventually("it is kept again", function() collectgarbage() return kept end)
end

function case.objects_stay_alive_through_collections_of_every_kind()
  in_both_modes(function()
    local before = count()
    local holders, seen = {}, 0
    for i = 1, 100 do
      local text = ("value %d "):format(i):rep(10)
      holders[i] = setmetatable({ text = text, object = finalized.new "o" }, {
        __gc = function(holder)
          check.equal(holder.text, ("value %d "):format(i):rep(10))
          check.equal(holder.object:name(), "o")
          seen = seen + 1
        end,
      })
    end
    local release = busy()
    holders = nil
    for round = 1, 10 do
      collectgarbage(round % 2 == 0 and "incremental" or "generational")
      collectgarbage(round % 3 == 0 and "step" or "collect")
      for i = 1, 1000 do local t = { i, tostring(i) } end
    end
    release()
    check.eventually("all are called", function() return seen == 100 end)
    check.eventually("and the module's", function()
      collectgarbage()
      return count() == before + 100
    end)
  end)
end

function case.a_killed_daemon_loses_nothing()
  local objects = make("a", "b", "c")
  local release = busy()
  objects = nil
  collectgarbage()
  local first = daemon()
  check.becomes(first, "waiting")
  first:kill()
  check.equal(first:join(), false)
  for _ = 1, 3 do collectgarbage() end
  check.that(daemon() and daemon() ~= first, "another one has taken its place")
  check.equal(count(), 0)
  release()
  check.eventually("they are called", function() return order() == "c b a " end)
end

function case.a_waiting_finalizer_does_not_hold_up_handles_of_processes()
  local objects = make("a")
  local release = busy()
  objects = nil
  collectgarbage()
  local weak = setmetatable({}, { __mode = "k" })
  for i = 1, 200 do
    local p = process.spawn(function() end)
    p:join()
    weak[p] = true
  end
  for _ = 1, 3 do collectgarbage() end
  check.equal(next(weak), nil)
  check.equal(count(), 0)
  release()
  check.eventually("it is called", function() return order() == "a " end)
end

function case.garbage_does_not_pile_up_while_the_daemon_works()
  local reading, writing = finalized.pipe()
  local blocked = process.spawn({ daemon = true }, io.read) -- something is in use
  local made, gone, most = 0, 0, 0
  local metatable = { __gc = function() gone = gone + 1 for _ = 1, 50 do end end }
  for round = 1, 200000 do
    setmetatable({}, metatable)
    made = made + 1
    if made - gone > most then most = made - gone end
  end
  collectgarbage()
  check.equal(gone, made)
  check.that(most < 100000, most)
end

function case.cooperative_processes_and_critical_sections_call_them_in_their_middle()
  local holder = busy()
  local caller, others
  process.critical(function()
    setmetatable({}, { __gc = function() caller = process.current() end })
    collectgarbage()
  end)
  check.equal(caller, process.main)
  caller = nil
  local p = process.spawn({ preemptible = false }, function()
    setmetatable({}, { __gc = function() caller = process.current() end })
    collectgarbage()
    check.equal(caller, process.current())
  end)
  check.equal(p:join(), true)
  holder()
end

function case.a_finalizer_that_waits_for_its_collector_s_lock_does_not_stop_it()
  local holder = busy()
  local mutex, done = process.mutex(), false
  setmetatable({}, { __gc = function()
    mutex:lock()
    done = true
    mutex:unlock()
  end })
  mutex:lock()
  collectgarbage()
  check.equal(done, false)
  mutex:unlock()
  check.eventually("it comes to its turn", function() return done end)
  holder()
end

function case.many_processes_collect_while_a_finalizer_waits()
  in_both_modes(function()
    local before, gone, made = count(), 0, 0
    local release = busy()
    local metatable = { __gc = function() gone = gone + 1 end }
    local workers = {}
    for w = 1, 5 do
      workers[w] = process.spawn(function()
        for i = 1, 3000 do
          setmetatable({ i, tostring(i) }, metatable)
          made = made + 1
          if i % 1000 == 0 then collectgarbage() end
        end
      end)
    end
    for _, worker in ipairs(workers) do check.equal(worker:join(), true) end
    release()
    check.eventually("all are called", function() collectgarbage() return gone == made end)
    check.equal(count(), before)
  end)
end

check.run(case)
