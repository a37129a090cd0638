local process = require "baton.process"
local read_byte = require "read_byte"

io.stdout:setvbuf "line"
local all = {}
for i = 1, 4 do
  all[i] = process.spawn(function()
    print "in"
    print(read_byte())
  end)
end
for _, each in ipairs(all) do each:join() end
print "done"
