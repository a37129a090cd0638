-- Forgotten signal: the flag is checked without the mutex. So the signal may come between the check
-- and the wait, when nobody waits for it.
local process = require "baton.process"

local mutex = process.mutex()
local changed, is_ready = process.condition { mutex, name = "changed" }, false
local waiter = process.spawn(function()
  if not is_ready then
    mutex:lock()
    changed:wait()
    mutex:unlock()
  end
end)
local signaller = process.spawn(function()
  is_ready = true
  mutex:lock()
  changed:signal()
  mutex:unlock()
end)
waiter:join()
signaller:join()
