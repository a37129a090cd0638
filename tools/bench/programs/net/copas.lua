-- The same server under Copas: `copas.lua echo|http address port`. Debian has Copas in these
-- directories:
package.path = package.path .. ";/usr/share/lua/5.3/?.lua;/usr/share/lua/5.2/?.lua"
local copas = require "copas"
local socket = require "socket"
local protocol, address, port = arg[1], arg[2], tonumber(arg[3])

local services = {}

function services.echo(client)
  while true do
    local line = client:receive()
    if not line or not client:send(line .. "\n") then return end
  end
end

local BODY = "Hello, world!\n"
local RESPONSE = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: "
  .. #BODY
  .. "\r\n\r\n"
  .. BODY

function services.http(client)
  while true do
    repeat
      local line = client:receive()
      if not line then return end
    until line == ""
    if not client:send(RESPONSE) then return end
  end
end

local serve = services[protocol]
local server = assert(socket.bind(address, port, 1024))
copas.addserver(server, function(client)
  client:setoption("tcp-nodelay", true)
  local wrapped = copas.wrap(client)
  if copas.settimeouts then copas.settimeouts(client) end -- newer ones have a timeout by default
  serve(wrapped)
end)
copas.loop()
