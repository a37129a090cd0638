-- Processes that are killed anywhere, once or twice, while they move something in a shield. It is
-- moved whole, or not at all, unless the second kill came in the middle.
local process = require "baton.process"

process.params.shield = 1
local from, to, moving = 10, 0, nil

local function move()
  from, moving = from - 1, process.current()
  process.sleep(0.001)
  process.yield()
  to, moving = to + 1, nil
end

local lock = process.mutex()
local mover = process.spawn({ quiet = true }, function()
  for _ = 1, 5 do
    process.yield()
    process.shield(lock.with, lock, move)
    process.yield()
  end
end)
local other = process.spawn({ quiet = true }, function()
  for _ = 1, 5 do process.shield(lock.with, lock, move) end
end)
process.spawn(function()
  for _ = 1, 4 do process.yield() end
  mover:kill "once"
end)
assert(other:join())
local ok, why = mover:join()
assert(ok or why == "once", why)
assert(not moving and from + to == 10, "it was cut in half")
assert(#process.list() <= 2, "a watcher is left")
