-- Cancellation in a critical part: a transfer is killed between its two halves.
local process = require "baton.process"

local mine, yours = 10, 0
local transfer = process.spawn(function()
  for _ = 1, 3 do
    mine = mine - 1
    yours = yours + 1
  end
end)
local canceller = process.spawn(function() transfer:kill() end)
transfer:join()
canceller:join()
assert(mine + yours == 10, "money is lost")
