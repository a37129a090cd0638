-- Sleeps and timers: never early, late by little, and no waits that nobody needs.
local check = require "check"
local process = require "baton.process"
local params = process.params
local case = {}

local give_up_at = process.now() + 150 -- before the test is taken to hang

-- Tries until f returns at most `bound`, as long as there is time. A machine under load makes everything late; not every time.
local function at_best(what, bound, f)
  local least = math.huge
  repeat
    least = math.min(least, f())
    if least <= bound then return end
  until process.now() > give_up_at
  error(("%s: at most %g expected, got %g at best"):format(what, bound, least))
end

-- How late a sleep is, which may not be early.
local function lateness(seconds)
  local due = process.now() + seconds
  process.sleep_until(due)
  local late = process.now() - due
  check.that(late >= 0, "not early")
  return late
end

function case.twenty_sleeps_of_a_millisecond_take_little_more_than_twenty()
  -- A busy machine hardly lets twenty in a row undisturbed, but three quarters of them at times.
  at_best("late ones of 20 sleeps of 1 ms", 5, function()
    local late = 0
    for _ = 1, 20 do
      local start = process.now()
      process.sleep(0.001)
      if process.now() - start > 0.00106 then late = late + 1 end
    end
    return late
  end)
end

function case.sleeps_of_every_length_are_late_by_less_than_half_a_millisecond()
  for _, seconds in ipairs { 0.00005, 0.0001, 0.001, 0.01 } do
    at_best("lateness of " .. seconds, 0.0005, function() return lateness(seconds) end)
  end
end

function case.an_urgent_sleeper_wakes_in_time_beside_busy_processes()
  for _ = 1, 3 do process.spawn({ daemon = true }, function() while true do end end) end
  process.current():set_priority(60)
  for _, seconds in ipairs { 0.00005, 0.0001, 0.001, 0.01 } do
    at_best("lateness of " .. seconds .. " beside busy processes", 0.001, function() return lateness(seconds) end)
  end
end

function case.a_sleep_shorter_than_a_millisecond_is_one_wait()
  params.spin = "off"
  local before = process.stats().idle_waits
  for _ = 1, 200 do process.sleep(0.00005) end
  check.within(process.stats().idle_waits - before, 1, 250)
end

function case.what_is_overdue_does_not_wait_in_the_system()
  params.spin = "off"
  local now, before = process.now(), process.stats().idle_waits
  for i = 1, 1000 do process.sleep_until(now - 1 / i) end
  check.equal(process.stats().idle_waits, before)
end

function case.a_wait_of_an_hour_does_not_keep_from_what_comes_sooner()
  process.spawn({ daemon = true }, process.sleep, 3600)
  local timer = process.after(3600, error, "an hour is over")
  local pipe = io.popen "sleep 0.05; echo here"
  local reader = process.spawn(pipe.read, pipe, "l")
  check.results("a call that returns", { true, "here" }, reader:join(30))
  check.equal(process.sleep(0.01), true)
  timer:cancel()
end

-- Preemption must not have gone to sleep with the program. Each try begins with an idle that is well past the time after which the monitor parks. A busy machine
-- makes some of them late; a monitor that nobody calls any more, or that is called a tick late, makes all of them late.
function case.after_a_long_idle_the_first_slice_ends_in_time()
  at_best("seconds until an equal ran", params.slice + 0.001, function()
    process.sleep(0.03)
    local start, ran = process.now(), nil
    local equal = process.spawn(function() ran = process.now() end)
    while not ran do end
    equal:join()
    return ran - start
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
  -- On a busy machine ten milliseconds may pass before the next statement: such a timer has fired when it is cancelled.
  local fired = 0
  for i = 1, 1000 do process.after(0.01 + i * 1e-5, function() fired = fired + 1 end):cancel() end
  local before = process.stats().idle_waits
  process.sleep(0.1)
  check.within(process.stats().idle_waits - before, 0, 2 + fired) -- none if the time was over before the wait
  check.that(fired < 100, fired .. " of 1000 fired")
end

check.run(case)
