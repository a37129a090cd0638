-- A web server, written as if each visitor were alone. Arguments: [port]. Needs LuaSocket.
local process = require "baton.process"
local socket = require "socket"

local pages = {}
pages["/"] = function() return "Hello from " .. tostring(process.current()) end
pages["/slow"] = function() return io.popen("sleep 5; date"):read() end -- takes five seconds
pages["/loop"] = function() while true do end end -- never ends

local function serve(client)
  local path = (client:receive() or ""):match " (%S+)"
  repeat local line = client:receive() until not line or line == "" -- the rest of the head
  local _, body = process.timeout(10, pages[path] or pages["/"]) -- or nil, "timeout"
  client:send("HTTP/1.0 200 OK\r\n\r\n" .. body .. "\n")
  client:close()
end

local server = assert(socket.bind("127.0.0.1", tonumber(arg[1]) or 8080))
while true do
  local client = assert(server:accept())
  process.spawn(serve, client)
end
