-- One test of Thread-Metric in Lua: `thread_metric.lua test seconds`. Prints the counts, the
-- interval and the CPU time. Fails if a check fails.
local process = require "baton.process"
local test, seconds = arg[1], tonumber(arg[2])
local counters = {}

-- Checks the counters of processes that take turns. Each must be within one of the mean, and none
-- may be zero.
local function check(n)
  local sum = 0
  for i = 1, n do sum = sum + counters[i] end
  for i = 1, n do
    assert(counters[i] > 0, "a process never ran")
    assert(math.abs(counters[i] - sum / n) <= 1, "counters are more than one from their mean")
  end
end

local function endless(priority, suspended, f)
  return process.spawn({ priority = priority, suspended = suspended, daemon = true }, f)
end

-- One process that repeats a function. Returns the number of counters.
local function counting(f)
  endless(40, false, function()
    counters[1] = 0
    while true do
      f()
      counters[1] = counters[1] + 1
    end
  end)
  return 1
end

local tests = {}

function tests.basic()
  local words, passes = {}, 0
  for i = 1, 1024 do words[i] = 0 end
  return counting(function()
    for i = 1, 1024 do words[i] = (words[i] + passes) ~ words[i] end
    passes = passes + 1
  end)
end

function tests.cooperative()
  local yield = process.yield
  for i = 1, 5 do
    counters[i] = 0
    endless(40, false, function()
      while true do
        yield()
        counters[i] = counters[i] + 1
      end
    end)
  end
  return 5
end

function tests.preemptive()
  local suspend, next_one = process.suspend, nil
  for i = 5, 1, -1 do
    local wakes = next_one
    counters[i] = 0
    next_one = endless(10 * i, i > 1, function()
      while true do
        if wakes then wakes:resume() end
        counters[i] = counters[i] + 1
        if i > 1 then suspend() end
      end
    end)
  end
  return 5
end

function tests.message()
  local channel, sent = process.channel(10), 0
  return counting(function()
    local message = string.pack("<i8i8", sent, ~sent)
    channel:send(message)
    local first, second = string.unpack("<i8i8", channel:receive())
    assert(first == sent and second == ~sent, "a message is not what was sent")
    sent = sent + 1
  end)
end

function tests.synchronization()
  local semaphore = process.semaphore(1)
  return counting(function()
    semaphore:wait()
    semaphore:signal()
  end)
end

-- A table with room for four values takes 120 bytes, which the collector frees.
function tests.memory()
  local last
  return counting(function() last = { 1, 2, 3, 4 } end)
end

process.main:set_priority(79)
process.params.slice = 3600 -- turns end at yields only
local begin = process.now()
local n = tests[test]()
process.sleep_until(begin + seconds)
check(n)
local sum = 0
for i = 1, n do sum = sum + counters[i] end
print("counts", sum)
print("seconds", process.now() - begin)
print("cpu", os.clock())
