-- ABBA: two processes lock two mutexes in opposite orders.
local process = require "baton.process"

local a, b = process.mutex { name = "a" }, process.mutex { name = "b" }
local function both(first, second)
  first:lock()
  second:lock()
  second:unlock()
  first:unlock()
end
local one = process.spawn({ name = "one" }, both, a, b)
local other = process.spawn({ name = "other" }, both, b, a)
one:join()
other:join()
