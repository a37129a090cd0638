-- Seven endless loops of equal priority, each inside another part of Lua: `fairness.lua seconds`.
-- Prints the name of each with its CPU seconds and its own count of turns.
local process = require "baton.process"
local seconds = tonumber(arg[1])

local loops = {}

local function spin(counter)
  while true do
    counter.turns = counter.turns + 1
  end
end

loops.plain = spin

function loops.pcall(counter)
  while true do
    pcall(spin, counter)
  end
end

function loops.sort(counter)
  table.sort({ 3, 1, 2 }, function()
    spin(counter)
  end)
end

function loops.gsub(counter)
  string.gsub("text", ".", function()
    spin(counter)
  end)
end

function loops.index(counter)
  local strange = setmetatable({}, {
    __index = function()
      spin(counter)
    end,
  })
  return strange.field
end

function loops.coroutine(counter)
  local co = coroutine.wrap(spin)
  co(counter)
end

function loops.hook(counter)
  debug.sethook(function()
    counter.hooks = counter.hooks + 1
  end, "", 1000)
  spin(counter)
end

local names = { "plain", "pcall", "sort", "gsub", "index", "coroutine", "hook" }
local list, counters = {}, {}
process.current():set_priority(60)
for i, name in ipairs(names) do
  counters[i] = { turns = 0, hooks = 0 }
  list[i] = process.spawn({ name = name, priority = 40, daemon = true }, loops[name], counters[i])
end
process.sleep(seconds)
for i, name in ipairs(names) do
  local cpu, turns = list[i]:stats().running, counters[i].turns
  print(string.format("%s %.6f %d", name, cpu, turns))
end
assert(counters[7].hooks > 0, "the user's hook never ran")
os.exit(0)
