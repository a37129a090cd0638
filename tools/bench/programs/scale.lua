-- Many sleeping processes: `scale.lua kill|release n`. Prints microseconds for each process, memory
-- in KiB, and pauses in milliseconds.
local process = require "baton.process"
local ending, n = arg[1], tonumber(arg[2])
local now, spawn = process.now, process.spawn

local function read_status()
  local found = {}
  for line in io.lines("/proc/self/status") do
    local name, value = line:match("^(Vm%w+):%s+(%d+) kB")
    if name then
      found[name] = tonumber(value)
    end
  end
  return found.VmRSS, found.VmPTE
end

local function proportional()
  local file = io.open("/proc/self/smaps_rollup")
  if not file then
    return 0
  end
  local text = file:read("a")
  file:close()
  return tonumber(text:match("\nPss:%s+(%d+) kB")) or 0
end

local function last_in_line()
  assert(spawn(function() end):join())
end

-- Spawning is complete when every process sleeps. The process that is spawned last runs after all
-- others of its priority.
local released = process.event()
local function sleeper()
  if ending == "kill" then
    process.sleep(36000)
  else
    released:wait(36000)
  end
end

local asleep = { sleeping = true, waiting = true }
local list, looked = {}, 0
local function all_are(states)
  while looked < n do
    if not states[list[looked + 1]:status()] then
      return false
    end
    looked = looked + 1
  end
  return true
end

collectgarbage()
local base_rss, base_pte = read_status()
print("base_kib", base_rss + base_pte)
local start = now()
for i = 1, n do
  list[i] = spawn(sleeper)
end
local called = now()
last_in_line()
local settled = now()
while not all_are(asleep) do
  process.sleep(0.001)
  settled = now()
end
print("spawn_call_us", (called - start) / n * 1e6)
print("spawn_us", (settled - start) / n * 1e6)

local rss, pte = read_status()
print("rss_kib", rss)
print("pte_kib", pte)
print("pss_kib", proportional())

-- The longest single step of the collector, and the lateness of an urgent ticker beside it.
local late, ticking = 0, true
local ticker = spawn({ priority = 60 }, function()
  while ticking do
    local due = now() + 0.001
    process.sleep_until(due)
    late = math.max(late, now() - due)
  end
end)

local function timed(f, ...)
  local began = now()
  local result = f(...)
  return now() - began, result
end

process.sleep(0.05)
late = 0
local young, mode = 0, collectgarbage("incremental")
collectgarbage(mode)
if mode == "generational" then
  for _ = 1, 3 do
    young = math.max(young, (timed(collectgarbage, "step", 0)))
  end
  process.sleep(0.01)
end
print("pause_young_ms", young * 1e3)
print("late_young_ms", late * 1e3)

collectgarbage("incremental")
process.sleep(0.01)
late = 0
local longest, finished = 0, false
while not finished do
  local lasted
  lasted, finished = timed(collectgarbage, "step", 0)
  longest = math.max(longest, lasted)
end
process.sleep(0.01)
print("pause_step_ms", longest * 1e3)
print("late_step_ms", late * 1e3)
print("pause_full_ms", (timed(collectgarbage)) * 1e3)
collectgarbage(mode)
ticking = false
ticker:join()

looked = 0
start = now()
if ending == "kill" then
  for i = 1, n do
    list[i]:kill()
  end
else
  released:set()
end
last_in_line()
local ended = now()
while not all_are { dead = true } do
  process.sleep(0.001)
  ended = now()
end
print("end_us", (ended - start) / n * 1e6)
list = nil
collectgarbage()
local after_rss, after_pte = read_status()
print("after_kib", after_rss + after_pte)
