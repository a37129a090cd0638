-- The simple server in LuaSocket, with a process for each connection, and the service with JSON in
-- baton.http: `baton.lua echo|http|json|work address port`.
local process = require "baton.process"
local protocol, address, port = arg[1], arg[2], tonumber(arg[3])

-- Computes for 50 ms of this processor.
local function make_work()
  local function sum(count)
    local total = 0
    for i = 1, count do total = total + i % 7 end
    return total
  end
  local begun = os.clock()
  sum(1e7)
  local count = 1e7 * 0.05 / (os.clock() - begun) // 1
  return function() return sum(count) end
end

if protocol == "json" or protocol == "work" then
  local http = require "baton.http"
  local r = http.router()
  r:get("/items/:id", function(req)
    return req:json { id = req.params.id, name = "a thing" }
  end)
  if protocol == "work" then
    local work = make_work()
    r:get("/sums/:id", function(req)
      work()
      return req:json { id = req.params.id, name = "a thing" }
    end)
  end
  assert(http.serve(address .. ":" .. port, r))
  return
end

local socket = require "socket"

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
while true do
  local client = assert(server:accept())
  process.spawn(function()
    client:setoption("tcp-nodelay", true)
    serve(client)
    client:close()
  end)
end
