-- The lateness of an urgent process that sleeps 1 ms at a time: `latency.lua seconds fifo
-- beside...`. Beside it may run `loop`, `execute`, `popen` and `fifo`. Prints every lateness in
-- microseconds.
local process = require "baton.process"
local seconds, fifo = tonumber(arg[1]), arg[2]
local now, sleep = process.now, process.sleep

local calls = 0
local beside = {}

function beside.loop()
  local turns = 0
  while true do
    turns = turns + 1
  end
end

function beside.execute()
  while true do
    os.execute("sleep 0.01")
    calls = calls + 1
  end
end

function beside.popen()
  while true do
    local pipe = io.popen("sleep 0.01")
    pipe:read("a")
    pipe:close()
    calls = calls + 1
  end
end

-- Another program writes a byte every 10 ms.
function beside.fifo()
  local file = assert(io.open(fifo, "rb"))
  file:setvbuf("no")
  while true do
    file:read(1)
    calls = calls + 1
  end
end

for i = 3, #arg do
  process.spawn({ daemon = true, name = arg[i] }, beside[arg[i]])
end

local late = {}
local ticker = process.spawn({ priority = 60, name = "ticker" }, function()
  sleep(0.1)
  local stop = now() + seconds
  while true do
    local before = now()
    if before >= stop then
      return
    end
    sleep(0.001)
    late[#late + 1] = string.format("%.1f", (now() - before - 0.001) * 1e6)
  end
end)
assert(ticker:join())
print("calls", calls)
print("late_us " .. table.concat(late, " "))
os.exit(0)
