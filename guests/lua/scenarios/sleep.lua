local process = require "baton.process"
local sleep = require "stretched"

local all = {}
for i, milliseconds in ipairs { 500, 100, 300 } do
  all[i] = process.spawn(function()
    sleep(milliseconds / 1000)
    print(milliseconds)
    io.stdout:flush()
  end)
end
for _, each in ipairs(all) do each:join() end
