-- Missed broadcast: a signal wakes one process, and two may wait.
local process = require "baton.process"

local mutex = process.mutex()
local changed, is_open = process.condition(mutex), false
local function pass()
  mutex:lock()
  while not is_open do changed:wait() end
  mutex:unlock()
end
local function open()
  mutex:lock()
  is_open = true
  changed:signal()
  mutex:unlock()
end
local all = { process.spawn(pass), process.spawn(open), process.spawn(pass) }
for _, p in ipairs(all) do p:join() end
