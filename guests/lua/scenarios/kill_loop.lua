local process = require "baton.process"

local looping = process.spawn(function()
  print "looping"
  io.stdout:flush()
  while true do end
end)
process.sleep(0.1)
looping:kill()
looping:join()
print "ended"
