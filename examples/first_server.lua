-- A web server, written as if each visitor were alone. Arguments: [port].
local http = require "baton.http"
local process = require "baton.process"

local pages = {}
pages["/"] = function() return "Hello from " .. tostring(process.current()) end
pages["/slow"] = function() return io.popen("sleep 5; date"):read() end -- takes five seconds
pages["/loop"] = function() while true do end end -- never ends

local function handle(req)
  local page = pages[req.path]
  if not page then return 404, "no such page\n" end
  return 200, page() .. "\n"
end

assert(http.serve("127.0.0.1:" .. (arg[1] or 8080), handle, { handler_timeout = 10 }))
