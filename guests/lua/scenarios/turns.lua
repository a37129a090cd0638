local process = require "baton.process"

process.params.slice = 10 -- on a slow machine, no slice ends between two yields
local n = 0
local function turns(digit)
  for _ = 1, 3 do
    n = 10 * n + digit
    process.yield()
  end
end
local one, two = process.spawn(turns, 1), process.spawn(turns, 2)
one:join()
two:join()
print(n)
