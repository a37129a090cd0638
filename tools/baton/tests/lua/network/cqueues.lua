-- cqueues: controllers in several processes, each with its own coroutines.
local check = require "check"
local process = require "baton.process"
local cqueues = require "cqueues"
local condition = require "cqueues.condition"
local socket = require "cqueues.socket"
local case = {}

-- A coroutine of a loop may yield to other processes. It stays in its loop, and they are in no
-- loop.
function case.loops_of_several_processes_do_not_meet()
  check.join_all(check.spawn_all(4, function(i)
    for round = 1, 50 do
      local loop, sum = cqueues.new(), 0
      for k = 1, 3 do
        loop:wrap(function()
          for _ = 1, (i + k) % 4 do process.yield() end
          check.equal(cqueues.running(), loop)
          cqueues.sleep(0)
          process.yield()
          check.equal(cqueues.running(), loop)
          sum = sum + k
        end)
      end
      check.equal(cqueues.running(), nil)
      check.equal(loop:loop(), true)
      check.equal(sum, 6, "round " .. round)
    end
  end))
end

function case.others_run_while_a_loop_waits()
  local ticks = check.ticker()
  local loop = cqueues.new()
  loop:wrap(function() check.eventually("the clock ticks", function()
    cqueues.sleep(0.01)
    return ticks() > 20
  end) end)
  check.equal(loop:loop(), true)
end

function case.a_loop_that_waits_keeps_no_thread()
  local ready = condition.new()
  local all = check.spawn_all(20, function()
    local loop = cqueues.new()
    loop:wrap(function() ready:wait() end)
    assert(loop:loop())
  end)
  for _, p in ipairs(all) do check.becomes(p, "waiting") end
  check.within(process.threads(), 1, 4, "threads")
  ready:signal() -- from a process that runs no loop
  check.join_all(all)
end

function case.a_function_wrapped_while_the_loop_waits_runs_at_once()
  local loop, forever, log = cqueues.new(), condition.new(), {}
  loop:wrap(function() forever:wait() end)
  local runner = process.spawn(function() return loop:loop() end)
  check.becomes(runner, "waiting")
  loop:wrap(function() log[1] = process.current() end)
  check.eventually("it has run", function() return log[1] ~= nil end)
  check.equal(log[1], runner)
  forever:signal()
  check.results("runner", { true, true }, runner:join())
end

function case.servers_and_clients_are_processes_of_one_program()
  local server = socket.listen("127.0.0.1", 0)
  local _, _, port = server:localname()
  process.spawn({ daemon = true, name = "server" }, function()
    local loop = cqueues.new()
    loop:wrap(function()
      while true do
        local peer = server:accept()
        loop:wrap(function()
          for line in peer:lines "*l" do peer:write(line:upper(), "\n") end
          peer:close()
        end)
      end
    end)
    assert(loop:loop())
  end)
  check.join_all(check.spawn_all(10, function(i) -- without a loop, each wait stops its own process
    local client = socket.connect("127.0.0.1", port)
    for round = 1, 10 do
      client:write("line ", i, " ", round, "\n")
      check.equal(client:read "*l", "LINE " .. i .. " " .. round)
    end
    client:close()
  end))
end

function case.waits_outside_of_loops_do_not_end_each_other()
  local long = process.spawn(function()
    local before = cqueues.monotime()
    cqueues.sleep(0.3)
    return cqueues.monotime() - before
  end)
  check.becomes(long, "waiting")
  for _ = 1, 10 do cqueues.sleep(0.001) end
  local _, slept = long:join()
  check.within(slept, 0.299, 60)
end

function case.a_process_that_waits_in_a_loop_can_be_killed()
  local never, closed = condition.new(), 0
  local victims = check.spawn_all(10, function()
    local held <close> = setmetatable({}, { __close = function() closed = closed + 1 end })
    local loop = cqueues.new()
    loop:wrap(function() never:wait() end)
    assert(loop:loop())
  end)
  for _, p in ipairs(victims) do check.becomes(p, "waiting") end
  for _, p in ipairs(victims) do check.equal(p:kill(), true) end
  for _, p in ipairs(victims) do check.results("victim", { false, "killed" }, p:join()) end
  check.equal(closed, 10)
  local loop = cqueues.new()
  loop:wrap(function() cqueues.sleep(0.001) end)
  check.equal(loop:loop(), true)
end

function case.a_process_killed_inside_a_coroutine_leaves_the_loops_of_others_alone()
  local inside = process.event()
  local victim = process.spawn(function()
    local loop = cqueues.new()
    loop:wrap(function()
      inside:set()
      process.sleep(3600)
    end)
    assert(loop:loop())
  end)
  inside:wait()
  -- has to wait: only one process at a time may be inside a loop
  local other = process.spawn(function()
    local loop, ran = cqueues.new(), false
    loop:wrap(function() ran = true end)
    assert(loop:loop())
    return ran
  end)
  check.becomes(other, "waiting")
  victim:kill()
  check.results("victim", { false, "killed" }, victim:join())
  check.results("other", { true, true }, other:join())
end

function case.a_timeout_of_a_loop_holds()
  local loop, never = cqueues.new(), condition.new()
  loop:wrap(function() never:wait() end)
  local before = process.now()
  check.equal(loop:loop(0.05), true)
  check.within(process.now() - before, 0.049, 30)
  check.equal(loop:step(0), true)
  check.equal(loop:count(), 1)
end

function case.one_controller_may_be_stepped_by_two_processes()
  local loop, sum = cqueues.new(), 0
  for i = 1, 20 do
    loop:wrap(function()
      cqueues.sleep(i / 1000)
      sum = sum + 1
    end)
  end
  check.join_all(check.spawn_all(2, function() assert(loop:loop()) end))
  check.equal(sum, 20)
end

-- The turns of several processes cost three times the step.
function case.a_step_of_the_only_process_with_a_loop_calls_little_else()
  local loop, calls = cqueues.new(), 0
  loop:wrap(function() while true do cqueues.sleep(0) end end)
  local function step() for _ = 1, 100 do assert(loop:step(0)) end end
  step()
  debug.sethook(function() calls = calls + 1 end, "c")
  step()
  debug.sethook()
  check.within(calls / 100, 1, 12, "calls of functions for each step")
end

-- The first process takes no lock as long as it is the only one.
function case.a_second_process_waits_until_the_first_has_left_its_step()
  local inside, log, go = process.event(), {}, process.event()
  local first = process.spawn(function()
    local loop = cqueues.new()
    loop:wrap(function()
      inside:set()
      go:wait()
      log[#log + 1] = "first"
    end)
    assert(loop:step(0))
    assert(loop:step(0)) -- as the others do now, with the turn
  end)
  inside:wait()
  local others = check.spawn_all(2, function(i)
    local loop = cqueues.new()
    loop:wrap(function()
      check.equal(cqueues.running(), loop)
      process.yield()
      log[#log + 1] = "other"
    end)
    assert(loop:step(0))
  end)
  for _, p in ipairs(others) do check.becomes(p, "waiting") end
  check.equal(cqueues.running(), nil)
  go:set()
  check.join_all(others)
  first:join()
  check.list(log, { "first", "other", "other" })
end

function case.a_first_process_that_is_killed_in_its_step_leaves_it()
  local inside = process.event()
  local first = process.spawn(function()
    local loop = cqueues.new()
    loop:wrap(function()
      inside:set()
      process.event():wait()
    end)
    loop:step(0)
  end)
  inside:wait()
  local ran
  local second = process.spawn(function()
    local loop = cqueues.new()
    loop:wrap(function() ran = true end)
    assert(loop:step(0))
  end)
  check.becomes(second, "waiting")
  first:kill "enough"
  check.join_all { second }
  check.that(ran)
end

function case.errors_are_those_of_the_module()
  local loop = cqueues.new()
  loop:wrap(function() error "inside" end)
  local ok, why = loop:loop()
  check.equal(ok, false)
  check.matches(why, "inside")
  check.raises("Continuation Queue expected", function() loop.step({}) end)
  loop:wrap(function() cqueues.sleep(1) end)
  check.equal(loop:step(0), true)
  check.raises("number expected", function() loop:step {} end)
  loop:close()
  check.raises("cqueue closed", function() loop:step() end)
end

function case.in_a_critical_section_the_system_waits()
  local ticks = check.ticker()
  process.critical(function()
    local before = ticks()
    local loop = cqueues.new()
    loop:wrap(function() cqueues.sleep(0.02) end)
    assert(loop:loop())
    check.equal(ticks(), before)
  end)
end

function case.finalizers_may_run_loops()
  local ran = 0
  local function finalize()
    local loop = cqueues.new()
    loop:wrap(function()
      cqueues.sleep(0)
      ran = ran + 1
    end)
    assert(loop:loop())
  end
  for i = 1, 20 do
    setmetatable({}, { __gc = finalize })
    cqueues.sleep(0)
    collectgarbage()
    check.equal(ran, i)
  end
  setmetatable({}, { __gc = finalize }) -- runs at the end of the program
end

check.run(case)
