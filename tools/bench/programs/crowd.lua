-- Many processes that sleep: `crowd.lua COUNT`. Says "ready" when all of them do.
local process = require "baton.process"
for _ = 1, tonumber(arg[1]) do
  process.spawn({ daemon = true }, process.sleep, 3600)
end
process.sleep(0.1)
print "ready"
io.stdout:flush()
process.sleep(3600)
