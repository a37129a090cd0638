-- LuaSystem: the clocks, and a sleep that lasts as long as asked.
local system = require "system"

return function(t)
  local before, wall = system.monotime(), system.gettime()
  system.sleep(0.02)
  local slept = system.monotime() - before
  t.say(slept >= 0.02, system.gettime() - wall >= 0.015, math.abs(system.gettime() - os.time()) < 3)
  local last = system.monotime()
  for _ = 1, 1000 do
    local now = system.monotime()
    assert(now >= last)
    last = now
  end
  t.say(math.type(last), pcall(system.sleep, {}) == false)
end
