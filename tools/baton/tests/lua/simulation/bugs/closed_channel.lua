-- A channel that is closed too early: the sender counts a value before it has sent it.
local process = require "baton.process"

local channel, counted, received = process.channel(1), 0, 0
local sender = process.spawn(function()
  for i = 1, 3 do
    counted = i
    channel:send(i)
  end
end)
local receiver = process.spawn(function()
  for _ in channel:values() do received = received + 1 end
end)
local closer = process.spawn(function()
  while counted < 3 do process.yield() end
  channel:close()
end)
for _, p in ipairs { sender, receiver, closer } do p:join() end
assert(received == 3, "a value is lost")
