-- process.timeout; the options and the cancel method of process.scope.
local check = require "check"
local process = require "baton.process"
local case = {}

local function for_ever() process.channel():receive() end

function case.a_function_that_ends_in_time_returns_its_results()
  check.results(
    "three",
    { n = 4, true, 1, nil, 3 },
    process.timeout(60, function(...) return ... end, 1, nil, 3)
  )
  check.results("none", { true }, process.timeout(60, function() end))
  check.results("without an end", { true, "at last" }, process.timeout(math.huge, function()
    process.sleep(0.01)
    return "at last"
  end))
end

function case.a_late_function_is_killed_and_has_closed_when_the_call_returns()
  local closed = false
  local before = process.now()
  check.results("timeout", { nil, "timeout" }, process.timeout(0.1, function()
    local _ <close> = check.closing(function()
      process.sleep(0.02)
      closed = true
    end)
    while true do pcall(for_ever) end
  end))
  check.equal(closed, true)
  check.within(process.now() - before, 0.12, 60)
end

function case.an_endless_loop_is_ended()
  check.results(
    "timeout",
    { nil, "timeout" },
    process.timeout(0.02, function()
      while true do
      end
    end)
  )
end

-- Whoever uses it first.
function case.a_function_with_a_deadline_has_the_data_of_its_caller()
  for _, uses_before in ipairs { true, false } do
    check.results("joined", { true }, process.spawn(function()
      local data = uses_before and process.current().data or nil
      local _, inner = process.timeout(60, function()
        process.current().data.from_inside = 1
        return select(2, process.timeout(60, function() return process.current().data end))
      end)
      check.equal(process.current().data, inner)
      check.equal(data or inner, inner)
      check.equal(inner.from_inside, 1)
    end):join())
  end
end

function case.no_time_is_no_time()
  local ran = false
  for _, seconds in ipairs { 0, -1, -math.huge } do
    check.results(
      tostring(seconds),
      { nil, "timeout" },
      process.timeout(seconds, function() ran = true end)
    )
  end
  check.equal(ran, false)
end

function case.an_error_is_raised_in_the_caller()
  local value = setmetatable({}, { __tostring = function() return "an object" end })
  local ok, err = pcall(process.timeout, 60, function() error(value) end)
  check.equal(ok, false)
  check.equal(rawequal(err, value), true)
  check.raises("^deadlines.lua:%d+: in the child$", function()
    process.timeout(60, function() error(("in the child"):gsub("^", "deadlines.lua:1: "), 0) end)
  end)
  check.results("nil", { n = 2, false, nil }, pcall(process.timeout, 60, error))
end

function case.the_traceback_goes_on_in_the_child()
  local function deliberate() error("on purpose") end
  local function caller()
    process.timeout(60, function() deliberate() end)
    return "not reached"
  end
  local _, trace = xpcall(caller, debug.traceback)
  check.matches(
    trace,
    "on purpose\nstack traceback:\n.*in function <[^\n]*deadlines.lua:%d+>.*"
      .. "raised in process 'process %d+':\n.*in upvalue 'deliberate'"
  )
  local p = process.spawn({ quiet = true }, caller)
  p:join()
  check.matches(p:traceback(), "in upvalue 'deliberate'")
  check.that(not debug.traceback():find "deliberate", "a traceback that is not of the error")
end

function case.it_goes_on_through_several_processes()
  local function innermost() error("deep", 0) end
  local _, trace = xpcall(function()
    process.timeout(60, function()
      process.scope(function(scope) scope:spawn({ name = "inner" }, innermost) end)
    end)
  end, debug.traceback)
  check.matches(
    trace,
    "^deep\nstack traceback:\n.*raised in process 'process %d+':.*"
      .. "raised in process 'inner':.*deadlines.lua"
  )
end

function case.a_child_does_not_outlive_its_caller()
  local child, closed
  local p = process.spawn(function()
    process.timeout(3600, function()
      child = process.current()
      local _ <close> = check.closing(function() closed = true end)
      for_ever()
    end)
  end)
  check.eventually("the child runs", function() return child end)
  p:kill("enough")
  check.results("the caller", { false, "enough" }, p:join())
  check.equal(child:status(), "dead")
  check.equal(closed, true)
end

function case.a_scope_returns_the_reason_of_a_killed_child()
  check.results(
    "killed",
    { nil, "by hand" },
    process.timeout(60, function() process.current():kill("by hand") end)
  )
end

function case.timeouts_nest_and_the_shorter_one_counts()
  check.results(
    "inner",
    { true, nil, "timeout" },
    process.timeout(3600, process.timeout, 0.02, for_ever)
  )
  check.results("outer", { nil, "timeout" }, process.timeout(0.02, process.timeout, 3600, for_ever))
end

function case.a_timeout_may_be_used_in_a_coroutine()
  local co = coroutine.wrap(function()
    coroutine.yield((process.timeout(60, function() return 1 end)))
    return process.timeout(0.001, for_ever)
  end)
  check.equal(co(), true)
  check.results("second", { nil, "timeout" }, co())
end

function case.many_at_once_do_not_mix()
  check.join_all(check.spawn_all(100, function(i)
    if i % 2 == 0 then
      check.results("in time", { true, i }, process.timeout(3600, function()
        process.sleep(0.001 * (i % 7))
        return i
      end))
    else
      check.results("late", { nil, "timeout" }, process.timeout(0.001 * (i % 7), for_ever))
    end
  end))
end

function case.wrong_arguments_of_timeout_are_refused()
  check.raises(
    "bad argument #1 to 'baton.process.timeout' %(number expected, got no value%)",
    process.timeout
  )
  check.raises(
    "bad argument #1 to 'baton.process.timeout' %(number expected, got string%)",
    process.timeout,
    "1",
    for_ever
  )
  check.raises(
    "bad argument #1 to 'baton.process.timeout' %(number expected, got NaN%)",
    process.timeout,
    0 / 0,
    for_ever
  )
  check.raises(
    "bad argument #2 to 'baton.process.timeout' %(function expected, got no value%)",
    process.timeout,
    1
  )
  check.raises(
    "bad argument #2 to 'baton.process.timeout' %(function expected, got nil%)",
    process.timeout,
    1,
    nil
  )
  check.raises(
    "cannot wait inside process.critical",
    process.critical,
    process.timeout,
    1,
    for_ever
  )
end

function case.a_scope_with_a_timeout_ends_its_processes_and_its_function()
  local opened, closed = 0, 0
  local function lasting()
    local _ <close> = check.closing(function()
      process.critical(function() closed = closed + 1 end)
    end)
    process.critical(function() opened = opened + 1 end)
    for_ever()
  end
  check.results("scope", { nil, "timeout" }, process.scope({ timeout = 0.3 }, function(scope)
    for _ = 1, 5 do scope:spawn(lasting) end
    lasting()
  end))
  check.that(opened > 0, "some have begun")
  check.that(closed >= opened, "all that have begun are closed")
end

function case.a_scope_that_ends_in_time_gives_its_results()
  check.results("scope", { 1, nil, 3 , n = 3 }, process.scope({ timeout = 60 }, function(scope)
    scope:spawn(process.sleep, 0.001)
    return 1, nil, 3
  end))
  check.results(
    "late children",
    { nil, "timeout" },
    process.scope({ timeout = 0.05 }, function(scope)
      scope:spawn(for_ever)
      return "in time"
    end)
  )
end

function case.a_failure_in_a_scope_with_options_is_raised()
  check.raises(
    "^of the function$",
    process.scope,
    { timeout = 60 },
    function() error("of the function", 0) end
  )
  check.raises("^of a child$", process.scope, { timeout = 60 }, function(scope)
    scope:spawn(error, "of a child", 0)
    for_ever()
  end)
end

function case.a_cancelled_scope_returns_the_reason()
  local other
  check.results("from outside", { nil, "no need" }, process.scope({}, function(scope)
    other = scope:spawn(for_ever)
    check.becomes(other, "waiting")
    process.spawn(function() check.results("cancel", { true }, scope:cancel("no need")) end)
    for_ever()
  end))
  check.results("the other", { false, "killed" }, other:join())
  check.results("by a child", { nil, "cancelled" }, process.scope({}, function(scope)
    scope:spawn(function()
      scope:cancel()
      error("a child that cancels its scope ends there")
    end)
    for_ever()
  end))
  check.results("by the function", { nil, "done" }, process.scope({}, function(scope)
    scope:spawn(for_ever)
    scope:cancel("done")
    error("not reached")
  end))
end

function case.without_options_the_function_goes_on_after_a_cancel()
  local went_on
  check.results("scope", { nil, "enough" }, process.scope(function(scope)
    local p = scope:spawn(for_ever)
    check.equal(scope:cancel("enough"), true)
    check.equal(scope:cancel("too late"), true)
    p:join()
    check.raises("the scope was cancelled", scope.spawn, scope, for_ever)
    went_on = process.current()
    return "dropped"
  end))
  check.equal(went_on, process.main)
end

function case.a_scope_that_has_ended_cannot_be_cancelled()
  local kept
  process.scope(function(scope) kept = scope end)
  check.results("cancel", { false, "dead" }, kept:cancel())
end

function case.a_failure_before_a_cancel_is_raised_and_one_after_it_is_not()
  check.raises("^first$", process.scope, function(scope)
    scope:spawn(error, "first", 0):join()
    scope:cancel()
  end)
  check.results("after", { nil, "cancelled" }, process.scope(function(scope)
    local p = scope:spawn(function()
      local _ <close> = check.closing(function() error("while it ends") end)
      for_ever()
    end)
    check.becomes(p, "waiting")
    scope:cancel()
  end))
end

function case.a_name_names_the_processes_of_a_scope()
  local names = {}
  process.scope({ name = "fetch" }, function(scope)
    names[1] = process.current().name
    names[2], names[3] =
      scope:spawn(function() end).name, scope:spawn({ name = "own" }, function() end).name
    names[4] = scope:spawn({}, function() end).name
  end)
  check.list(names, { "fetch", "fetch/1", "own", "fetch/2" })
end

function case.a_scope_with_a_timeout_does_not_outlive_its_caller()
  local inner
  local p = process.spawn(function()
    process.scope({ timeout = 3600, name = "inner" }, function()
      inner = process.current()
      for_ever()
    end)
  end)
  check.eventually("it runs", function() return inner end)
  p:kill()
  p:join()
  check.equal(inner:status(), "dead")
end

function case.wrong_options_of_a_scope_are_refused()
  check.raises(
    "bad argument #1 to '[%a.]*scope' %(unknown option 'timout'%)",
    process.scope,
    { timout = 1 },
    for_ever
  )
  check.raises("unknown option '1'", process.scope, { 1 }, for_ever)
  check.raises(
    "option 'timeout': number expected, got string",
    process.scope,
    { timeout = "1" },
    for_ever
  )
  check.raises(
    "option 'timeout': number expected, got NaN",
    process.scope,
    { timeout = 0 / 0 },
    for_ever
  )
  check.raises("option 'name': string expected, got number", process.scope, { name = 1 }, for_ever)
  check.raises("#2 to '[%a.]*scope' %(function expected, got no value%)", process.scope, {})
end

-- With any timing, no process stays, and the result is one of the possible ones.
function case.simultaneous_deadlines_kills_and_ends_leave_no_process()
  for i = 1, 100 do
    local p = process.spawn(function()
      return process.timeout(0.0001 * (i % 10), function()
        process.scope({ timeout = 0.0001 * (i % 7) }, function(scope)
          for k = 1, 3 do scope:spawn(process.sleep, 0.0001 * (k + i % 5)) end
        end)
        return "whole"
      end)
    end)
    if i % 3 == 0 then
      process.sleep(0.0001 * (i % 11))
      p:kill()
    end
    local ended_well, first, second = p:join()
    if ended_well then
      check.that(first and second == "whole" or second == "timeout", "an answer")
    end
    check.equal(#process.list(), 1)
  end
end

check.run(case)
