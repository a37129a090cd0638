-- The median time of requests that wait four times, alone and beside two endless handlers.
local process = require "baton.process"

local function handler()
  while true do
  end
end

local function request()
  local began = process.now()
  for _ = 1, 4 do
    process.sleep(0.005)
  end
  return process.now() - began
end

local function median(handlers, decay)
  local beside, times = {}, {}
  for i = 1, handlers do
    beside[i] = process.spawn({ decay = decay, daemon = true }, handler)
  end
  process.sleep(0.1)
  for i = 1, 21 do
    times[i] = select(2, assert(process.spawn({ decay = true }, request):join()))
  end
  for _, p in ipairs(beside) do
    p:kill()
  end
  table.sort(times)
  return times[11]
end

local alone = median(0)
assert(alone >= 0.02)
local behind, beside = median(2, false), median(2, true)
assert(behind > 1.3 * alone, "equals that compute do not delay the requests: " .. behind)
assert(beside <= 1.3 * alone, "handlers that have sunk delay the requests: " .. beside)
assert(process.spawn({ decay = true }, function() return process.current():priority() end):join())
print("ok")
