-- Counts the reads that find nothing, by the preloaded vain_reads.so: they are few in a server that
-- answers many connections.
local check = require "check"
local ffi = require "baton.ffi"
local process = require "baton.process"
local socket = require "socket"

ffi.cdef "int vain_reads(void);"

local CONNECTIONS, ROUNDS = 50, 20

local server = assert(socket.bind("127.0.0.1", 0, CONNECTIONS))
local port = select(2, server:getsockname())
process.spawn({ daemon = true }, function()
  while true do
    local client = assert(server:accept())
    process.spawn({ daemon = true }, function()
      for line in function() return client:receive() end do client:send(line .. "\n") end
    end)
  end
end)
local clients = {}
for i = 1, CONNECTIONS do
  clients[i] = assert(socket.connect("127.0.0.1", port))
end

-- All ask, then all take their answers: each end reads twice as many lines as it need wait for.
local function ask(round)
  for i = 1, CONNECTIONS do clients[i]:send(i .. " " .. round .. "\n") end
  for i = 1, CONNECTIONS do check.equal(clients[i]:receive(), i .. " " .. round) end
end

for round = 1, 2 do ask(round) end
local before = ffi.C.vain_reads()
for round = 1, ROUNDS do ask(round) end
-- without leaving any out, the server makes one for each answer
check.within(ffi.C.vain_reads() - before, 0, CONNECTIONS * ROUNDS / 2, "reads in vain")
