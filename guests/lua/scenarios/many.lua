local process = require "baton.process"

local n, all = 0, {}
for i = 1, 1000 do
  all[i] = process.spawn(function()
    process.yield()
    n = n + 1
  end)
end
for _, each in ipairs(all) do each:join() end
print(n)
