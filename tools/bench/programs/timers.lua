-- What a timer costs beside so many others: `timers.lua count`. Prints nanoseconds of CPU time for each timer set, cancelled in random order, and expired.
local process = require "baton.process"
local count = tonumber(arg[1])
local clock, random = os.clock, math.random

-- Each part begins without the last one's garbage.
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

-- All are due by the time when others may run again.
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
