-- Priority inheritance: a process that holds an object runs with the priority of the most urgent
-- process that waits for it.
local check = require "check"
local process = require "baton.process"
local case = {}

-- Processes that compute for ever at a priority, so no less urgent process runs. A process that
-- runs nevertheless has inherited a priority.
local function burner(priority)
  local burns = true
  local p = process.spawn({ priority = priority, suspended = true, daemon = true }, function()
    while burns do end
  end)
  return p, function() burns = false end
end

-- Spawns a process of this priority that locks the mutexes in order, and calls f once it is
-- resumed.
local function holder(priority, mutexes, f)
  local p = process.spawn({ priority = priority }, function()
    for _, m in ipairs(mutexes) do m:lock() end
    process.suspend()
    if f then f() end
    for i = #mutexes, 1, -1 do mutexes[i]:unlock() end
  end)
  check.becomes(p, "suspended")
  return p
end

-- Runs f at the highest priority, while a process of middle priority occupies the processor below
-- it.
local function with_burner(f)
  local p, stop = burner(50)
  local urgent = process.spawn({ priority = 60, suspended = true }, f)
  process.critical(function()
    p:resume()
    urgent:resume()
  end)
  -- The main process continues here when both wait, or at the end.
  local results = table.pack(urgent:join())
  stop()
  assert(p:join())
  return table.unpack(results, 1, results.n)
end

-- The main process must get the processor from a burner.
process.main:set_priority(70)

function case.a_holder_runs_before_the_middle()
  local m = process.mutex()
  local low = holder(10, { m })
  check.results("urgent", { true, true }, with_burner(function()
    low:resume()
    return (m:lock())
  end))
end

function case.a_chain_of_holders_runs_before_the_middle()
  local first, second, third = process.mutex(), process.mutex(), process.mutex()
  local a = holder(10, { first })
  local b = holder(20, { second }, function() first:with(function() end) end)
  local c = holder(30, { third }, function() second:with(function() end) end)
  check.results("urgent", { true, true }, with_burner(function()
    for _, p in ipairs { a, b, c } do p:resume() end
    return (third:lock())
  end))
end

function case.a_holder_gives_back_what_it_inherited_when_it_unlocks()
  local m, log = process.mutex(), {}
  local low = process.spawn({ priority = 10 }, function()
    m:lock()
    process.suspend()
    log[#log + 1] = "low, inside"
    m:unlock()
    log[#log + 1] = "low, outside"
  end)
  check.becomes(low, "suspended")
  local middle = process.spawn(
    { priority = 50, suspended = true },
    function() log[#log + 1] = "middle" end
  )
  local high = process.spawn({ priority = 60, suspended = true }, function()
    low:resume()
    middle:resume()
    m:lock()
    log[#log + 1] = "high"
    m:unlock()
  end)
  high:resume()
  for _, p in ipairs { high, middle, low } do check.that(p:join()) end
  check.list(log, { "low, inside", "high", "middle", "low, outside" })
end

function case.a_holder_gives_back_what_it_inherited_when_the_waiter_gives_up()
  local m, ran = process.mutex(), false
  local low = holder(10, { m }, function() while not ran do end end)
  local high = process.spawn({ priority = 60 }, function() return m:lock(0.01) end)
  low:resume()
  check.results("high", { n = 3, true, nil, "timeout" }, high:join())
  -- It spins at priority 10 again, so the middle one runs first.
  check.that(process.spawn({ priority = 50 }, function() ran = true end):join())
  check.that(low:join())
end

function case.a_holder_gives_back_what_it_inherited_when_the_waiter_is_killed()
  local m, ran = process.mutex(), false
  local low = holder(10, { m }, function() while not ran do end end)
  local high = process.spawn({ priority = 60 }, m.lock, m)
  check.becomes(high, "waiting")
  low:resume()
  high:kill()
  check.results("high", { false, "killed" }, high:join())
  check.that(process.spawn({ priority = 50 }, function() ran = true end):join())
  check.that(low:join())
end

function case.a_killed_holder_passes_the_mutex_on()
  local m = process.mutex()
  local low = holder(10, { m })
  check.results("urgent", { true, true, "abandoned" }, with_burner(function()
    low:kill()
    return m:lock()
  end))
end

function case.a_priority_that_is_set_meanwhile_counts_after()
  local m, log = process.mutex(), {}
  local low = holder(10, { m })
  local high = process.spawn({ priority = 60 }, m.lock, m)
  check.becomes(high, "waiting")
  check.equal(low:priority(), 10)
  low:set_priority(20)
  check.equal(low:priority(), 20)
  high:set_priority(65)
  local p, stop = burner(62)
  process.spawn({ priority = 66, daemon = true }, function()
    p:resume()
    low:resume()
    high:join()
    stop()
  end)
  check.results("high", { true, true }, high:join())
  check.that(p:join())
  check.that(low:join())
end

function case.a_holder_of_two_locks_keeps_the_priority_inherited_through_the_other()
  local a, b, log = process.mutex(), process.mutex(), {}
  local low = process.spawn({ priority = 10 }, function()
    a:lock()
    b:lock()
    process.suspend()
    b:unlock()
    log[#log + 1] = "low"
    a:unlock()
  end)
  check.becomes(low, "suspended")
  local function locker(priority, mutex, name)
    local p = process.spawn({ priority = priority }, function()
      mutex:lock()
      log[#log + 1] = name
      mutex:unlock()
    end)
    check.becomes(p, "waiting")
    return p
  end
  local all = { locker(55, a, "of a"), locker(60, b, "of b"), low }
  all[4] = process.spawn(
    { priority = 50, suspended = true },
    function() log[#log + 1] = "middle" end
  )
  process.critical(function()
    all[4]:resume()
    low:resume()
  end)
  for _, p in ipairs(all) do check.that(p:join()) end
  check.list(log, { "of b", "low", "of a", "middle" })
end

function case.a_ring_of_holders_can_be_broken()
  local a, b = process.mutex(), process.mutex()
  local p = holder(10, { a }, function() -- the timeout prevents the warning about a cycle
    b:lock(1e6)
    b:unlock()
  end)
  local q = holder(20, { b }, function() a:with(function() end) end)
  p:resume()
  q:resume()
  check.becomes(p, "waiting")
  check.becomes(q, "waiting")
  p:set_priority(30)
  q:kill()
  check.that(p:join())
  check.equal(q:join(), false)
end

check.run(case)
