-- Lateness of an urgent process that becomes due during a call of C that nobody could foresee: `surprise.lua seconds directory`.
-- Prints every lateness in microseconds, how many calls were made, and the window, in microseconds too.
local process = require "baton.process"
local seconds, directory = tonumber(arg[1]), arg[2]
local now, sleep_until = process.now, process.sleep_until

-- A C function of a module is never learned: each call is made where the process is.
package.cpath = directory .. "/?.so"
local call = require("calls").sleep
process.concurrent("calls", "concurrent")

local LENGTH = 3000 -- of a call, in microseconds

local before_a_call = process.semaphore()
local late = {}
process.spawn({ priority = 60, daemon = true, name = "urgent" }, function()
  while true do
    before_a_call:wait()
    local due = now() + (0.3 + 2 * math.random()) * 1e-3
    sleep_until(due)
    late[#late + 1] = string.format("%.1f", (now() - due) * 1e6)
  end
end)

local calls, stop = 0, now() + seconds
while now() < stop do
  before_a_call:signal()
  call(LENGTH)
  calls = calls + 1
end
print("calls", calls)
print("window_us", process.params.window * 1e6)
print("late_us " .. table.concat(late, " "))
os.exit(0)
