local process = require "baton.process"
local sleep = require "stretched"

local sleeper = process.spawn(function()
  process.sleep(3600)
  print "slept"
end)
sleep(0.1)
sleeper:kill()
sleeper:join()
print "ended"
