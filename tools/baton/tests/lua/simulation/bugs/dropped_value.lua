-- A select that drops a value: it may take the stop although jobs are waiting.
local process = require "baton.process"

local jobs, stop, done = process.channel(3), process.event(), 0
local worker = process.spawn(function()
  while process.select { jobs, stop } == 1 do done = done + 1 end
end)
for i = 1, 3 do jobs:send(i) end
stop:set()
worker:join()
assert(done == 3, "a job was dropped")
