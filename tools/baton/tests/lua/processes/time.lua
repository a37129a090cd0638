-- Sleeping, the clock, and timers.
local check = require "check"
local process = require "baton.process"
local case = {}

-- Returns the order in which sleepers with these delays after a common time wake up: their delays
-- and their numbers. All must sleep before that time. If one comes too late on a busy machine, it
-- starts again with more time.
local function woken(delays)
  local margin = 0.01
  while true do
    local by_delay, by_number, all, in_time = {}, {}, {}, 0
    margin = 2 * margin
    local start = process.now() + margin
    for i, delay in ipairs(delays) do
      all[i] = process.spawn(function()
        process.sleep_until(start + delay)
        by_delay[#by_delay + 1] = delay
        by_number[#by_number + 1] = i
      end)
    end
    process.yield()
    for i = 1, #all do
      if all[i]:status() == "sleeping" then in_time = in_time + 1 end
    end
    for i = 1, #all do all[i]:join() end
    if in_time == #all then return by_delay, by_number end
  end
end

function case.sleepers_wake_in_the_order_of_their_deadlines()
  check.without_slices()
  check.list(woken({ 0.030, 0.010, 0.050, 0.020, 0.040 }), { 0.010, 0.020, 0.030, 0.040, 0.050 })
end

function case.sleepers_of_one_deadline_wake_in_order()
  check.without_slices()
  local delays, numbers = {}, {}
  for i = 1, 20 do delays[i], numbers[i] = 0, i end
  local _, log = woken(delays)
  check.list(log, numbers)
end

function case.a_sleep_never_ends_early()
  for _, s in ipairs { 0.0001, 0.001, 0.0123, 0.03 } do
    local start = process.now()
    check.equal(process.sleep(s), true)
    check.that(process.now() - start >= s, s)
  end
end

function case.sleep_until_does_not_wait_for_a_past_time()
  local start = process.now()
  process.sleep_until(start - 1000)
  process.sleep_until(0)
  check.within(process.now() - start, 0, 60)
end

function case.a_sleep_of_zero_or_less_does_not_wait()
  local start = process.now()
  for _ = 1, 100 do
    process.sleep(0)
    process.sleep(-1)
    process.sleep(-math.huge)
  end
  check.within(process.now() - start, 0, 60)
end

function case.an_endless_sleep_can_be_killed()
  local p = process.spawn(function() process.sleep(math.huge) end)
  local q = process.spawn(function() process.sleep(1e300) end)
  process.sleep(0.005)
  check.equal(p:status() == "dead" or q:status() == "dead", false)
  p:kill() q:kill()
  check.equal(p:join(), false)
  check.equal(q:join(), false)
end

function case.the_clock_never_goes_back()
  local last = process.now()
  for _ = 1, 10000 do
    local now = process.now()
    check.that(now >= last)
    last = now
  end
  check.equal(math.type(last), "float")
end

function case.a_busy_equal_does_not_keep_a_sleeper_from_waking()
  local p = process.spawn(function() while true do end end)
  for _ = 1, 5 do process.sleep(0.001) end
  p:kill()
  p:join()
end

function case.after_calls_once_with_its_arguments_in_a_process_of_its_own()
  local ch = process.channel(10)
  process.after(
    0.002,
    function(...) ch:send { process.current(), select("#", ...), ... } end,
    "a",
    nil,
    "c"
  )
  local got = ch:receive()
  check.that(got[1] ~= process.main)
  check.equal(got[2], 3)
  check.equal(got[3], "a")
  check.equal(got[5], "c")
  check.results("no second firing", { n = 2, nil, "timeout" }, ch:receive(0.01))
end

function case.after_zero_fires_soon()
  local e = process.event()
  process.after(0, function() e:set() end)
  check.equal(e:wait(), true)
end

function case.a_cancelled_timer_does_not_fire()
  local fired, attempt, timer, was_in_time = {}, 0, nil, nil
  repeat -- the machine may stop between the two
    attempt = attempt + 1
    local this, start = attempt, process.now()
    timer = process.after(0.2, function() fired[this] = true end)
    timer:cancel()
    was_in_time = process.now() < start + 0.2
  until was_in_time
  process.sleep(0.25)
  check.equal(fired[attempt], nil)
  timer:cancel()
end

-- The deadline of each timer lies between the times before and after the call that made it, however
-- long the system delayed the program.
function case.after_does_not_fire_early_and_fires_in_order()
  check.without_slices()
  local log, earliest, latest = process.channel(10), {}, {}
  for i, delay in ipairs { 0.03, 0.01, 0.02 } do
    earliest[i] = process.now() + delay
    process.after(delay, function() log:send { i, process.now() } end)
    latest[i] = process.now() + delay
  end
  local last
  for _ = 1, 3 do
    local i, fired = table.unpack(log:receive())
    check.that(fired >= earliest[i], "not early")
    check.that(not last or earliest[last] <= latest[i], "in order")
    last = i
  end
end

function case.every_fires_until_cancelled()
  local n, done = 0, process.event()
  local timer
  timer = process.every(0.002, function(a, b)
    check.equal(a, "x")
    check.equal(b, "y")
    n = n + 1
    if n == 5 then
      timer:cancel()
      done:set()
    end
  end, "x", "y")
  done:wait()
  process.sleep(0.01)
  check.equal(n, 5)
end

-- With drift, the 10 ms of the body would lengthen every period, and the hundredth firing would be
-- a second late. In virtual time nothing else makes it late.
function case.every_does_not_drift()
  local program = check.scratch "drift"
  check.write_file(program, [[
    local process = require "baton.process"
    local start, latest, done, timer = process.now(), 0, process.event(), nil
    process.critical(function() -- otherwise it might fire before the assignment
      timer = process.every(0.02, function()
        local stats = timer:stats()
        local late = process.now() - start - (stats.fired + stats.skipped) * 0.02
        assert(late >= -1e-6, "no firing is early")
        latest = math.max(latest, late)
        if stats.fired == 100 then
          timer:cancel()
          done:set()
        end
        process.sleep(0.01)
      end)
    end)
    done:wait()
    print(timer:stats().fired, timer:stats().skipped, latest < 0.001 or latest)
  ]])
  local output <close> = io.popen(("%s --simulate 1 '%s'"):format(check.interpreter(), program))
  check.equal(output:read "a", "100\t0\ttrue\n")
end

function case.a_firing_that_finds_the_last_one_running_is_skipped()
  local running, overlapped, n = 0, false, 0
  local gate, entered = process.event(), process.event()
  local timer = process.every(0.001, function()
    running = running + 1
    if running > 1 then overlapped = true end
    n = n + 1
    entered:set()
    gate:wait()
    running = running - 1
  end)
  entered:wait()
  process.sleep(0.02)
  check.equal(n, 1, "only one firing while the first runs")
  timer:cancel()
  gate:set()
  check.eventually("it ends", function() return running == 0 end)
  check.equal(overlapped, false)
end

function case.a_cancel_does_not_stop_the_firing_that_runs()
  local gate, entered, finished = process.event(), process.event(), process.event()
  local timer = process.after(0, function()
    entered:set()
    gate:wait()
    finished:set()
  end)
  entered:wait()
  timer:cancel()
  gate:set()
  check.equal(finished:wait(10), true)
end

function case.ten_thousand_sleepers_all_wake()
  local n, all = 0, {}
  for i = 1, 10000 do
    all[i] = process.spawn(function() return process.sleep((i % 50) / 1000) end)
  end
  for i = 1, #all do check.results("join", { true, true }, all[i]:join()) end
end

function case.a_thousand_timers_fire_and_a_thousand_are_cancelled()
  local wrong, s = 0, process.semaphore(0)
  for i = 1, 1000 do
    process.after((i % 10) / 1000, function() s:signal() end)
    process.after(30 + i, function() wrong = wrong + 1 end):cancel()
  end
  for _ = 1, 1000 do check.equal(s:wait(), true) end
  check.equal(wrong, 0)
end

check.run(case)
