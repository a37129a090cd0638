-- Torn pair: two fields belong together, and a reader sees one of them changed.
local process = require "baton.process"

local range = { low = 0, high = 10 }
local mover = process.spawn(function()
  for i = 1, 3 do
    range.low = 10 * i
    range.high = 10 * i + 10
  end
end)
local reader = process.spawn(function()
  for _ = 1, 3 do
    local low, high = range.low, range.high
    assert(high - low == 10, "half of a change was seen")
  end
end)
mover:join()
assert(reader:join())
