-- Double close: two processes find a handle open, and both close it.
local process = require "baton.process"

local handle = { is_open = true, closes = 0, buffer = { "a", "b" } }
local function close()
  if not handle.is_open then return end
  while #handle.buffer > 0 do table.remove(handle.buffer) end -- flushes
  handle.is_open = false
  handle.closes = handle.closes + 1
end
local one, other = process.spawn(close), process.spawn(close)
one:join()
other:join()
assert(handle.closes == 1, "the handle was closed twice")
