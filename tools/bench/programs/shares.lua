-- How processes share the CPU: `shares.lua equal N SLICE ROUNDS`, or `shares.lua mixed SECONDS`.
-- Prints the CPU seconds of each process: `cpu 1.0 1.0 ...`, and for mixed priorities also `urgent
-- 0.1 0.1 ...`.
local process = require "baton.process"

local function spin()
  while true do end
end

local function cpu_of(list)
  local seconds = {}
  for i, p in ipairs(list) do seconds[i] = p:stats().running end
  return seconds
end

-- The CPU time of each process during a sleep. All processes begin before the first reading.
local function used(seconds, ...)
  local before, after, start = {}, {}, process.now()
  for k, list in ipairs { ... } do before[k] = cpu_of(list) end
  process.sleep_until(start + seconds)
  for k, list in ipairs { ... } do
    after[k] = cpu_of(list)
    for i in ipairs(list) do after[k][i] = after[k][i] - before[k][i] end
  end
  return table.unpack(after)
end

local function print_figures(name, seconds)
  for i, s in ipairs(seconds) do seconds[i] = ("%.9f"):format(s) end
  print(name, table.concat(seconds, " "))
end

local function spawn(number, priority, f, ...)
  local list = {}
  for i = 1, number do list[i] = process.spawn({ priority = priority, daemon = true }, f, ...) end
  return list
end

process.current():set_priority(60)
if arg[1] == "equal" then
  local number, slice, rounds = tonumber(arg[2]), tonumber(arg[3]), tonumber(arg[4])
  process.params.slice = slice
  local list = spawn(number, 40, spin)
  process.sleep(slice * number)
  print_figures("cpu", (used(slice * number * rounds, list)))
else
  -- Four endless loops, and two processes of higher priority that work for 5 ms and then sleep for
  -- 45 ms, again and again.
  local seconds = tonumber(arg[2])
  local endless = spawn(4, 40, spin)
  local urgent = spawn(2, 50, function()
    local me = process.current()
    while true do
      local enough = me:stats().running + 0.005
      while me:stats().running < enough do end
      process.sleep(0.045)
    end
  end)
  process.sleep(0.05)
  local of_endless, of_urgent = used(seconds, endless, urgent)
  print_figures("cpu", of_endless)
  print_figures("urgent", of_urgent)
end
os.exit(0)
