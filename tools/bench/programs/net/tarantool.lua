-- The same server in Tarantool's fibers: `tarantool.lua echo|http address port`.
local socket = require "socket"
local protocol, address, port = arg[1], arg[2], tonumber(arg[3])

local BODY = "Hello, world!\n"
local RESPONSE = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: "
  .. #BODY
  .. "\r\n\r\n"
  .. BODY

local services = {}

function services.echo(client)
  while true do
    local line = client:read "\n"
    if not line or line == "" or not client:write(line) then return end
  end
end

function services.http(client)
  while true do
    local request = client:read "\r\n\r\n"
    if not request or request == "" or not client:write(RESPONSE) then return end
  end
end

local serve = services[protocol]
assert(socket.tcp_server(address, port, {
  name = "baton-bench",
  backlog = 1024,
  handler = function(client)
    client:setsockopt("IPPROTO_TCP", "TCP_NODELAY", true)
    serve(client)
  end,
}))
