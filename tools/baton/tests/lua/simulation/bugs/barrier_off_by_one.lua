-- A barrier for too few: it is made for two of four processes. So a pair may go on before the
-- others have written.
local process = require "baton.process"

local barrier, written, all = process.barrier(2), {}, {}
local function work(number)
  written[number] = true
  process.yield()
  barrier:wait()
  for i = 1, 4 do assert(written[i], "a process went on too early") end
end
for i = 1, 4 do all[i] = process.spawn(work, i) end
for _, p in ipairs(all) do assert(p:join()) end
