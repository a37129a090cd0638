-- A module keeps a lua_State and calls functions on it from other processes. Errors in such calls
-- stay on that state, however they are raised, and its owner goes on as if nothing had happened.
local check = require "check"
local process = require "baton.process"
local other = require "other_states"
local case = {}

process.params.warn_blocked = 10

-- Ways to err: each calls `raise` from a C function.
local ways = {
  gsub = function(raise) return (("x"):gsub("x", raise)) end,
  sort = function(raise) table.sort({ 3, 1, 2 }, raise) end,
  tostring = function(raise) return tostring(setmetatable({}, { __tostring = raise })) end,
  require = function(raise)
    package.loaded["baton test"] = nil
    package.preload["baton test"] = raise
    require "baton test"
  end,
  load = function(raise) error(select(2, load(raise)), 0) end,
  lua_call = function(raise) return other.here(raise) end,
  coroutine = function(raise)
    local ok, value = coroutine.resume(coroutine.create(raise))
    check.equal(ok, false)
    error(value, 0)
  end,
  close = function(raise) local _ <close> = setmetatable({}, { __close = raise }) end,
  past_a_close = function(raise)
    local _ <close> = setmetatable({}, { __close = function() ("x"):gsub("x", "y") end })
    return (("x"):gsub("x", raise))
  end,
  inner_pcall = function(raise)
    local ok, value = pcall(string.gsub, "x", "x", raise)
    check.equal(ok, false)
    error(value, 0)
  end,
  inner_xpcall = function(raise)
    local seen
    local ok = xpcall(string.gsub, function(value)
      seen = value
      return debug.traceback(tostring(value))
    end, "x", "x", raise)
    check.equal(ok, false)
    error(seen, 0)
  end,
  nested_call = function(raise) return other.call(function() return other.call(raise) end) end,
  nested_pcall = function(raise)
    local ok, value = other.pcall(string.gsub, "x", "x", raise)
    check.equal(ok, false)
    error(value, 0)
  end,
  at_once = function(raise) raise() end,
}

local text, object = "as the test wants it", setmetatable({}, { __name = "error object" })

local raises = {
  text = { text, function() error(text, 0) end },
  object = { object, function() error(object) end },
  from_c = { text, function() other.raise_here(text) end },
  lua_error = { object, function() other.raise(object) end },
}

-- Errs in all ways on the kept state. `is_foreign`: it belongs to another process.
local function err_in_all_ways(is_foreign)
  for way, f in pairs(ways) do
    for kind, raise in pairs(raises) do
      local what, wanted = way .. " " .. kind, raise[1]
      -- In a coroutine, an error that is raised on the state itself passes over the coroutine.
      if kind ~= "lua_error" or way ~= "coroutine" then
        check.results(what, { false, wanted }, other.pcall(f, raise[2]))
        if is_foreign then
          check.results(what, { false, wanted }, pcall(other.call, f, raise[2]))
          local handled
          check.equal(xpcall(other.call, function(value) handled = value end, f, raise[2]), false)
          check.equal(handled, wanted, what .. ": the message handler")
        end
      end
      check.results(what, { true, "fine" }, other.pcall(function() return "fine" end))
    end
  end
end

local function in_a_process()
  local p = process.spawn(function()
    err_in_all_ways(true)
    coroutine.wrap(err_in_all_ways)(true)
  end)
  check.that(p:join())
end

-- Errors that are raised on the state outside of any call there go to the innermost handler of
-- their process.
local function raise_outside_of_calls()
  local p = process.spawn(function()
    check.results("outside", { false, object }, pcall(other.raise, object))
    check.equal(xpcall(other.raise, function(value) check.equal(value, object) end, object), false)
    coroutine.wrap(function()
      check.results("in a coroutine", { false, object }, pcall(other.raise, object))
    end)()
    local co = coroutine.create(other.raise)
    check.results("past a coroutine", { false, object }, coroutine.resume(co, object))
    check.equal(coroutine.status(co), "dead")
  end)
  check.that(p:join())
end

-- The owner of a state errs in its turn, and finds its variables.
local function owner(wait)
  local a, b, c = 1, {}, "three"
  local before = b
  wait()
  local ok, value = pcall(string.gsub, "x", "x", function() error(before) end)
  check.equal(ok, false)
  check.equal(value, before)
  check.that(a == 1 and b == before and c == "three", "its variables are whole")
  check.equal(select("#", pcall(error)), 2)
  return "whole"
end

-- Errs on the state of an owner that waits, until `end_wait` is called.
local function beside(spawn, keep)
  local gate = process.event()
  local p = process.spawn(function()
    return spawn(function()
      return owner(function()
        keep()
        gate:wait()
      end)
    end)
  end)
  check.eventually("the owner waits", function() return p:status() == "waiting" end)
  in_a_process()
  raise_outside_of_calls()
  gate:set()
  check.results("the owner", { true, "whole" }, p:join())
end

function case.of_the_main_process()
  check.equal(owner(function()
    other.keep_main()
    in_a_process()
    raise_outside_of_calls()
  end), "whole")
end

function case.of_another_process()
  beside(function(f) return f() end, other.keep)
end

function case.of_a_coroutine_that_another_process_runs()
  beside(function(f) return coroutine.wrap(f)() end, other.keep)
end

function case.of_a_coroutine_that_is_suspended()
  local co = coroutine.create(owner)
  check.that(coroutine.resume(co, coroutine.yield))
  other.keep_thread(co)
  in_a_process()
  check.results("the owner", { true, "whole" }, coroutine.resume(co))
end

function case.of_a_coroutine_that_has_not_begun()
  local co = coroutine.create(owner)
  other.keep_thread(co)
  local p = process.spawn(function()
    for way, f in pairs(ways) do
      check.results(way, { false, object }, other.pcall(f, raises.object[2]))
      check.results(way, { true, "fine" }, other.pcall(function() return "fine" end))
    end
  end)
  check.that(p:join())
  check.results("the owner", { true, "whole" }, coroutine.resume(co, function() end))
end

function case.of_the_caller_itself_below_a_coroutine()
  local p = process.spawn(function()
    return owner(function()
      other.keep()
      coroutine.wrap(err_in_all_ways)()
    end)
  end)
  check.that(p:join())
end

-- A call on a foreign state is a part of its caller: a kill ends the call, and then the caller.
function case.a_kill_ends_a_call_and_its_caller()
  check.equal(owner(function()
    other.keep_main()
    for way, f in pairs(ways) do
      local survived
      local p = process.spawn(function()
        local me = process.current()
        other.pcall(function()
          f(function() me:kill(text) end)
          survived = true
        end)
        survived = true
      end)
      check.results(way, { false, text }, p:join())
      check.equal(survived, nil, way)
    end
  end), "whole")
end

check.run(case)
