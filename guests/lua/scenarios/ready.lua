local process = require "baton.process"

io.stdout:setvbuf "line"
local reader = process.spawn(function()
  process.select { { fd = 0, "r" } }
  print(io.read(1):byte())
end)
process.sleep(0.05)
print "beside"
reader:join()
