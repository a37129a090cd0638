-- Check, then act: what was checked is no longer true when the process acts.
local process = require "baton.process"

local tickets, all = 1, {}
local function sell()
  if tickets > 0 then tickets = tickets - 1 end
end
for i = 1, 2 do all[i] = process.spawn(sell) end
for _, p in ipairs(all) do p:join() end
assert(tickets >= 0, "more was sold than there was")
