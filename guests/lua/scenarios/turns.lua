local process = require "baton.process"

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
