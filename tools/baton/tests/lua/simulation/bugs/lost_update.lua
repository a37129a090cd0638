-- Lost update: the counter is read and written, and another process may write it in between.
local process = require "baton.process"

local count, all = 0, {}
local function add()
  local before = count
  count = before + 1
end
for i = 1, 3 do all[i] = process.spawn(add) end
for _, p in ipairs(all) do p:join() end
assert(count == 3, "an update is lost")
