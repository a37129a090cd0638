-- process.scope: its processes end before the call returns.
local check = require "check"
local process = require "baton.process"
local case = {}

local function for_ever() process.channel():receive() end

function case.a_scope_waits_for_all_its_processes_and_returns_the_results_of_its_function()
  local ended = 0
  local function later(n)
    process.sleep(n / 1000)
    process.critical(function() ended = ended + 1 end)
  end
  local a, b, c = process.scope(function(scope)
    for i = 1, 10 do scope:spawn(later, i) end
    return 1, nil, 3
  end)
  check.list({ a, tostring(b), c, ended }, { 1, "nil", 3, 10 })
end

function case.a_process_of_a_scope_is_like_any_other()
  process.scope(function(scope)
    local p = scope:spawn(
      { name = "child", priority = 50 },
      function(...) return process.current().name, select("#", ...) end,
      nil,
      nil
    )
    check.equal(p.name, "child")
    check.equal(p:priority(), 50)
    check.results("join", { true, "child", 2 }, p:join())
  end)
end

function case.processes_spawn_others_into_their_scope()
  local count = 0
  process.scope(function(scope)
    local function tree(depth)
      process.critical(function() count = count + 1 end)
      if depth > 0 then
        scope:spawn(tree, depth - 1)
        scope:spawn(tree, depth - 1)
      end
    end
    scope:spawn(tree, 5)
  end)
  check.equal(count, 63)
end

function case.the_first_failure_ends_the_others_and_is_raised()
  local value, closed = {}, 0
  local all = {}
  local ok, err = pcall(process.scope, function(scope)
    for i = 1, 5 do
      all[i] = scope:spawn(function()
        local _ <close> = check.closing(function()
          process.critical(function() closed = closed + 1 end)
        end)
        for_ever()
      end)
    end
    for i = 1, 5 do check.becomes(all[i], "waiting") end
    scope:spawn(function() error(value) end)
  end)
  check.equal(ok, false)
  check.equal(err, value)
  check.equal(closed, 5)
  for i = 1, 5 do check.equal(all[i]:status(), "dead") end
end

function case.a_failure_may_be_nil()
  local other
  check.results("pcall", { n = 2, false, nil }, pcall(process.scope, function(scope)
    other = scope:spawn(for_ever)
    scope:spawn(error)
  end))
  check.results("the other", { false, "killed" }, other:join())
end

function case.the_traceback_of_a_failed_process_names_its_function()
  local p
  local function deliberate() error("on purpose") end
  check.raises("on purpose", process.scope, function(scope)
    p = scope:spawn(function() deliberate() end)
  end)
  check.matches(p:traceback(), "deliberate")
end

function case.an_error_in_the_function_ends_the_processes()
  local p
  check.raises("scope.lua:%d+: of its own", process.scope, function(scope)
    p = scope:spawn(for_ever)
    error("of its own")
  end)
  check.results("the process", { false, "killed" }, p:join())
end

function case.a_kill_of_the_caller_ends_the_processes()
  local child
  local caller = process.spawn(function()
    process.scope(function(scope) child = scope:spawn(for_ever) end)
  end)
  check.becomes(caller, "waiting")
  check.eventually("the child is there", function() return child ~= nil end)
  caller:kill()
  check.results("the caller", { false, "killed" }, caller:join())
  check.equal(child:status(), "dead")
end

-- A regression test: a kill came before the scope had stored a new child.
function case.a_kill_between_two_instructions_leaves_no_child()
  process.params.slice = 0.0001
  for _ = 1, 300 do
    local children = {}
    local function child()
      children[process.current()] = true
      for_ever()
    end
    local caller = process.spawn(process.scope, function(scope)
      while true do
        scope:spawn(child)
        if #process.list() > 30 then process.sleep(0.001) end
      end
    end)
    process.sleep(0.0002)
    caller:kill()
    caller:join()
    for p in pairs(children) do check.equal(p:status(), "dead") end
    check.equal(#process.list(), 1)
  end
end

function case.a_process_that_is_killed_is_no_failure()
  check.equal(process.scope(function(scope)
    scope:spawn(for_ever):kill()
    local other = scope:spawn(process.sleep, 0.01)
    check.equal(other:join(), true)
    return "went on"
  end), "went on")
end

function case.scopes_nest()
  local ended = {}
  check.raises("inner", process.scope, function(outer)
    check.becomes(outer:spawn(function()
      local _ <close> = check.closing(function() ended[#ended + 1] = "outer" end)
      for_ever()
    end), "waiting")
    process.scope(function(inner)
      check.becomes(inner:spawn(function()
        local _ <close> = check.closing(function() ended[#ended + 1] = "inner" end)
        for_ever()
      end), "waiting")
      inner:spawn(error, "inner", 0)
    end)
  end)
  check.list(ended, { "inner", "outer" })
end

function case.nothing_is_spawned_after_the_end_or_a_failure()
  local kept
  process.scope(function(scope) kept = scope end)
  check.raises("scope.lua:%d+: the scope has ended", function() kept:spawn(for_ever) end)
  check.raises("first", process.scope, function(scope)
    scope:spawn(error, "first", 0):join()
    check.raises("a process of the scope has failed", scope.spawn, scope, for_ever)
  end)
end

function case.wrong_arguments_are_refused()
  check.raises(
    "bad argument #1 to '[%a.]*scope' %(function or table of options expected, got no value%)",
    process.scope
  )
  check.raises("#2 to '[%a.]*scope' %(function expected, got nil%)", process.scope, {}, nil)
  process.scope(function(scope)
    local function spawns_with(what, ...)
      local arguments = table.pack(...)
      check.raises("^[^:]*scope.lua:%d+: bad argument " .. what, function()
        scope:spawn(table.unpack(arguments, 1, arguments.n))
      end)
    end
    spawns_with "#1 to 'spawn' %(function expected, got no value%)"
    spawns_with("#1 to 'spawn' %(function expected, got number%)", 1)
    spawns_with("#2 to 'spawn' %(function expected, got no value%)", {})
    spawns_with("#2 to 'spawn' %(function expected, got nil%)", {}, nil)
    check.raises(
      "bad argument #2 to 'spawn' %(function expected, got number%)",
      function() scope.spawn(scope, 1) end
    )
    check.raises("option", scope.spawn, scope, { nonsense = 1 }, for_ever)
  end)
end

-- A regression test: scope.spawn(f) said "function expected, got nil".
function case.a_dot_in_place_of_a_colon_is_told()
  process.scope(function(scope)
    check.raises(
      "bad argument #1 to 'spawn' %(scope expected, got function; .* a colon, as in object:spawn%)",
      function() scope.spawn(print) end
    )
    check.raises("bad argument #1 to 'cancel' %(scope expected", function() scope.cancel() end)
  end)
  local s <close> = process.supervise({}, { lasting = true })
  check.raises("bad argument #1 to 'stop' %(supervisor expected, got string; .*object:stop%)",
    function() s.stop "x" end)
end

function case.a_scope_may_be_left_by_a_coroutine()
  local co = coroutine.wrap(function()
    process.scope(function(scope)
      scope:spawn(process.sleep, 0.001)
      coroutine.yield("inside")
    end)
    return "outside"
  end)
  check.equal(co(), "inside")
  check.equal(co(), "outside")
end

function case.a_function_may_have_many_results()
  for _, count in ipairs { 15, 40, 250, 5000 } do
    local list = table.move({ 1 }, 1, 1, count)
    local function many(scope)
      scope:spawn(process.sleep, 0.001)
      return table.unpack(list, 1, count)
    end
    check.equal(select("#", process.scope(many)), count)
    check.equal(select("#", process.scope({}, many)), count)
    check.results("cancelled", { n = 2, nil, "why" }, process.scope(function(scope)
      scope:spawn(process.sleep, 0.001)
      scope:cancel "why"
      return table.unpack(list, 1, count)
    end))
  end
end

function case.a_failure_is_raised_although_the_function_fails_of_it()
  check.raises("^the real reason$", process.scope, function(scope)
    local p = scope:spawn(error, "the real reason", 0)
    p:join()
    scope:spawn(error, "too late", 0)
  end)
  check.raises("^the first$", process.scope, function(scope)
    scope:spawn(error, "the first", 0):join()
    error("the second", 0)
  end)
end

check.run(case)
