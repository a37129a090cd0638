-- The lateness of sleeps: `delay.lua seconds count [busy]`. With `busy`, three endless loops run
-- beside the sleeping process, which has a higher priority. Prints every lateness in microseconds,
-- and the seconds that all sleeps took together.
local process = require "baton.process"
local seconds, count = tonumber(arg[1]), tonumber(arg[2])
local now, sleep = process.now, process.sleep

if arg[3] == "busy" then
  for _ = 1, 3 do process.spawn({ daemon = true }, function() while true do end end) end
  process.current():set_priority(60)
end

local late = {}
local start = now()
for i = 1, count do
  local before = now()
  sleep(seconds)
  late[i] = (now() - before - seconds) * 1e6
end
local took = now() - start
for i = 1, count do late[i] = string.format("%.2f", late[i]) end
print("took_s", took)
print("late_us " .. table.concat(late, " "))
os.exit(0)
