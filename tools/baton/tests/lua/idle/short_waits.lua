-- Makes the VM wait repeatedly for a call that returns within microseconds, while another process
-- sleeps.
local process = require "baton.process"

return function(rounds)
  process.params.window = 0.00001
  local ended = false
  local sleeper = process.spawn(function()
    while not ended do process.sleep(0.00005) end
  end)
  for _ = 1, rounds do string.rep("x", 200000) end
  ended = true
  sleeper:join()
end
