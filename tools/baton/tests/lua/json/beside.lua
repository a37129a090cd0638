-- Long calls beside other processes. A busy machine may keep the monitor from its work, so each
-- test tries again.
local check = require "check"
local process = require "baton.process"
local beside = {}

local TRIES = 200

-- Another process runs several times during a call of f. A function in C in which nobody else runs
-- is followed by one switch at most.
function beside.others_run(what, f, ...)
  local slice = process.params.slice
  process.params.slice = 0.001
  local turns, over, most = 0, false, 0
  local other = process.spawn(function()
    while not over do
      turns = turns + 1
      process.yield()
    end
  end)
  local result
  for _ = 1, TRIES do
    result = nil
    local before = turns
    result = f(...)
    most = turns - before
    if most >= 3 then break end
  end
  over = true
  other:join()
  process.params.slice = slice
  check.that(most >= 3, what)
  return result
end

-- A process that is killed during a call of f ends before the call would: it uses less time.
function beside.is_killed(f, ...)
  local slice = process.params.slice
  process.params.slice = 0.001
  local me = process.current()
  local least = math.huge
  for _ = 1, TRIES do
    collectgarbage()
    local began = me:stats().cpu
    f(...)
    local whole = me:stats().cpu - began
    collectgarbage()
    local victim = process.spawn(f, ...)
    process.yield() -- until its slice is over
    victim:kill "enough"
    local ok, why = victim:join()
    if not ok then
      check.equal(why, "enough")
      least = victim:stats().cpu / whole
    end
    if least < 0.6 then break end
  end
  process.params.slice = slice
  check.that(least < 0.6, least)
end

return beside
