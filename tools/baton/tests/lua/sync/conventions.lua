-- Timeouts have the same meaning in all calls.
local check = require "check"
local process = require "baton.process"
local case = {}

-- Every call that waits, as a function of its timeout. None of the waits succeeds.
local function waits()
  local m, mine = process.mutex(), process.mutex()
  local holder = process.spawn({ daemon = true }, function() m:lock() process.sleep(math.huge) end)
  process.yield()
  check.eventually("the holder sleeps", function() return holder:status() == "sleeping" end)
  mine:lock()
  local full = process.channel(1)
  full:send(1)
  local empty, s, e, c =
    process.channel(), process.semaphore(0), process.event(), process.condition(mine)
  return {
    join = function(...) return holder:join(...) end,
    send = function(...) return full:send(2, ...) end,
    receive = function(...) return empty:receive(...) end,
    select = function(...) return process.select({ empty }, ...) end,
    ["semaphore wait"] = function(...) return s:wait(...) end,
    lock = function(...) return m:lock(...) end,
    ["condition wait"] = function(...) return c:wait(...) end,
    ["event wait"] = function(...) return e:wait(...) end,
  }
end

function case.zero_and_less_do_not_wait()
  for name, wait in pairs(waits()) do
    local start = process.now()
    for _, timeout in ipairs { 0, 0.0, -0.0, -1, -1e300, -math.huge } do
      check.results(name, { n = 2, nil, "timeout" }, wait(timeout))
    end
    check.within(process.now() - start, 0, 60, name)
  end
end

function case.a_small_timeout_waits_that_long()
  for name, wait in pairs(waits()) do
    local start = process.now()
    check.results(name, { n = 2, nil, "timeout" }, wait(0.003))
    check.that(process.now() - start >= 0.003, name .. " gave up early")
  end
end

function case.nan_raises_and_changes_nothing()
  for name, wait in pairs(waits()) do
    check.raises("bad argument #%d to", wait, 0 / 0)
    check.results(name, { n = 2, nil, "timeout" }, wait(0))
  end
  check.raises("bad argument #1 to '[%w_.]*sleep'", function() process.sleep(0 / 0) end)
  check.raises("bad argument #1 to '[%w_.]*sleep_until'", function() process.sleep_until(0 / 0) end)
  check.raises("bad argument #1 to '[%w_.]*after'", function() process.after(0 / 0, print) end)
  check.raises("bad argument #1 to '[%w_.]*every'", function() process.every(0 / 0, print) end)
end

function case.values_that_are_no_numbers_raise()
  for name, wait in pairs(waits()) do
    check.raises("number expected, got string", wait, "soon")
    check.raises("number expected, got table", wait, {})
    check.results(name, { n = 2, nil, "timeout" }, wait(0))
  end
end

function case.huge_timeouts_wait_for_ever()
  for _, timeout in ipairs { math.huge, 1e300, 1e18, math.maxinteger, 1e10 } do
    local ch = process.channel()
    local p = process.spawn(function() return ch:receive(timeout) end)
    check.eventually("waiting", function() return p:status() == "waiting" end)
    process.sleep(0.002)
    check.equal(p:status(), "waiting")
    ch:send("came")
    check.results("join", { true, "came" }, p:join())
  end
end

function case.a_nil_timeout_waits_for_ever()
  local ch = process.channel()
  local p = process.spawn(function() return ch:receive(nil) end)
  check.becomes(p, "waiting")
  process.sleep(0.005)
  check.equal(p:status(), "waiting")
  ch:send(1)
  check.results("join", { true, 1 }, p:join())
end

function case.a_ready_object_is_taken_with_any_timeout()
  for _, timeout in ipairs { 0, -1, 0.001, math.huge } do
    local ch = process.channel(1)
    check.results("send", { true }, ch:send("v", timeout))
    check.results("receive", { "v" }, ch:receive(timeout))
    check.results("semaphore", { true }, process.semaphore(1):wait(timeout))
    check.results("mutex", { true }, process.mutex():lock(timeout))
  end
end

function case.waiters_killed_and_timed_out_by_the_thousand_leave_the_object_sound()
  local ch, s, e, m = process.channel(), process.semaphore(0), process.event(), process.mutex()
  m:lock()
  local all = {}
  for i = 1, 1000 do
    local timeout = i % 2 == 0 and 0.002 + (i % 10) / 5000 or nil
    all[#all + 1] = process.spawn(ch.receive, ch, timeout)
    all[#all + 1] = process.spawn(s.wait, s, timeout)
    all[#all + 1] = process.spawn(e.wait, e, timeout)
    all[#all + 1] = process.spawn(m.lock, m, timeout)
  end
  process.sleep(0.003)
  for i = 1, #all do
    if i % 8 < 4 then all[i]:kill() end
  end
  process.sleep(0.003)
  for i = 1, #all do all[i]:kill() end
  for i = 1, #all do all[i]:join() end
  check.results("channel", { n = 2, nil, "timeout" }, ch:send(1, 0))
  s:signal()
  check.equal(s:count(), 1)
  check.equal(e:is_set(), false)
  m:unlock()
  check.equal(m:lock(0), true)
end

check.run(case)
