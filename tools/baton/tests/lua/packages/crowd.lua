-- Runs several copies of a program of this directory in processes of their own, beside a ticking
-- process: crowd.lua NAME [SLICE]. All must print the same, which is written once.
local process = require "baton.process"
local kit = require "packages.kit"

local COPIES = 4

function kit.together(...)
  local tasks = {}
  for i, f in ipairs { ... } do tasks[i] = process.spawn({ quiet = true }, f) end
  for _, task in ipairs(tasks) do
    local ok, why = task:join()
    if not ok then error(("%s\n%s"):format(why, task:traceback()), 0) end
  end
end

kit.pause = process.yield

local one_at_a_time = process.mutex()

function kit.alone(f) one_at_a_time:with(f) end

-- The time that a call waits for a disk or a child is not tested.
process.params.warn_blocked = 60
if arg[2] then process.params.slice = tonumber(arg[2]) end

local body = kit.load(arg[1])
local copies = {}
for i = 1, COPIES do
  copies[i] = process.spawn({ name = arg[1] .. i }, function()
    local lines = {}
    body(kit.instance(i, function(line) lines[#lines + 1] = line end))
    return table.concat(lines, "\n")
  end)
end

local ticks = 0
process.spawn({ daemon = true, priority = 60, name = "ticker" }, function()
  while true do
    process.sleep(0.001)
    ticks = ticks + 1
  end
end)

local texts = {}
for i = 1, COPIES do
  local ok, text = copies[i]:join()
  if not ok then
    io.stderr:write(copies[i].name, ": ", tostring(text), "\n", copies[i]:traceback(), "\n")
    os.exit(1)
  end
  texts[i] = text
end
for i = 2, COPIES do
  if texts[i] ~= texts[1] then
    error("copy " .. i .. " said\n" .. texts[i] .. "\nand the first one\n" .. texts[1])
  end
end

-- Even if the module changed timers, signals or threads, a sleeping process still wakes up.
local before = ticks
while ticks < before + 3 do process.sleep(0.001) end
print(texts[1])
