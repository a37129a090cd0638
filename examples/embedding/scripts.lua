-- Scripts of a program that embeds Lua: they sleep, block and compute in the background.
-- The program calls `update` in each frame, or when it likes.

local process = require "baton.process"

process.params.slice = 0.001 -- the program gives a few milliseconds at a time

local counts = { slept = 0, blocked = 0, computed = 0 }

process.spawn({ name = "sleeper" }, function()
  while true do
    process.sleep(0.01)
    counts.slept = counts.slept + 1
  end
end)

process.spawn({ name = "blocker" }, function()
  while true do
    local pipe <close> = assert(io.popen("sleep 0.05; echo done"))
    assert(pipe:read() == "done")
    counts.blocked = counts.blocked + 1
  end
end)

process.spawn({ name = "for ever" }, function()
  while true do
    counts.computed = counts.computed + 1
  end
end)

function update()
  return counts.slept, counts.blocked, counts.computed
end
