-- Lazy initialisation without a lock: each of two processes makes the one instance.
local process = require "baton.process"

local instance
local function get()
  if instance == nil then
    local new = {}
    for i = 1, 3 do new[i] = i end
    instance = new
  end
  return instance
end
local one, other = process.spawn(get), process.spawn(get)
local _, first = one:join()
local _, second = other:join()
assert(first == second, "there are two instances")
