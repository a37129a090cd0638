-- Runs one file of the behaviour suite: driver.lua MODE FILE. Ends with "ok FILE COUNT".
--
-- plain      in the main program, as any Lua runs it
-- preempted  the same, in slices of 100 us beside three busy processes
-- spawned    in a process of its own, preempted likewise
-- crowd      in four processes of the same VM at once; not for files about state that exists
--            once per VM
local assertions = require "behaviour.assertions"

local mode, file = arg[1], arg[2]
local here = arg[0]:match "^(.*)/[^/]*$"

-- Each run has its own globals, so runs of the same file do not see each other's.
local function run()
  local env = setmetatable({}, { __index = _G })
  local chunk = assert(loadfile(here .. "/" .. file .. ".lua", "t", env))
  local t = assertions.new()
  chunk(t)
  return t:finish(file)
end

local function beside_busy_processes(process)
  process.params.slice = 0.0001
  for _ = 1, 3 do
    process.spawn({ daemon = true }, function() while true do end end)
  end
end

local function joined(p)
  local ok, count = p:join()
  if not ok then error(count, 0) end
  return count
end

local modes = {}

function modes.plain() return run() end

function modes.preempted()
  beside_busy_processes(require "baton.process")
  return run()
end

function modes.spawned()
  local process = require "baton.process"
  beside_busy_processes(process)
  return joined(process.spawn(run))
end

function modes.crowd()
  local process = require "baton.process"
  process.params.slice = 0.0001
  local crowd, least = {}, math.huge
  for i = 1, 4 do crowd[i] = process.spawn(run) end
  for i = 1, 4 do least = math.min(least, joined(crowd[i])) end
  return least
end

local count = (modes[mode] or error("no such mode: " .. tostring(mode)))()
if mode == "preempted" or mode == "crowd" then
  local stats = require("baton.process").stats()
  io.write("preemptions ", stats.preemptions_by_slice, "\n")
end
io.write("ok ", file, " ", count, "\n")
