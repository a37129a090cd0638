-- Sleeps longer where the suite gives a scenario more time.
local process = require "baton.process"

local factor = tonumber(os.getenv "STRETCH") or 1
return function(seconds) process.sleep(seconds * factor) end
