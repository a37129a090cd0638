-- require in many processes at once.
local check = require "check"
local process = require "baton.process"
local case = {}

function case.a_module_is_loaded_once_by_many_processes()
  local loads = 0
  package.preload.slow = function()
    loads = loads + 1
    process.sleep(0.01)
    return { made = loads }
  end
  local all = {}
  for i = 1, 20 do all[i] = process.spawn(require, "slow") end
  local module = require "slow"
  check.equal(module.made, 1)
  for i = 1, 20 do
    local ok, got = all[i]:join()
    check.equal(ok, true, got)
    check.equal(got, module)
  end
  check.equal(loads, 1)
  check.equal(require "slow", module)
end

function case.a_file_is_loaded_once_by_many_processes()
  local dir = os.getenv "SCRATCH"
  check.write_file(dir .. "/from_file.lua", [[
    file_loads = (file_loads or 0) + 1
    local name, path = ...
    require "baton.process".sleep(0.005)
    return { name = name, path = path }]])
  package.path = dir .. "/?.lua;" .. package.path
  local all = {}
  for i = 1, 10 do all[i] = process.spawn(require, "from_file") end
  for i = 1, 10 do
    local ok, module = all[i]:join()
    check.equal(ok, true, module)
    check.equal(module.name, "from_file")
    check.equal(module.path, dir .. "/from_file.lua")
  end
  check.equal(file_loads, 1)
end

function case.waiters_try_again_after_a_failure()
  local loads = 0
  package.preload.flaky = function()
    loads = loads + 1
    local mine = loads
    process.sleep(0.005)
    if mine == 1 then error "the first attempt fails" end
    return "attempt " .. mine
  end
  local first = process.spawn({ quiet = true }, require, "flaky")
  check.eventually("it loads", function() return loads == 1 end)
  local all = {}
  for i = 1, 5 do all[i] = process.spawn(require, "flaky") end
  local ok, message = first:join()
  check.equal(ok, false)
  check.matches(message, "the first attempt fails")
  for i = 1, 5 do
    local joined, value = all[i]:join()
    check.equal(joined, true, value)
    check.equal(value, "attempt 2")
  end
  check.equal(loads, 2)
end

function case.waiters_try_again_after_the_loader_was_killed()
  local loads = 0
  package.preload.interrupted = function()
    loads = loads + 1
    if loads == 1 then process.sleep(1000) end
    return "attempt " .. loads
  end
  local first = process.spawn(require, "interrupted")
  check.eventually("it loads", function() return loads == 1 end)
  local second = process.spawn(require, "interrupted")
  process.sleep(0.002)
  first:kill()
  local ok, value = second:join()
  check.equal(ok, true, value)
  check.equal(value, "attempt 2")
end

-- A coroutine that ends by an error does not run its <close> variables. This one is neither closed
-- nor collected.
function case.waiters_try_again_after_a_failure_that_ends_a_coroutine()
  local loads, gate = 0, process.event()
  package.preload.fails_first = function()
    loads = loads + 1
    if loads == 1 then gate:wait() error "the first attempt fails" end
    return "attempt " .. loads
  end
  local co = coroutine.create(require)
  local first = process.spawn(coroutine.resume, co, "fails_first")
  check.eventually("it loads", function() return loads == 1 end)
  local second = process.spawn(require, "fails_first")
  check.becomes(second, "waiting")
  gate:set()
  check.results("the first", { true, false }, (function(a, b) return a, b end)(first:join()))
  local ok, value = second:join()
  check.equal(ok, true, value)
  check.equal(value, "attempt 2")
  check.equal(coroutine.status(co), "dead")
end

-- The message handler runs at the place of the error, with the loader on the stack.
function case.a_message_handler_sees_the_loader()
  package.preload.traced = function() error "here" end
  local _, text = xpcall(require, debug.traceback, "traced")
  check.matches(text, "here.*in function 'error'.*loading.lua.*in function 'require'")
end

function case.a_waiter_can_be_killed()
  local gate = process.event()
  package.preload.gated = function() gate:wait() return "loaded" end
  local loader = process.spawn(require, "gated")
  process.yield()
  local waiter = process.spawn(require, "gated")
  process.sleep(0.002)
  waiter:kill()
  check.results("waiter", { false, "killed" }, waiter:join())
  gate:set()
  local ok, value = loader:join()
  check.equal(value, "loaded")
end

function case.a_module_that_waits_does_not_hold_up_others()
  local gate = process.event()
  package.preload.waits = function() gate:wait() return true end
  package.preload.quick = function() return "quick" end
  local p = process.spawn(require, "waits")
  process.yield()
  check.equal(require "quick", "quick")
  gate:set()
  check.equal(p:join(), true)
end

function case.modules_may_require_each_other_in_one_direction()
  package.preload.top = function() return "top of " .. require "bottom" end
  package.preload.bottom = function() process.sleep(0.005) return "bottom" end
  local p, q = process.spawn(require, "top"), process.spawn(require, "bottom")
  check.equal(select(2, p:join()), "top of bottom")
  check.equal(select(2, q:join()), "bottom")
end

function case.a_cycle_across_processes_raises_and_names_both()
  local both = process.event()
  local inside = 0
  local function enter()
    inside = inside + 1
    if inside == 2 then both:set() end
    both:wait(5)
  end
  package.preload.chicken = function() enter() return require "egg" end
  package.preload.egg = function() enter() return require "chicken" end
  local p = process.spawn({ quiet = true }, require, "chicken")
  local q = process.spawn({ quiet = true }, require, "egg")
  local ok_p, message_p = p:join()
  local ok_q, message_q = q:join()
  check.equal(ok_p and ok_q, false, "at least one of them fails")
  local message = tostring(ok_p and message_q or message_p)
  check.matches(message, "chicken")
  check.matches(message, "egg")
end

function case.a_c_library_is_loaded_once_by_many_processes()
  local all = {}
  for i = 1, 10 do all[i] = process.spawn(require, "blocker") end
  local module = require "blocker"
  for i = 1, 10 do
    -- the process that loaded it also gets the file's name, as in Lua
    local ok, same = all[i]:join()
    check.equal(ok, true)
    check.equal(same, module)
  end
end

function case.the_modules_of_baton_are_not_globals()
  for name in pairs(_G) do
    check.that(not tostring(name):find "process" and not tostring(name):find "baton", name)
  end
  check.equal(package.loaded["baton.process"], process)
end

check.run(case)
