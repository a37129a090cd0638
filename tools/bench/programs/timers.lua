-- The cost of a timer beside many others: `timers.lua count`. Prints nanoseconds of CPU time for
-- setting a timer, for cancelling it in random order, and for its expiry.
local process = require "baton.process"
local count = tonumber(arg[1])
local clock, random = os.clock, math.random

-- Each part begins without garbage of the part before.
local function time(name, f)
  collectgarbage()
  local start = clock()
  f()
  print(name, (clock() - start) / count * 1e9)
end

local function nothing() end
local timers = {}

time("set_ns", function()
  for i = 1, count do timers[i] = process.after(3600 + random(), nothing) end
end)

for i = count, 2, -1 do
  local other = random(i)
  timers[i], timers[other] = timers[other], timers[i]
end
time("cancel_ns", function()
  for i = 1, count do timers[i]:cancel() end
end)

-- All timers are due when other processes may run again.
local fired, start = 0, nil
local function fire() fired = fired + 1 end
collectgarbage()
process.critical(function()
  for i = 1, count do timers[i] = process.after(random() * 1e-6, fire) end
  start = clock()
end)
while fired < count do process.sleep(0.001) end
print("expire_ns", (clock() - start) / count * 1e9)
os.exit(0)
