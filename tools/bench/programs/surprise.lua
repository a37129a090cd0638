-- The lateness of an urgent process that becomes due during a C call that the runtime could not
-- foresee: `surprise.lua seconds directory`. Prints every lateness in microseconds, the number of
-- calls, and the window in microseconds.
local process = require "baton.process"
local seconds, directory = tonumber(arg[1]), arg[2]
local now, sleep_until = process.now, process.sleep_until

-- The runtime does not learn a module's C functions. So it makes each call on the process's thread.
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
