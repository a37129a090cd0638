-- process.supervise: processes that are restarted by rules.
local check = require "check"
local process = require "baton.process"
local case = {}

local function for_ever() process.channel():receive() end

local function states(s)
  local list = {}
  for _, child in ipairs(s:children()) do list[#list + 1] = child.name .. " " .. child.state end
  return list
end

-- Returns a function that fails the first n times, and then returns or runs for ever.
local function failing(n, then_what)
  local count = 0
  return function()
    count = count + 1
    if count <= n then error("failure " .. count, 0) end
    return (then_what or function() end)()
  end, function() return count end
end

local function await_child(s, name, state)
  check.eventually(name .. " is " .. state, function()
    for _, child in ipairs(s:children()) do
      if child.name == name then return child.state == state end
    end
  end)
end

local function child_of(s, name)
  for _, child in ipairs(s:children()) do
    if child.name == name then return child end
  end
end

function case.it_runs_until_all_have_ended_by_their_rules()
  local got
  local s = process.supervise({
    { name = "plain", start = function() got = "ran" end },
    {
      name = "with arguments",
      start = {
        function(...) check.results("arguments", { n = 3, 1, nil, 3 }, ...) end,
        1,
        nil,
        3,
      },
      restart = "never",
    },
    { start = process.sleep and function() process.sleep(0.01) end },
  })
  check.results("join", { true }, s:join())
  check.equal(got, "ran")
  check.list(states(s), { "plain ended", "with arguments ended", "child 3 ended" })
  check.equal(#process.list(), 1)
end

function case.failed_children_start_again_and_others_do_not()
  local fail, count = failing(2)
  local s = process.supervise({
    { name = "fails", start = fail },
    { name = "returns", start = function() end },
    { name = "never", start = function() error("once", 0) end, restart = "never" },
    { name = "killed", start = function() process.current():kill("by hand") end },
  }, { quiet = true })
  check.results("join", { true }, s:join())
  check.equal(count(), 3)
  check.list(states(s), { "fails ended", "returns ended", "never ended", "killed ended" })
  check.equal(child_of(s, "fails").restarts, 2)
  check.equal(child_of(s, "returns").ended, "returned")
  check.list({ child_of(s, "never").ended, child_of(s, "never").reason }, { "failed", "once" })
  check.list({ child_of(s, "killed").ended, child_of(s, "killed").reason }, { "killed", "by hand" })
end

function case.always_restarts_after_any_end()
  local count = 0
  local s = process.supervise({ {
    restart = "always",
    start = function()
      count = count + 1
      if count == 1 then return end
      if count == 2 then process.current():kill() end
      if count == 3 then error("third", 0) end
      for_ever()
    end,
  } }, { quiet = true })
  check.eventually("the fourth", function() return count == 4 end)
  check.results("join", { nil, "timeout" }, s:join(0.01))
  s:kill()
  s:join()
end

function case.too_many_restarts_fail_with_the_last_error()
  local value, other = {}, nil
  local s = process.supervise({
    { start = function()
      other = process.current()
      for_ever()
    end },
    { start = function() error(value) end },
  }, { quiet = true, max = 2 })
  local ended_well, err = s:join()
  check.list({ ended_well, err == value }, { false, true })
  check.equal(child_of(s, "child 2").restarts, 2)
  check.equal(other:status(), "dead")
  check.matches(s:traceback(), "raised in process 'child 2'")
  s = process.supervise(
    { { start = function() end, restart = "always", name = "hasty" } },
    { max = 0, quiet = true }
  )
  check.results("join", { false, "the child 'hasty' has returned too often" }, s:join())
  s = process.supervise(
    { { start = function() process.current():kill(7) end, restart = "always", name = "k" } },
    { max = 0, quiet = true }
  )
  check.results("join", { false, "the child 'k' was killed too often, and last with: 7" }, s:join())
end

function case.restarts_outside_of_the_time_do_not_count()
  local count = 0
  local s = process.supervise({ { start = function()
    count = count + 1
    process.sleep(0.05)
    if count <= 6 then error("again", 0) end
  end } }, { quiet = true, max = 1, within = 0.01 })
  check.results("join", { true }, s:join())
  check.equal(count, 7)
end

function case.a_kill_stops_the_children_in_reverse_order()
  local order = {}
  local function lasting(name)
    return { name = name, start = function()
      local _ <close> = check.closing(function() order[#order + 1] = name end)
      for_ever()
    end }
  end
  local s = process.supervise { lasting "a", lasting "b", lasting "c" }
  for _, name in ipairs { "a", "b", "c" } do
    check.eventually(
      "it waits",
      function()
        return child_of(s, name).process and child_of(s, name).process:status() == "waiting"
      end
    )
  end
  s:kill("over")
  check.results("join", { false, "over" }, s:join())
  check.list(order, { "c", "b", "a" })
  check.list(states(s), { "a stopped", "b stopped", "c stopped" })
  check.equal(#process.list(), 1)
end

function case.one_that_does_not_close_in_its_grace_is_ended_nevertheless()
  local closes = 0
  local s = process.supervise({ { stop = 0.02, name = "stubborn", start = function()
    local _ <close> = check.closing(function()
      closes = closes + 1
      for_ever()
    end)
    for_ever()
  end } })
  check.eventually(
    "it waits",
    function()
      return child_of(s, "stubborn").process
        and child_of(s, "stubborn").process:status() == "waiting"
    end
  )
  local p = child_of(s, "stubborn").process
  s:kill()
  s:join()
  check.equal(closes, 1)
  check.equal(p:status(), "dead")
end

-- For each strategy: which of a, b, c restart when b fails.
local function starts_with(strategy)
  local starts, go = {}, process.event()
  local function note(name, f)
    return { name = name, start = function()
      process.critical(function() starts[name] = (starts[name] or 0) + 1 end)
      return f(starts[name])
    end }
  end
  local s <close> = process.supervise({
    note("a", for_ever),
    note("b", function(n)
      if n > 1 then for_ever() end
      go:wait()
      error("b fails", 0)
    end),
    note("c", for_ever),
  }, { strategy = strategy, quiet = true })
  check.eventually("all have started", function() return starts.a and starts.b and starts.c end)
  go:set()
  local wanted = { one = 4, rest = 5, all = 6 }
  check.eventually(
    "all that start again",
    function() return starts.a + starts.b + starts.c == wanted[strategy] end
  )
  process.sleep(0.01)
  return starts.a .. starts.b .. starts.c
end

function case.the_strategy_decides_which_children_restart()
  check.equal(starts_with "one", "121")
  check.equal(starts_with "rest", "122")
  check.equal(starts_with "all", "222")
end

function case.delays_double_up_to_the_most()
  local times = {}
  local s = process.supervise({ { start = function()
    times[#times + 1] = process.now()
    if #times < 6 then error("again", 0) end
  end } }, { quiet = true, max = 100, within = 3600, backoff = { 0.02, 0.08 } })
  check.results("join", { true }, s:join())
  for i, least in ipairs { 0.02, 0.04, 0.08, 0.08, 0.08 } do
    check.within(times[i + 1] - times[i], least, least + 60, "delay " .. i)
  end
end

function case.children_can_be_restarted_stopped_and_added()
  local runs = {}
  local function lasting(name)
    return { name = name, start = function()
      process.critical(function() runs[name] = (runs[name] or 0) + 1 end)
      for_ever()
    end }
  end
  local s = process.supervise { lasting "a", lasting "b" }
  check.eventually("both run", function() return runs.a and runs.b end)
  local first = child_of(s, "a").process
  local second = s:restart("a")
  check.results("the first", { false, "stopped by its supervisor" }, first:join())
  check.equal(child_of(s, "a").process, second)
  check.equal(s:stop("b"), true)
  check.equal(child_of(s, "b").state, "stopped")
  check.equal(child_of(s, "b").process, nil)
  local added = s:add(lasting "c")
  check.eventually("all have run", function() return runs.a == 2 and runs.c == 1 end)
  check.equal(child_of(s, "c").process, added)
  check.results("of the same name", { nil, "exists" }, s:add(lasting "c"))
  check.results("none", { nil, "no such child" }, s:restart("nobody"))
  check.results("none", { nil, "no such child" }, s:stop("nobody"))
  s:restart("b")
  check.eventually("b runs again", function() return runs.b == 2 end)
  check.matches(s:add({ start = for_ever }).name, "^child 4$")
  check.list(states(s), { "a running", "b running", "c running", "child 4 running" })
  for _, name in ipairs { "a", "b", "c", "child 4" } do check.equal(s:stop(name), true) end
  check.results("join", { true }, s:join())
  check.results("dead", { false, "dead" }, s:restart("a"))
  check.results("dead", { false, "dead" }, s:stop("a"))
  check.results("dead", { false, "dead" }, s:add { start = for_ever })
end

function case.a_child_may_restart_and_stop_itself()
  local count = 0
  local s
  s = process.supervise { { name = "self", start = function()
    count = count + 1
    if count < 3 then s:restart("self") else s:stop("self") end
    error "not reached"
  end } }
  check.results("join", { true }, s:join())
  check.equal(count, 3)
  check.equal(child_of(s, "self").state, "stopped")
end

function case.a_lasting_supervisor_waits_for_children_and_forgets_ended_ones()
  local s = process.supervise({}, { lasting = true })
  local done = process.channel()
  for i = 1, 100 do check.that(s:add { start = { done.send, done, i } }) end
  local sum = 0
  for _ = 1, 100 do sum = sum + done:receive() end
  check.equal(sum, 5050)
  check.eventually(
    "they are dropped",
    function() return s:stop("x") == nil and #s:children() == 0 end
  )
  s:kill()
  s:join()
  check.results("an empty one", { true }, process.supervise({}):join())
end

function case.supervisors_nest()
  local inner_runs = 0
  local s <close> = process.supervise({
    { name = "inner", children = {
      { name = "leaf", start = function()
        inner_runs = inner_runs + 1
        if inner_runs < 4 then error("leaf", 0) end
        for_ever()
      end },
    }, options = { max = 1, quiet = true } },
  }, { quiet = true })
  check.eventually("the inner one was started again", function() return inner_runs == 4 end)
  local inner = child_of(s, "inner")
  check.equal(inner.restarts, 1)
  check.list(states(inner.supervisor), { "leaf running" })
  check.that(inner.supervisor:restart("leaf"))
  check.eventually("by its own supervisor", function() return inner_runs == 5 end)
  local leaf = child_of(inner.supervisor, "leaf").process
  s:kill()
  s:join()
  check.equal(leaf:status(), "dead")
  check.equal(#process.list(), 1)
end

function case.it_is_an_object_like_a_process()
  local s = process.supervise({ { start = for_ever } }, { name = "top" })
  check.equal(s.name, "top")
  check.equal(math.type(s.id), "integer")
  check.matches(tostring(s), "^supervisor: process %d+ 'top'")
  check.becomes(s, "waiting")
  check.equal(s.process.id, s.id)
  check.results("select", { nil, "timeout" }, process.select({ s.process }, 0))
  local channel = process.channel()
  s:monitor(channel)
  do
    local _ <close> = s
  end
  check.equal(s:status(), "dead")
  check.equal(channel:receive().ended, "killed")
end

function case.a_kill_at_any_time_leaves_no_process()
  for i = 1, 60 do
    local fail = failing(i % 7)
    local s = process.supervise({
      { start = fail, restart = "always" }, { start = for_ever },
      { children = { { start = for_ever }, { start = fail } }, options = { quiet = true } },
    }, { quiet = true, strategy = ({ "one", "all", "rest" })[i % 3 + 1], max = 100 })
    process.sleep(0.0002 * (i % 10))
    s:kill()
    s:join()
    check.equal(#process.list(), 1)
  end
end

function case.wrong_descriptions_are_refused()
  local function refused(pattern, ...) check.raises(pattern, process.supervise, ...) end
  refused("bad argument #1 to 'supervise' %(table expected, got no value%)")
  refused("bad argument #2 to 'supervise' %(table expected, got number%)", {}, 1)
  refused("list of children expected, got the key 'name'", { name = "x" })
  refused("child 1: table expected, got function", { for_ever })
  refused("child 1: unknown option 'strat'", { { strat = for_ever } })
  refused("child 1: 'start', 'vm' or 'children' expected", { {} })
  refused(
    "child 2: 'start', 'vm' or 'children' expected",
    { { start = for_ever }, { start = for_ever, children = {} } }
  )
  refused(
    "child 1, option 'start': function, or {function, arguments...}, expected, got string",
    { { start = "f" } }
  )
  refused(
    "option 'restart': 'always', 'failed' or 'never' expected",
    { { start = for_ever, restart = "sometimes" } }
  )
  refused(
    "option 'stop': number of seconds, not negative, expected",
    { { start = for_ever, stop = -1 } }
  )
  refused(
    "two children of the name 'x'",
    { { start = for_ever, name = "x" }, { start = for_ever, name = "x" } }
  )
  refused(
    "two children of the name 'child 2'",
    { { start = for_ever, name = "child 2" }, { start = for_ever } }
  )
  refused("options: unknown option 'maximum'", {}, { maximum = 1 })
  refused("option 'strategy': 'one', 'all' or 'rest' expected", {}, { strategy = "some" })
  refused("option 'max'", {}, { max = 1.5 })
  refused("option 'within'", {}, { within = 0 })
  refused("option 'backoff'", {}, { backoff = { 2, 1 } })
  refused("option 'backoff'", {}, { backoff = 1 })
  refused("child 1: unknown option 'bad'", { { children = { { bad = 1 } } } })
  refused("unknown option 'bad'", { { children = {}, options = { bad = 1 } } })
  refused("'options' without 'children'", { { start = for_ever, options = {} } })
  local s <close> = process.supervise { { start = for_ever } }
  local why = "bad argument #1 to 'add' %(child: 'start', 'vm' or 'children' expected%)"
  check.raises(why, function() s:add {} end)
  check.raises("bad argument #1 to 'stop' %(string expected, got nil%)", function() s:stop() end)
  check.raises("supervisor expected", s.stop, {}, "x")
end

check.run(case)
