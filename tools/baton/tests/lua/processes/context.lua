-- Tests data that follows the work.
local check = require "check"
local process = require "baton.process"
local vm = require "baton.vm"
local case = {}

local function fields()
  local list = {}
  for name, value in pairs(process.context() or {}) do
    list[#list + 1] = name .. "=" .. tostring(value)
  end
  table.sort(list)
  return table.concat(list, " ")
end

-- The fields that a process spawned here has.
local function in_child(...)
  local _, result = process.spawn(...):join()
  return result
end

function case.there_is_none_at_first()
  check.equal(process.context(), nil)
  check.equal(process.context "user", nil)
  check.equal(in_child(fields), "")
end

function case.fields_are_set_changed_and_removed()
  process.set_context { request = 17, user = "ann", is_test = true }
  check.equal(fields(), "is_test=true request=17 user=ann")
  check.equal(process.context "request", 17)
  check.equal(process.context "other", nil)
  process.set_context { user = "bob", share = 0.5 }
  process.set_context("is_test", nil)
  check.equal(fields(), "request=17 share=0.5 user=bob")
  process.set_context("share", nil)
  process.set_context("request", nil)
  process.set_context("user", nil)
  check.equal(process.context(), nil)
  process.set_context("user", "ann")
  process.set_context(nil)
  check.equal(process.context(), nil)
end

function case.a_program_gets_copies()
  process.set_context { user = "ann" }
  local copy = process.context()
  copy.user, copy.other = "bob", 1
  check.equal(fields(), "user=ann")
end

function case.a_process_inherits_what_its_spawner_has_at_that_time()
  process.set_context { user = "ann" }
  local go = process.event()
  local child = process.spawn(function()
    go:wait()
    local mine = fields()
    process.set_context("user", "carl")
    return mine, in_child(fields)
  end)
  process.set_context { user = "bob" }
  go:set()
  check.results("join", { true, "user=ann", "user=carl" }, child:join())
  check.equal(fields(), "user=bob")
end

function case.a_process_of_a_coroutine_inherits_it_too()
  process.set_context { user = "ann" }
  local spawn = coroutine.wrap(function()
    coroutine.yield(in_child(fields))
    process.set_context { user = "bob" }
  end)
  check.equal(spawn(), "user=ann")
  spawn()
  check.equal(fields(), "user=bob")
end

function case.timeouts_scopes_and_timers_pass_it_on()
  process.set_context { user = "ann" }
  check.results("timeout", { true, "user=ann" }, process.timeout(60, fields))
  local seen
  process.scope(function(scope)
    scope:spawn(function() seen = fields() end)
  end)
  check.equal(seen, "user=ann")
  local channel = process.channel(10)
  process.after(0, function() channel:send(fields()) end)
  check.equal(channel:receive(), "user=ann")
  local timer = process.every(0.001, function() channel:send(fields(), 0) end)
  process.set_context(nil)
  check.equal(channel:receive(), "user=ann")
  check.equal(channel:receive(), "user=ann")
  timer:cancel()
end

function case.a_call_with_a_context_sets_it_back()
  process.set_context { user = "ann" }
  local function results(...) return fields(), ... end
  check.results("call", { "request=1 user=ann", 2, nil, 4, n = 4 },
    process.with_context({ request = 1 }, results, 2, nil, 4))
  check.equal(fields(), "user=ann")
  local ok, why = pcall(process.with_context, { user = "bob" }, function() error(fields(), 0) end)
  check.equal(ok, false)
  check.equal(why, "user=bob")
  check.equal(fields(), "user=ann")
  process.set_context(nil)
  check.equal(process.with_context({ user = "eve" }, fields), "user=eve")
  check.equal(process.context(), nil)
end

function case.a_coroutine_may_yield_in_a_call_with_a_context()
  local routine = coroutine.wrap(function()
    return process.with_context({ user = "ann" }, function()
      coroutine.yield(fields())
      return fields()
    end)
  end)
  check.equal(routine(), "user=ann")
  check.equal(routine(), "user=ann")
  check.equal(process.context(), nil)
end

function case.a_kill_in_a_call_with_a_context_closes_it()
  local closed
  local victim = process.spawn(function()
    local guard <close> = setmetatable({}, { __close = function() closed = fields() end })
    process.with_context({ user = "ann" }, function() process.event():wait() end)
  end)
  check.becomes(victim, "waiting")
  victim:kill()
  victim:join()
  check.equal(closed, "")
end

-- Lua threads of ended processes are used again.
function case.a_later_process_has_nothing_of_an_earlier_one()
  for i = 1, 200 do
    process.set_context { number = i }
    check.equal(in_child(fields), "number=" .. i)
    process.set_context(nil)
    check.equal(in_child(fields), "")
    collectgarbage "step"
  end
end

function case.collections_keep_it()
  process.set_context { text = ("x"):rep(100) }
  local go = process.event()
  local children = {}
  for i = 1, 20 do
    children[i] = process.spawn(function()
      process.set_context("number", i)
      go:wait()
      return process.context "text" .. process.context "number"
    end)
  end
  for _, mode in ipairs { "incremental", "generational" } do
    collectgarbage(mode)
    for _ = 1, 3 do collectgarbage() end
  end
  go:set()
  for i, child in ipairs(children) do
    check.results("child", { true, ("x"):rep(100) .. i }, child:join())
  end
  check.equal(process.context "text", ("x"):rep(100))
end

function case.a_call_of_another_vm_takes_it_along()
  local other = vm.spawn(function() require("baton.process").event():wait() end)
  local function seen()
    local context = require("baton.process").context()
    return context and context.user
  end
  check.equal(other:call(seen), nil)
  process.set_context { user = "ann" }
  check.equal(other:call(seen), "ann")
  process.set_context(nil)
  check.equal(other:call(seen), nil)
  other:kill()
end

function case.a_vm_begins_with_that_of_its_spawner()
  process.set_context { user = "ann" }
  local other = vm.spawn(function() return require("baton.process").context "user" end)
  check.results("join", { true, "ann" }, other:join())
  local results = {}
  local function user() return require("baton.process").context "user" end
  for i, seen in vm.map({ 1, 2 }, user) do results[i] = seen end
  check.list(results, { "ann", "ann" })
end

function case.misuse_raises()
  local set = process.set_context
  check.raises("#1 to 'baton.process.set_context' %(table, name of a field or nil expected", set, 1)
  check.raises("a field's name expected", set, "a b", 1)
  check.raises("a field's name expected", set, { [1] = 1 })
  check.raises("field 'x': string, number or boolean expected, got table", set, { x = {} })
  check.raises("field 'x': at most 1000 bytes", set, "x", ("x"):rep(1001))
  check.raises("#2 to 'baton.process.with_context' %(function expected", process.with_context, {})
  local with = process.with_context
  check.raises("#1 to 'baton.process.with_context' %(table expected", with, 1, print)
  local many = {}
  for i = 1, 17 do many["field" .. i] = i end
  check.raises("at most 16 fields", set, many)
  check.raises("at most 16 fields", process.with_context, many, print)
  check.equal(process.context(), nil)
  check.raises("string expected, got boolean", process.context, true)
end

function case.the_time_left_is_that_of_the_earliest_deadline()
  check.equal(process.time_left(), nil)
  process.timeout(1000, function()
    check.within(process.time_left(), 900, 1000)
    process.timeout(100, function() check.within(process.time_left(), 50, 100) end)
    process.timeout(5000, function() check.within(process.time_left(), 900, 1000) end)
    process.timeout(math.huge, function() check.within(process.time_left(), 900, 1000) end)
    check.within(process.time_left(), 900, 1000)
  end)
  check.equal(process.time_left(), nil)
end

function case.the_deadline_follows_the_work()
  process.scope({ timeout = 100 }, function(scope)
    check.within(process.time_left(), 50, 100)
    local child = scope:spawn(function() return process.time_left() end)
    local _, left = child:join()
    check.within(left, 50, 100)
    process.after(0, function() left = process.time_left() end)
    left = nil
    while not left do process.sleep(0.001) end
    check.within(left, 50, 100)
  end)
  local free = process.spawn(function() return process.time_left() end)
  check.results("without one", { true, nil, n = 2 }, free:join())
end

function case.a_deadline_may_be_given_to_a_process_and_ends_nothing()
  local late = process.spawn({ time_left = 0.01 }, function()
    process.sleep(0.03)
    return process.time_left()
  end)
  check.results("late", { true, 0 }, late:join())
  local past = process.spawn({ time_left = -1 }, function() return process.time_left() end)
  check.results("past", { true, 0 }, past:join())
  local huge = process.spawn({ time_left = math.huge }, function() return process.time_left() end)
  check.results("never", { true, nil, n = 2 }, huge:join())
  local spawn = process.spawn
  check.raises("option 'time_left': number expected, got string", spawn, { time_left = "1" }, print)
  check.raises("option 'time_left': number expected, got NaN", spawn, { time_left = 0 / 0 }, print)
end

function case.calls_of_other_vms_have_the_deadline_of_the_caller()
  local other = vm.spawn(function() require("baton.process").event():wait() end)
  local function left() return require("baton.process").time_left() end
  check.equal(other:call(left), nil)
  process.timeout(100, function() check.within(other:call(left), 50, 100) end)
  other:kill()
end

check.run(case)
