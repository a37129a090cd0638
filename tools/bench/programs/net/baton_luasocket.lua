-- The service with JSON over LuaSocket: `baton_luasocket.lua json address port`. It parses the
-- request line and all fields, finds the route, and has a deadline for each read.
local json = require "baton.json"
local process = require "baton.process"
local socket = require "socket"
local address, port = arg[2], tonumber(arg[3])

local TIMEOUT = 60
local HEAD = "HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"

local function read_fields(client)
  local fields = {}
  while true do
    local line = client:receive()
    if not line then return nil end
    if line == "" then return fields end
    local name, value = line:match "^([%w-]+):%s*(.-)%s*$"
    if not name then return nil end
    fields[name:lower()] = value
  end
end

local function serve(client)
  client:settimeout(TIMEOUT)
  while true do
    local method, path = (client:receive() or ""):match "^(%u+) (%S+) HTTP/1%.1$"
    local fields = method and read_fields(client)
    if not fields or not fields.host then return end
    local id = method == "GET" and path:match "^/items/([^/?]+)$"
    local status = id and "200 OK" or "404 Not Found"
    local body = id and json.encode { id = id, name = "a thing" } or ""
    if not client:send(HEAD:format(status, #body, body)) then return end
    if fields.connection == "close" then return end
  end
end

local server = assert(socket.bind(address, port, 1024))
while true do
  local client = assert(server:accept())
  process.spawn(function()
    client:setoption("tcp-nodelay", true)
    serve(client)
    client:close()
  end)
end
