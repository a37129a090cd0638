-- Suspending and resuming, in every state.
local check = require "check"
local process = require "baton.process"
local case = {}

-- Returns a process that was suspended while it waited in f(seconds) with this status, and a time
-- at or shortly after the end of that wait. If the suspension comes too late on a busy machine, it
-- starts again with more time.
local function suspended_in(status, f)
  local seconds = 0.05
  while true do
    local due
    local p = process.spawn(function()
      due = process.now() + seconds
      return f(seconds)
    end)
    check.eventually(status .. ", or too late", function()
      local found = p:status()
      return found == status or found == "dead"
    end)
    p:suspend()
    if process.now() < due then return p, due end
    p:kill()
    p:join()
    seconds = 2 * seconds
  end
end

function case.a_process_spawned_suspended_starts_when_resumed()
  local started = false
  local p = process.spawn({ suspended = true }, function(x) started = x end, "argument")
  process.sleep(0.002)
  check.equal(started, false)
  p:resume()
  check.equal(p:join(), true)
  check.equal(started, "argument")
end

function case.a_runnable_process_is_held_by_suspend()
  check.without_slices()
  local ran = false
  local p = process.spawn(function() ran = true end)
  p:suspend()
  process.yield()
  process.sleep(0.001)
  check.equal(ran, false)
  p:resume()
  p:join()
  check.equal(ran, true)
end

function case.a_busy_loop_is_held_by_suspend()
  local n = 0
  local p = process.spawn(function() while true do n = n + 1 end end)
  check.eventually("it runs", function() return n > 0 end)
  p:suspend()
  check.equal(p:status(), "suspended")
  local before = n
  process.sleep(0.01)
  check.equal(n, before)
  p:resume()
  check.eventually("it goes on", function() return n > before end)
  p:kill()
  p:join()
end

function case.a_sleeper_whose_time_comes_while_suspended_stays_suspended()
  local p, due = suspended_in("sleeping", function(seconds)
    process.sleep(seconds)
    process.current().data.woke = true
  end)
  process.sleep_until(due + 0.05)
  check.equal(p.data.woke, nil)
  check.equal(p:status(), "suspended")
  p:resume()
  p:join()
  check.equal(p.data.woke, true)
end

function case.a_receiver_that_is_suspended_gets_its_value_when_resumed()
  local ch = process.channel(1)
  local p = process.spawn(function() return ch:receive() end)
  check.eventually("waiting", function() return p:status() == "waiting" end)
  p:suspend()
  check.results("send", { true }, ch:send("value"))
  check.results("still suspended", { n = 2, nil, "timeout" }, p:join(0.005))
  p:resume()
  check.results("join", { true, "value" }, p:join())
end

function case.a_process_suspends_itself_and_keeps_its_place()
  local log = {}
  local p = process.spawn(function()
    log[#log + 1] = "before"
    process.suspend()
    log[#log + 1] = "after"
    return "end"
  end)
  check.eventually("suspended", function() return p:status() == "suspended" end)
  check.list(log, { "before" })
  p:resume()
  check.results("join", { true, "end" }, p:join())
  check.list(log, { "before", "after" })
end

function case.a_process_suspends_itself_through_its_own_handle()
  local p = process.spawn(function() process.current():suspend() return "resumed" end)
  check.eventually("suspended", function() return p:status() == "suspended" end)
  p:resume()
  check.results("join", { true, "resumed" }, p:join())
end

function case.resuming_a_process_that_is_not_suspended_does_nothing()
  local gate = process.event()
  local p = process.spawn(function()
    gate:wait()
    process.suspend()
    return 1
  end)
  check.eventually("waiting", function() return p:status() == "waiting" end)
  p:resume()
  check.equal(p:status(), "waiting")
  gate:set()
  check.eventually("suspended all the same", function() return p:status() == "suspended" end)
  p:resume()
  check.results("join", { true, 1 }, p:join())
  process.current():resume()
end

function case.suspending_twice_needs_one_resume()
  local p = process.spawn({ suspended = true }, function() return 1 end)
  p:suspend()
  p:suspend()
  p:resume()
  check.results("join", { true, 1 }, p:join())
end

function case.a_suspended_owner_keeps_its_mutex()
  local m = process.mutex()
  local p = process.spawn(function() m:lock() process.suspend() m:unlock() end)
  check.eventually("suspended", function() return p:status() == "suspended" end)
  check.results("lock", { n = 2, nil, "timeout" }, m:lock(0.005))
  p:resume()
  check.results("lock", { true }, m:lock())
  p:join()
end

function case.a_process_suspended_in_a_c_call_stays_so_after_its_return()
  local fifo, returned = check.fifo(), false
  local p = process.spawn(function()
    local file <close> = io.open(fifo)
    returned = true
  end)
  check.eventually("foreign", function() return p:status() == "foreign" end)
  p:suspend()
  check.write_file(fifo, "")
  check.results("held", { n = 2, nil, "timeout" }, p:join(0.01))
  check.equal(returned, false)
  p:resume()
  check.equal(p:join(), true)
  check.equal(returned, true)
end

function case.a_kill_of_a_suspended_process_runs_its_close_handlers()
  local closed = 0
  local p = process.spawn(function()
    local guard <close> = check.closing(function() closed = closed + 1 end)
    process.suspend()
  end)
  check.eventually("suspended", function() return p:status() == "suspended" end)
  p:kill()
  check.results("join", { false, "killed" }, p:join())
  check.equal(closed, 1)
end

function case.suspend_and_resume_take_turns_thousands_of_times()
  local n = 0
  local p = process.spawn(function()
    for _ = 1, 5000 do
      process.suspend()
      n = n + 1
    end
  end)
  while p:status() ~= "dead" do
    p:resume()
    process.yield()
  end
  check.equal(n, 5000)
end

function case.a_timeout_that_passes_while_suspended_is_reported_after_resume()
  local ch = process.channel()
  local p, due = suspended_in("waiting", function(seconds) return ch:receive(seconds) end)
  process.sleep_until(due + 0.05)
  p:resume()
  check.results("join", { n = 3, true, nil, "timeout" }, p:join())
end

check.run(case)
