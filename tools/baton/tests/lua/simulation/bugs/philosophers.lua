-- Three philosophers take the left fork, and wait for the right one.
local process = require "baton.process"

local forks, all = {}, {}
for i = 1, 3 do forks[i] = process.mutex { name = "fork " .. i } end
for i = 1, 3 do
  all[i] = process.spawn({ name = "philosopher " .. i }, function()
    forks[i]:lock()
    forks[i % 3 + 1]:lock()
    forks[i % 3 + 1]:unlock()
    forks[i]:unlock()
  end)
end
for _, p in ipairs(all) do p:join() end
