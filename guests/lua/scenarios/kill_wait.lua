local process = require "baton.process"

local sleeper = process.spawn(function()
  process.sleep(3600)
  print "slept"
end)
process.sleep(0.1)
sleeper:kill()
sleeper:join()
print "ended"
