-- Sleeps and timers: never early, only a little late, and no unnecessary waits.
local check = require "check"
local process = require "baton.process"
local params = process.params
local case = {}

-- f returns a delay, and for how long the machine kept the program's threads from a processor
-- meanwhile, both in seconds. The median of the differences must be within the bound. The faults
-- that these tests look for make all of them late.
local function usually(what, bound, samples, f)
  local times = {}
  for i = 1, samples do
    local time, kept = f()
    times[i] = time - kept
  end
  local median = check.middle(times)
  check.that(median <= bound, ("%s: the median of %d is %g"):format(what, samples, median))
end

-- Returns how late a sleep is. It must not be early.
local function lateness(seconds)
  local due = process.now() + seconds
  process.sleep_until(due)
  local late = process.now() - due
  check.that(late >= 0, "not early")
  return late
end

-- The same, and the time kept from a processor.
local function lateness_and_kept(seconds, kept)
  local before = kept()
  local late = lateness(seconds)
  return late, kept() - before
end

-- A wait rounded to whole milliseconds would be later than this. The bound is about three times the
-- usual delay.
function case.sleeps_of_a_millisecond_are_late_by_little()
  local kept = check.time_kept()
  usually("lateness", 0.0002, 101, function() return lateness_and_kept(0.001, kept) end)
end

function case.sleeps_of_every_length_are_late_by_less_than_half_a_millisecond()
  local kept = check.time_kept()
  for _, seconds in ipairs { 0.00005, 0.0001, 0.001, 0.01 } do
    usually(
      "lateness of " .. seconds,
      0.0005,
      101,
      function() return lateness_and_kept(seconds, kept) end
    )
  end
end

-- The sleeper is late only by what is kept after its deadline. The busy processes note how much was
-- kept until then.
function case.an_urgent_sleeper_wakes_in_time_beside_busy_processes()
  local due, kept, kept_before = math.huge, nil, 0
  local function compute()
    while true do
      local now = process.now()
      if due - 0.0003 < now and now < due then kept_before = kept() end
    end
  end
  for _ = 1, 3 do process.spawn({ daemon = true }, compute) end
  process.current():set_priority(60)
  process.sleep(0.01) -- the monitor has been started
  kept = check.time_kept()
  for _, seconds in ipairs { 0.00005, 0.0001, 0.001, 0.01 } do
    usually("lateness of " .. seconds .. " beside busy processes", 0.001, 101, function()
      kept_before, due = kept(), process.now() + seconds
      process.sleep_until(due)
      local late = process.now() - due
      check.that(late >= 0, "not early")
      return late, kept() - kept_before
    end)
  end
end

function case.a_sleep_shorter_than_a_millisecond_is_one_wait()
  params.spin = "off"
  local before = process.stats().idle_waits
  for _ = 1, 200 do process.sleep(0.00005) end
  check.within(process.stats().idle_waits - before, 1, 250)
end

function case.an_overdue_deadline_needs_no_wait_in_the_system()
  params.spin = "off"
  local now, before = process.now(), process.stats().idle_waits
  for i = 1, 1000 do process.sleep_until(now - 1 / i) end
  check.equal(process.stats().idle_waits, before)
end

function case.a_wait_of_an_hour_does_not_delay_earlier_deadlines()
  process.spawn({ daemon = true }, process.sleep, 3600)
  local timer = process.after(3600, error, "an hour is over")
  local pipe = io.popen "sleep 0.05; echo here"
  local reader = process.spawn(pipe.read, pipe, "l")
  check.results("a call that returns", { true, "here" }, reader:join(30))
  check.equal(process.sleep(0.01), true)
  timer:cancel()
end

-- Preemption must still work after the program was idle. Each sample begins with an idle time
-- longer than that after which the monitor rests. A slice is as long as a tick of the monitor,
-- whose first poll is no sooner. If the monitor is not woken, or is woken a tick late, all samples
-- are late.
function case.after_a_long_idle_the_first_slice_ends_in_time()
  params.slice = 0.002
  local function wait_for_a_turn()
    process.sleep(0.03)
    local start, ran = process.now(), nil
    local equal = process.spawn(function() ran = process.now() end)
    while not ran do end
    equal:join()
    return ran - start
  end
  wait_for_a_turn() -- the monitor has been started
  local kept = check.time_kept()
  usually("seconds until an equal ran", params.slice + 0.001, 51, function()
    local before = kept()
    local waited = wait_for_a_turn()
    return waited, kept() - before
  end)
end

function case.the_clock_is_fresh_after_an_idle()
  local slept = process.now()
  process.sleep(0.2)
  local due = process.now() + 0.001
  check.that(due >= slept + 0.201)
  process.sleep_until(due)
  check.that(process.now() >= due)
end

function case.a_thousand_timers_that_are_set_and_cancelled_leave_no_wake_up()
  params.spin = "off"
  -- On a busy machine ten milliseconds may pass before the next statement. Then the timer has fired
  -- before it is cancelled.
  local fired = 0
  for i = 1, 1000 do process.after(0.01 + i * 1e-5, function() fired = fired + 1 end):cancel() end
  local before = process.stats().idle_waits
  process.sleep(0.1)
  -- none if the deadline passed before the wait
  check.within(process.stats().idle_waits - before, 0, 2 + fired)
  check.that(fired < 100, fired .. " of 1000 fired")
end

check.run(case)
