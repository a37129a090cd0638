-- Spinning before a wait in the system, as a program observes it.
local check = require "check"
local process = require "baton.process"
local params = process.params
local case = {}

-- Returns how much the counters grow while f runs.
local function growth(f)
  local before = process.stats()
  f()
  local grown = process.stats()
  for name, value in pairs(grown) do grown[name] = value - before[name] end
  return grown
end

local function sleep_often()
  for _ = 1, 10 do process.sleep(0.001) end
end

function case.off_parks_for_every_wait_and_spins_for_none()
  params.spin = "off"
  local grown = growth(sleep_often)
  check.within(grown.idle_waits, 1, 1000)
  check.equal(grown.spin_time, 0)
  for _, name in ipairs { "spins_hit", "spins_failed", "parks_long", "parks_short" } do
    check.equal(grown[name], 0, name)
  end
end

function case.ema_spins_for_waits_that_are_shorter_than_its_limit()
  params.spin, params.busy_loop_for = "ema", 1
  local grown = growth(sleep_often)
  -- On a very busy machine, a deadline may pass before the wait. Then there is no spin, only a
  -- poll, or not even that.
  check.within(grown.spins_failed, 1, 10)
  check.within(grown.spins_failed + grown.idle_waits, 1, 10)
  check.equal(grown.spins_hit, 0, "a timer is nobody who came")
  check.within(grown.spin_time, 1e-6, 0.011)
end

function case.ema_with_a_limit_of_zero_parks()
  params.spin, params.busy_loop_for = "ema", 0
  local grown = growth(sleep_often)
  check.equal(grown.spin_time, 0)
  check.within(grown.parks_long, 1, 1000)
end

function case.learned_does_not_spin_for_timers()
  local grown = growth(sleep_often)
  check.equal(grown.spin_time, 0)
  check.within(grown.idle_waits, 1, 1000)
end

function case.learned_without_a_budget_does_not_spin()
  params.spin_budget = 0
  local grown = growth(function() require "idle.short_waits"(500) end)
  check.equal(grown.spin_time, 0)
  check.equal(process.stats().spin_budget_left, 0)
end

function case.every_spin_and_every_park_is_counted_once()
  params.spin, params.busy_loop_for = "ema", 0.01
  local grown = growth(function() require "idle.short_waits"(500) end)
  check.that(
    grown.spins_failed + grown.parks_long + grown.parks_short
      <= grown.idle_waits + grown.spins_hit + grown.spins_failed
  )
  check.that(grown.spin_time > 0, "it spins")
  check.within(grown.spins_hit + grown.spins_failed, 1, math.maxinteger)
end

check.run(case)
