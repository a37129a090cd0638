local process = require "baton.process"

local all = {}
for i, milliseconds in ipairs { 500, 100, 300 } do
  all[i] = process.spawn(function()
    process.sleep(milliseconds / 1000)
    print(milliseconds)
    io.stdout:flush()
  end)
end
for _, each in ipairs(all) do each:join() end
