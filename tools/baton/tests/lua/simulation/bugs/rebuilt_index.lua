-- A reader beside a writer that rebuilds: for a moment the index is empty.
local process = require "baton.process"

local index = { one = 1, two = 2 }
local builder = process.spawn(function()
  index = {}
  index.one = 1
  index.two = 2
end)
local reader = process.spawn(function()
  for _ = 1, 3 do assert(index.two, "an entry is missing") end
end)
builder:join()
assert(reader:join())
