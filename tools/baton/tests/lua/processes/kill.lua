-- Kills: what they interrupt, what they do not interrupt, what runs, and what they wait for.
local check = require "check"
local process = require "baton.process"
local case = {}

-- Spawns f, waits until it has the status, kills it, and waits for its end.
local function killed_when(status, f)
  local p = process.spawn(f)
  check.eventually(status, function() return p:status() == status end)
  check.that(p:kill() ~= false, "a living process can be killed")
  check.results("join", { false, "killed" }, p:join())
  check.equal(p:status(), "dead")
end

function case.a_kill_ends_a_process_on_a_channel()
  killed_when("waiting", function() process.channel():receive() end)
end

function case.a_kill_ends_a_sender()
  killed_when("waiting", function() process.channel():send(1) end)
end

function case.a_kill_ends_a_select()
  killed_when(
    "waiting",
    function() process.select { process.channel(), { process.channel(), 1 } } end
  )
end

function case.a_kill_ends_a_sleeper()
  killed_when("sleeping", function() process.sleep(1000) end)
end

function case.a_kill_ends_a_suspended_process()
  killed_when("suspended", function() process.suspend() end)
end

-- Spawns a loop around turn(), which it must call repeatedly. Waits until it runs, kills it, and
-- waits for its end.
local function killed_when_turning(loop)
  local turns = 0
  local p = process.spawn(loop, function() turns = turns + 1 end)
  check.eventually("it turns", function() return turns > 0 end)
  p:kill()
  check.results("join", { false, "killed" }, p:join())
end

function case.a_kill_ends_an_endless_loop()
  local started = false
  local p = process.spawn(function() started = true while true do end end)
  check.eventually("it started", function() return started end)
  p:kill()
  check.results("join", { false, "killed" }, p:join())
end

function case.a_kill_ends_an_endless_loop_of_calls()
  killed_when_turning(function(turn) while true do turn() math.abs(-1) end end)
end

function case.a_kill_ends_every_kind_of_wait()
  local m = process.mutex()
  m:lock()
  local own, gate = process.mutex(), process.event()
  local waits = {
    function() m:lock() end,
    function() process.semaphore(0):wait() end,
    function() gate:wait() end,
    function() own:lock() process.condition(own):wait() end,
    function() process.main:join() end,
    function() for _ in process.channel():values() do end end,
  }
  for i, wait in ipairs(waits) do
    local p = process.spawn(wait)
    check.eventually("waiting " .. i, function() return p:status() == "waiting" end)
    p:kill(i)
    check.results("join " .. i, { false, i }, p:join())
  end
  m:unlock()
  check.results("the mutex is not lost", { true }, m:lock(0))
end

function case.a_process_killed_before_its_start_never_starts()
  check.without_slices()
  local started = false
  local p = process.spawn(function() started = true end)
  p:kill()
  check.results("join", { false, "killed" }, p:join())
  local q = process.spawn({ suspended = true }, function() started = true end)
  q:kill("early")
  check.results("join", { false, "early" }, q:join())
  check.equal(started, false)
end

function case.a_process_can_kill_itself()
  local after, closed = false, 0
  local p = process.spawn(function()
    local guard <close> = check.closing(function() closed = closed + 1 end)
    process.current():kill("own will")
    after = true
  end)
  check.results("join", { false, "own will" }, p:join())
  check.equal(after, false)
  check.equal(closed, 1)
end

function case.a_reason_is_given_to_the_joiner()
  local reason = {}
  local p = process.spawn(function() process.sleep(1000) end)
  p:kill(reason)
  check.results("join", { false, reason }, p:join())
end

function case.a_kill_wakes_all_joiners()
  local p = process.spawn(function() process.sleep(1000) end)
  local joiners = {}
  for i = 1, 10 do joiners[i] = process.spawn(function() return p:join() end) end
  check.becomes(p, "sleeping")
  p:kill("r")
  for i = 1, 10 do check.results("joiner", { true, false, "r" }, joiners[i]:join()) end
end

function case.nested_pcall_does_not_stop_a_kill()
  local reached = 0
  local p = process.spawn(function()
    pcall(function()
      pcall(function()
        pcall(process.sleep, 1000)
        reached = reached + 1
      end)
      reached = reached + 1
    end)
    reached = reached + 1
  end)
  check.becomes(p, "sleeping")
  p:kill()
  check.results("join", { false, "killed" }, p:join())
  check.equal(reached, 0)
end

function case.a_loop_that_swallows_errors_does_not_stop_a_kill()
  local p = process.spawn(function()
    while true do pcall(process.sleep, 1000) end
  end)
  check.becomes(p, "sleeping")
  p:kill()
  check.results("sleeping", { false, "killed" }, p:join())
  killed_when_turning(function(turn)
    while true do pcall(function() while true do turn() end end) end
  end)
end

function case.a_kill_passes_over_message_handlers()
  local handled = 0
  local p = process.spawn(function()
    xpcall(function()
      xpcall(process.sleep, function() handled = handled + 1 end, 1000)
    end, function() handled = handled + 1 end)
  end)
  check.becomes(p, "sleeping")
  p:kill()
  check.results("join", { false, "killed" }, p:join())
  check.equal(handled, 0)
end

function case.close_runs_once_and_in_order_through_pcall_xpcall_and_coroutines()
  local log = {}
  local function closing(name) return check.closing(function() log[#log + 1] = name end) end
  local p = process.spawn(function()
    local a <close> = closing "process"
    pcall(function()
      local b <close> = closing "pcall"
      xpcall(function()
        local c <close> = closing "xpcall"
        coroutine.wrap(function()
          local d <close> = closing "wrap"
          local co = coroutine.create(function()
            local e <close> = closing "resume 1"
            local f <close> = closing "resume 2"
            process.sleep(1000)
          end)
          coroutine.resume(co)
          log[#log + 1] = "after resume"
        end)()
        log[#log + 1] = "after wrap"
      end, function() log[#log + 1] = "handler" end)
      log[#log + 1] = "after xpcall"
    end)
    log[#log + 1] = "after pcall"
  end)
  check.eventually("sleeping", function() return p:status() == "sleeping" end)
  p:kill()
  check.results("join", { false, "killed" }, p:join())
  check.list(log, { "resume 2", "resume 1", "wrap", "xpcall", "pcall", "process" })
end

function case.close_runs_in_a_busy_coroutine_too()
  local log, turns = {}, 0
  local p = process.spawn(function()
    local a <close> = check.closing(function() log[#log + 1] = "outer" end)
    for _ in coroutine.wrap(function()
      local b <close> = check.closing(function() log[#log + 1] = "inner" end)
      coroutine.yield(1)
      while true do turns = turns + 1 end
    end) do end
  end)
  check.eventually("it turns", function() return turns > 0 end)
  p:kill()
  check.results("join", { false, "killed" }, p:join())
  check.list(log, { "inner", "outer" })
end

function case.a_kill_reaches_through_sort_gsub_and_metamethods()
  local bodies = {
    function() table.sort({ 3, 2, 1 }, function() process.sleep(1000) end) end,
    function() string.gsub("abc", ".", function() process.sleep(1000) end) end,
    function() return setmetatable({}, { __index = function() process.sleep(1000) end }).x end,
    function() return setmetatable({}, { __add = function() process.sleep(1000) end }) + 1 end,
    function()
      return tostring(setmetatable({}, {
        __tostring = function()
          process.sleep(1000)
          return ""
        end,
      }))
    end,
    function() for _ in function() process.sleep(1000) end do end end,
    function() load(function() process.sleep(1000) end) end,
  }
  for i, body in ipairs(bodies) do
    local after = false
    local p = process.spawn(function() body() after = true end)
    check.eventually("sleeping " .. i, function() return p:status() == "sleeping" end)
    p:kill()
    check.results("join " .. i, { false, "killed" }, p:join())
    check.equal(after, false, i)
  end
end

function case.a_kill_waits_for_the_end_of_a_close_handler()
  local entered, gate, finished, after = process.event(), process.event(), false, false
  local p = process.spawn(function()
    do
      local guard <close> = check.closing(function()
        entered:set()
        gate:wait()
        finished = true
      end)
    end
    process.yield()
    after = true
  end)
  entered:wait()
  p:kill()
  check.results("still closing", { n = 2, nil, "timeout" }, p:join(0.01))
  gate:set()
  check.results("join", { false, "killed" }, p:join())
  check.equal(finished, true)
  check.equal(after, false)
end

function case.a_close_handler_run_by_a_kill_may_wait()
  local slept = false
  local p = process.spawn(function()
    local guard <close> = check.closing(function() process.sleep(0.005) slept = true end)
    process.sleep(1000)
  end)
  check.becomes(p, "sleeping")
  p:kill()
  check.results("join", { false, "killed" }, p:join())
  check.equal(slept, true)
end

-- A value that records how it is closed, and closes slowly.
local function slow_to_close(log, name)
  return setmetatable({}, {
    __close = function()
      log[#log + 1] = name .. " begins"
      process.sleep(0.01)
      log[#log + 1] = name .. " ends"
    end,
  })
end

function case.a_second_kill_before_anything_was_closed_changes_nothing()
  local log = {}
  local waits = { function() process.sleep(60) end, function() while true do end end }
  for _, wait in ipairs(waits) do
    local has_begun = process.event()
    local p = process.spawn(function()
      local _ <close> = slow_to_close(log, "it")
      has_begun:set()
      wait()
      return "not reached"
    end)
    has_begun:wait()
    process.critical(function() -- otherwise it might begin to close between the two statements
      check.equal(p:kill "first", true)
      check.equal(p:kill "second", true)
    end)
    check.results("join", { false, "first" }, p:join())
  end
  check.list(log, { "it begins", "it ends", "it begins", "it ends" })
end

function case.a_second_kill_is_for_the_close_handler_that_runs()
  local log, closes = {}, process.event()
  local p = process.spawn(function()
    local _ <close> = slow_to_close(log, "outer")
    local _ <close> = check.closing(function()
      closes:set()
      process.sleep(60)
    end)
    process.sleep(60)
  end)
  check.becomes(p, "sleeping")
  p:kill "first"
  closes:wait()
  p:kill "second"
  check.results("join", { false, "first" }, p:join())
  check.list(log, { "outer begins", "outer ends" })
end

function case.a_failing_scope_lets_killed_processes_close_their_variables()
  local log = {}
  local ok, why = pcall(process.scope, function(scope)
    local closing = scope:spawn(function()
      local _ <close> = slow_to_close(log, "it")
      process.sleep(60)
    end)
    check.becomes(closing, "sleeping")
    closing:kill()
    while #log == 0 do process.yield() end
    scope:spawn(error, "failed", 0)
  end)
  check.results("scope", { false, "failed" }, ok, why)
  check.list(log, { "it begins", "it ends" })
end

function case.a_kill_counts_although_the_process_was_at_its_end()
  local path = check.scratch "go"
  local p = process.spawn(os.execute, ("until [ -e '%s' ]; do sleep 0.01; done"):format(path))
  check.becomes(p, "waiting")
  check.equal(p:kill "enough", true)
  check.write_file(path, "")
  check.results("join", { false, "enough" }, p:join())
end

function case.a_second_kill_abandons_a_close_handler()
  local entered, finished = process.event(), false
  local p = process.spawn(function()
    local guard <close> = check.closing(function()
      entered:set()
      process.sleep(1000)
      finished = true
    end)
    process.sleep(1000)
  end)
  check.becomes(p, "sleeping")
  p:kill("first")
  entered:wait()
  p:kill("second")
  check.equal(p:join(), false)
  check.equal(p:status(), "dead")
  check.equal(finished, false)
end

-- Guards against a check at every instruction, which cost 20 to 40 times as much.
function case.code_that_holds_a_kill_back_runs_as_fast_as_other_code()
  local function rounds()
    local best = math.huge
    for _ = 1, 5 do -- the best one, on a busy machine
      local before, n = os.clock(), 0
      for i = 1, 200000 do n = n + (i & 1) end
      best = math.min(best, os.clock() - before)
    end
    return best
  end
  local ways = {
    close = function(f) local closing <close> = check.closing(f) end,
    critical = process.critical,
    finalizer = function(f)
      setmetatable({}, { __gc = f })
      collectgarbage()
    end,
  }
  local plain = rounds()
  for what, way in pairs(ways) do
    local spent
    local p = process.spawn(function()
      way(function()
        process.current():kill()
        spent = rounds()
      end)
    end)
    check.results(what, { false, "killed" }, p:join())
    check.within(spent, 0, 5 * plain, what)
  end
end

function case.an_error_in_a_close_handler_does_not_save_the_process()
  local others = 0
  local p = process.spawn({ quiet = true }, function()
    local a <close> = check.closing(function() others = others + 1 end)
    pcall(function()
      local b <close> = check.closing(function() error("in close", 0) end)
      process.sleep(1000)
    end)
    others = others + 100
    process.sleep(1000)
  end)
  check.becomes(p, "sleeping")
  p:kill()
  check.equal(p:join(), false)
  check.equal(others, 1)
end

function case.a_killed_owner_frees_its_mutex_and_says_so()
  local m = process.mutex()
  local p = process.spawn(function() m:lock() process.sleep(1000) end)
  check.eventually("sleeping", function() return p:status() == "sleeping" end)
  p:kill()
  p:join()
  check.results("next", { true, "abandoned" }, m:lock())
  m:unlock()
  check.results("after", { true }, m:lock())
end

function case.a_killed_owner_passes_its_mutex_to_the_first_waiter()
  local m = process.mutex()
  local p = process.spawn(function() m:lock() process.sleep(1000) end)
  check.eventually("sleeping", function() return p:status() == "sleeping" end)
  local waiters = {}
  for i = 1, 3 do
    waiters[i] = process.spawn(function()
      local results = table.pack(m:lock())
      m:unlock()
      return table.unpack(results, 1, results.n)
    end)
    check.becomes(waiters[i], "waiting")
  end
  p:kill()
  check.results("first", { true, true, "abandoned" }, waiters[1]:join())
  check.results("second", { true, true }, waiters[2]:join())
  check.results("third", { true, true }, waiters[3]:join())
end

function case.a_kill_inside_with_frees_the_mutex()
  local m = process.mutex()
  local p = process.spawn(function() m:with(function() process.sleep(1000) end) end)
  check.eventually("sleeping", function() return p:status() == "sleeping" end)
  p:kill()
  p:join()
  check.equal(m:lock(0), true)
end

function case.a_kill_waits_for_the_return_of_a_c_function()
  local fifo, closed = check.fifo(), false
  local p = process.spawn(function()
    local guard <close> = check.closing(function() closed = true end)
    local file = io.open(fifo)
    while true do end
  end)
  check.eventually("foreign", function() return p:status() == "foreign" end)
  p:kill()
  check.results("still inside", { n = 2, nil, "timeout" }, p:join(0.01))
  check.equal(closed, false)
  check.write_file(fifo, "")
  check.results("join", { false, "killed" }, p:join())
  check.equal(closed, true)
end

function case.methods_of_a_dead_process_return_dead()
  local p = process.spawn(function() end)
  p:join()
  check.results("kill", { false, "dead" }, p:kill())
  check.results("suspend", { false, "dead" }, p:suspend())
  check.results("resume", { false, "dead" }, p:resume())
  check.results("set_priority", { false, "dead" }, p:set_priority(50))
end

function case.a_killed_generator_frees_its_iteration()
  local closed = 0
  local p = process.spawn(function()
    local function iterate() process.sleep(1000) end
    for _ in iterate, nil, nil, check.closing(function() closed = closed + 1 end) do end
  end)
  check.becomes(p, "sleeping")
  p:kill()
  check.equal(p:join(), false)
  check.equal(closed, 1)
end

function case.a_hundred_busy_processes_are_killed_one_by_one()
  local closed, begun, all = {}, {}, {}
  process.params.slice = 0.001
  for i = 1, 100 do
    all[i] = process.spawn(function()
      local guard <close> = check.closing(function() closed[i] = true end)
      begun[i] = true
      while true do pcall(check.fib, 5) end
    end)
  end
  check.eventually("half of them run", function() return begun[50] end)
  process.current():set_priority(60)
  for i = 1, 100 do all[i]:kill(i) end
  for i = 1, 100 do check.results("join", { false, i }, all[i]:join()) end
  for i = 1, 100 do
    if begun[i] then check.that(closed[i], "a process that had begun closed what it had") end
  end
  check.that(closed[50])
end

check.run(case)
