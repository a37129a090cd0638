-- Priority inversion: a semaphore lends no priority to its holder. An urgent process waits for one
-- of low priority, which is preempted by a busy equal.
local process = require "baton.process"

local permit = process.semaphore(1)
local function work(steps) for _ = 1, steps do end end
local low = process.spawn({ priority = 10, name = "low" }, function()
  for _ = 1, 30 do
    permit:wait()
    work(100)
    permit:signal()
  end
end)
local busy = process.spawn({ priority = 10, name = "busy" }, work, 20000)
local urgent = process.spawn({ priority = 60, name = "urgent" }, function()
  for _ = 1, 5 do
    process.sleep(0.0005)
    assert(permit:wait(0.002), "the urgent process waited for too long")
    permit:signal()
  end
end)
assert(urgent:join())
low:join()
busy:join()
