local process = require "baton.process"
local sleep = require "stretched"

io.stdout:setvbuf "line"
local reader = process.spawn(function()
  process.select { { fd = 0, "r" } }
  print(io.read(1):byte())
end)
sleep(0.05)
print "beside"
reader:join()
