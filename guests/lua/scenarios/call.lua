local process = require "baton.process"
local read_byte = require "read_byte"

io.stdout:setvbuf "line"
local flag
process.spawn(function()
  print(read_byte())
  flag = true
end)
process.yield()
print "beside"
while not flag do end
print "done"
