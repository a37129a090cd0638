local process = require "baton.process"

local flag
local low = process.spawn({ priority = 20 }, print, "low")
local high = process.spawn({ priority = 60 }, function()
  process.sleep(0.05)
  print "high"
  flag = true
end)
while not flag do end
print "main"
low:join()
high:join()
