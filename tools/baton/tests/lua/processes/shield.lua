-- process.shield: a kill that comes meanwhile takes effect afterwards.
local check = require "check"
local process = require "baton.process"
local case = {}

-- Starts a process that calls `f` in a shield, and then notes that it went on.
local function shielded(f)
  local seen = {}
  local p = process.spawn({ quiet = true }, function()
    seen.result = process.shield(f)
    seen.went_on = true
  end)
  return p, seen
end

function case.arguments_and_results_pass()
  check.results(
    "results",
    { n = 3, 1, nil, "x" },
    process.shield(function(...) return ... end, 1, nil, "x")
  )
  check.raises("function expected, got no value", process.shield)
end

function case.others_run_and_a_kill_waits()
  local gate, done = process.event(), false
  local p, seen = shielded(function()
    gate:wait()
    done = true
  end)
  check.becomes(p, "waiting")
  p:kill "enough"
  check.results("it waits on", { nil, "timeout" }, p:join(0.02))
  gate:set()
  check.results("killed", { false, "enough" }, p:join())
  check.that(done)
  check.equal(seen.went_on, nil)
end

function case.a_kill_of_oneself_takes_effect_after_the_shield()
  local done
  local p, seen = shielded(function()
    process.current():kill "myself"
    process.sleep(0.001)
    done = true
  end)
  check.results("killed", { false, "myself" }, p:join())
  check.that(done)
  check.equal(seen.went_on, nil)
end

function case.a_second_kill_ends_it()
  local before = process.stats()
  local p, seen = shielded(function() process.event():wait() end)
  check.becomes(p, "waiting")
  p:kill "first"
  p:kill "second"
  check.results("killed", { false, "first" }, p:join())
  check.equal(seen.went_on, nil)
  local after = process.stats()
  check.equal(after.kills_held - before.kills_held, 1)
  check.equal(after.holds_cut - before.holds_cut, 1)
end

function case.its_time_is_limited_by_the_parameter()
  process.params.shield = 0.05
  local closed
  local p = shielded(function()
    local _ <close> = setmetatable({}, { __close = function() closed = true end })
    process.event():wait()
  end)
  check.becomes(p, "waiting")
  local begun = process.now()
  p:kill "late"
  check.results("killed", { false, "late" }, p:join())
  check.within(process.now() - begun, 0.05, 5)
  check.that(closed)
end

function case.the_time_does_not_count_without_a_kill()
  process.params.shield = 0.02
  local p, seen = shielded(function()
    process.sleep(0.1)
    return "whole"
  end)
  check.that((p:join()))
  check.equal(seen.result, "whole")
end

function case.a_close_method_after_a_shield_has_its_own_time()
  process.params.shield = 0.02
  local closed
  local p = process.spawn({ quiet = true }, function()
    local _ <close> = setmetatable({}, {
      __close = function()
        process.sleep(0.1)
        closed = true
      end,
    })
    process.shield(process.sleep, 0.01)
  end)
  check.becomes(p, "sleeping")
  p:kill()
  check.results("killed", { false, "killed" }, p:join())
  check.that(closed, "the watcher does not kill again after the shield")
end

function case.shields_in_a_close_method_have_their_own_time()
  process.params.shield = 0.2
  local done = {}
  local function slowly(number)
    process.sleep(0.12)
    done[number] = true
  end
  local p = process.spawn({ quiet = true }, function()
    local _ <close> = setmetatable({}, { __close = function() process.shield(slowly, 2) end })
    process.shield(slowly, 1)
  end)
  check.becomes(p, "sleeping")
  p:kill()
  check.results("killed", { false, "killed" }, p:join())
  check.list(done, { true, true })
end

function case.a_shield_that_begins_after_the_kill_has_a_limit_too()
  process.params.shield = 0.05
  local p = process.spawn({ quiet = true }, function()
    local _ <close> = setmetatable({}, {
      __close = function()
        process.shield(function() process.event():wait() end)
      end,
    })
    process.event():wait()
  end)
  check.becomes(p, "waiting")
  p:kill()
  check.results("killed", { false, "killed" }, p:join(10))
end

function case.an_error_ends_it_and_is_raised()
  local p = process.spawn({ quiet = true }, function()
    pcall(process.shield, error, "in the shield")
    process.event():wait()
  end)
  check.becomes(p, "waiting")
  p:kill()
  check.results("killed", { false, "killed" }, p:join(1))
end

function case.shields_nest()
  local inner, outer = process.event(), process.event()
  local done = {}
  local p = shielded(function()
    process.shield(function()
      inner:wait()
      done[1] = true
    end)
    outer:wait()
    done[2] = true
  end)
  check.becomes(p, "waiting")
  p:kill()
  inner:set()
  check.results("it waits on", { nil, "timeout" }, p:join(0.02))
  outer:set()
  p:join()
  check.list(done, { true, true })
end

function case.a_failed_link_waits_too()
  local gate, done = process.event(), false
  local p = shielded(function()
    gate:wait()
    done = true
  end)
  check.becomes(p, "waiting")
  local other = process.spawn({ quiet = true }, error, "broken")
  other:link(p)
  other:join()
  gate:set()
  check.equal((p:join()), false)
  check.that(done)
end

function case.the_end_of_the_program_is_not_held_up()
  process.params.shield = 0.05
  process.spawn({ daemon = true }, process.shield, function() process.event():wait() end)
  process.yield()
end

check.run(case)
