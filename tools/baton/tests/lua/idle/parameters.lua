-- The parameters: initial values, valid values, and the effect of a change.
local check = require "check"
local process = require "baton.process"
local params = process.params
local case = {}

function case.every_parameter_has_its_default()
  local defaults = {
    slice = 0.010, beat = 0, window = 0.0001, spin = "learned", busy_loop_for = 0.002,
    spin_budget = 0.01, timer_slack = 0,
    thread_idle = 10, warn_blocked = 0.1, stack_size = 1 << 20, preemptive = true,
    deadlock = "warn", flight = 0, shield = 5,
  }
  for name, value in pairs(params) do
    if name == "max_threads" then
      check.that(value >= 64)
    else
      check.equal(value, defaults[name], name)
      defaults[name] = nil
    end
  end
  check.equal(next(defaults), nil, "no parameter is missing")
end

function case.every_parameter_can_be_set_to_what_it_is()
  for name, value in pairs(params) do params[name] = value end
  for name, value in pairs {
    slice = 0.25,
    beat = 0.002,
    spin = "ema",
    busy_loop_for = 0,
    spin_budget = 1,
    timer_slack = 0.5,
  } do
    params[name] = value
    check.equal(params[name], value, name)
  end
end

function case.a_value_out_of_range_is_refused_with_the_range_and_changes_nothing()
  local low_and_high = {
    slice = { 0.00005, 3600 }, busy_loop_for = { 0, 1 }, spin_budget = { 0, 1 },
    timer_slack = { 0, 3600 }, max_threads = { 1, 30000 }, thread_idle = { 0, 2592000 },
    stack_size = { 65536, 4294967296 },
    warn_blocked = { 0.001, 2592000 }, shield = { 0, 3600 },
  }
  for name, range in pairs(low_and_high) do
    local before = params[name]
    local expected =
      ("parameter '%s': value out of range: from %%S+ to %%S+.* expected, got"):format(name)
    for _, wrong in ipairs { range[1] - 1, range[2] + 1, 0 / 0, 1 / 0, -1 / 0 } do
      check.raises(expected, function() params[name] = wrong end)
    end
    check.equal(params[name], before)
    for _, bound in ipairs(range) do params[name] = bound end
  end
end

function case.a_beat_and_a_window_are_zero_or_not_too_short()
  for name, shortest in pairs { beat = 0.00005, window = 0.00001 } do
    local before = params[name]
    local expected = ("'%s': value out of range: from %.5f to 3600 seconds, or 0 expected"):format(
      name,
      shortest
    )
    for _, wrong in ipairs { -1, shortest / 2, 3601, 0 / 0 } do
      check.raises(expected, function() params[name] = wrong end)
    end
    check.equal(params[name], before)
    for _, right in ipairs { 0, shortest, 3600 } do
      params[name] = right
      check.equal(params[name], right)
    end
  end
end

function case.an_unknown_policy_is_refused_and_the_known_ones_are_named()
  for _, wrong in ipairs { "always", "", "Learned", "off\0" } do
    local expected = "parameter 'spin': 'off', 'ema' or 'learned' expected, got"
    if wrong == "off\0" then expected = "string contains zeros" end
    check.raises(expected, function() params.spin = wrong end)
  end
  check.equal(params.spin, "learned")
end

function case.values_of_another_type_are_refused()
  check.raises("'spin': string expected, got boolean", function() params.spin = false end)
  check.raises("'slice': number expected, got string", function() params.slice = "1" end)
  check.raises("'preemptive': boolean expected, got number", function() params.preemptive = 1 end)
  check.raises("'max_threads': whole number expected", function() params.max_threads = 64.5 end)
  check.raises("unknown parameter 'spinn'", function() params.spinn = "off" end)
  check.raises("unknown parameter 'spinn'", function() return params.spinn end)
end

-- No other process needs a native thread.
function case.a_fixed_beat_beats_and_stops()
  params.beat = 0.001
  local before = process.stats().beats
  while process.stats().beats < before + 5 do end
  params.beat = 0
  -- One that had started when the parameter was set may still arrive.
  local last
  check.eventually("it stops", function()
    local before = last
    last = process.stats().beats
    return before == last
  end)
end

-- Each of these sleeps would otherwise be a wait of its own.
function case.deadlines_within_the_slack_are_met_together()
  params.spin, params.timer_slack = "off", 0.2
  local all, start, before = {}, process.now() + 0.05, process.stats().idle_waits
  for i = 1, 10 do
    all[i] = process.spawn(function()
      process.sleep_until(start + i * 0.01)
      check.that(process.now() >= start + i * 0.01, "not early")
    end)
  end
  for _, p in ipairs(all) do check.equal(p:join(), true) end
  -- none if all deadlines passed before the wait, on a busy machine
  check.within(process.stats().idle_waits - before, 0, 3)
end

check.run(case)
