-- The simple server in several VMs: `server.lua VMS echo|http address port`. Each VM has a
-- listening socket of its own on the same port, and the system divides the connections.
local vm = require "baton.vm"
local count, protocol, address, port = tonumber(arg[1]), arg[2], arg[3], tonumber(arg[4])

local BODY = "Hello, world!\n"
local RESPONSE = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: "
  .. #BODY
  .. "\r\n\r\n"
  .. BODY

local services = {}

function services.echo(client)
  while true do
    local line = client:receive()
    if not line or not client:send(line .. "\n") then return end
  end
end

function services.http(client)
  while true do
    repeat
      local line = client:receive()
      if not line then return end
    until line == ""
    if not client:send(RESPONSE) then return end
  end
end

-- All VMs begin to listen at the same time, so that each gets connections from the first on.
local ready, begin = vm.channel(), vm.channel()

local function serve()
  local process = require "baton.process"
  local socket = require "socket"
  local listener = assert(socket.tcp4())
  assert(listener:setoption("reuseaddr", true))
  assert(listener:setoption("reuseport", true))
  assert(listener:bind(address, port))
  ready:send(true)
  begin:receive()
  assert(listener:listen(1024))
  while true do
    local client = assert(listener:accept())
    process.spawn(function()
      client:setoption("tcp-nodelay", true)
      services[protocol](client)
      client:close()
    end)
  end
end

for _ = 2, count do
  assert(vm.spawn(serve))
  ready:receive()
end
for _ = 1, count do begin:send(true) end
serve()
