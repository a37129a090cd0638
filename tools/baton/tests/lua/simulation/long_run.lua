-- A long run with one unprotected counter among much that is protected. A failing run has hundreds
-- of preemptions, and few of them matter.
local process = require "baton.process"

local mutex, channel = process.mutex { name = "totals" }, process.channel(4)
local totals, hits, all = {}, 0, {}
for i = 1, 8 do
  all[i] = process.spawn(function()
    for round = 1, 100 do
      mutex:with(function() totals[i] = (totals[i] or 0) + round end)
      channel:send(round)
      if round % 50 == 0 then hits = hits + 1 end
    end
  end)
end
local reader = process.spawn(function()
  for _ in channel:values() do
    for _ = 1, 20 do end
  end
end)
for i = 1, 8 do all[i]:join() end
channel:close()
reader:join()
assert(hits == 16, "hits are lost: " .. hits)
