-- A permit that leaks: where the table is busy, the function returns without giving it back.
local process = require "baton.process"

local permits, table_lock = process.semaphore(2), process.mutex()
local function serve()
  permits:wait()
  if not table_lock:lock(0) then return nil, "busy" end
  for _ = 1, 5 do end
  table_lock:unlock()
  permits:signal()
  return true
end
local one, other = process.spawn(serve), process.spawn(serve)
one:join()
other:join()
assert(permits:count() == 2, "a permit is lost")
