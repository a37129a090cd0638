-- A count of references that is lowered and then read again: two owners may both see zero.
local process = require "baton.process"

local object = { references = 2, frees = 0 }
local function release()
  object.references = object.references - 1
  if object.references == 0 then object.frees = object.frees + 1 end
end
local one, other = process.spawn(release), process.spawn(release)
one:join()
other:join()
assert(object.frees == 1, "the object was not freed once")
