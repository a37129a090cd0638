-- A generator of ids that reads the counter twice.
local process = require "baton.process"

local last = 0
local function new_id()
  last = last + 1
  return last
end
local seen, all = {}, {}
local function use()
  local id = new_id()
  assert(not seen[id], "an id was given twice")
  seen[id] = true
end
for i = 1, 3 do all[i] = process.spawn(use) end
for _, p in ipairs(all) do assert(p:join()) end
