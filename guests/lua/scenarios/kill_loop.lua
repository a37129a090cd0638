local process = require "baton.process"
local sleep = require "stretched"

local looping = process.spawn(function()
  print "looping"
  io.stdout:flush()
  while true do end
end)
sleep(0.1)
looping:kill()
looping:join()
print "ended"
