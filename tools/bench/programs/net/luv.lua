-- The same server on libuv, with callbacks: `luv.lua echo|http address port`.
local uv = require "luv"
local protocol, address, port = arg[1], arg[2], tonumber(arg[3])

local BODY = "Hello, world!\n"
local RESPONSE = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: "
  .. #BODY
  .. "\r\n\r\n"
  .. BODY

local function close(client)
  if not client:is_closing() then client:close() end
end

local services = {}

function services.echo(client)
  local rest = ""
  return function(failed, data)
    if failed or not data then return close(client) end
    rest = rest .. data
    local whole = rest:match "^.*\n"
    if whole then
      rest = rest:sub(#whole + 1)
      client:write(whole)
    end
  end
end

function services.http(client)
  local rest = ""
  return function(failed, data)
    if failed or not data then return close(client) end
    rest = rest .. data
    while true do
      local _, last = rest:find("\r\n\r\n", 1, true)
      if not last then break end
      rest = rest:sub(last + 1)
      client:write(RESPONSE)
    end
  end
end

local server = uv.new_tcp()
assert(server:bind(address, port))
assert(server:listen(1024, function(failed)
  assert(not failed, failed)
  local client = uv.new_tcp()
  assert(server:accept(client))
  client:nodelay(true)
  client:read_start(services[protocol](client))
end))
uv.run()
