-- The simple server in cqueues (echo) and in lua-http, which uses cqueues (HTTP): `cqueues.lua
-- echo|http address port`. Debian has lua-http in these directories:
package.path = package.path .. ";/usr/share/lua/5.3/?.lua;/usr/share/lua/5.2/?.lua"
local protocol, address, port = arg[1], arg[2], tonumber(arg[3])

local servers = {}

function servers.echo()
  local cqueues = require "cqueues"
  local socket = require "cqueues.socket"
  local loop = cqueues.new()
  local server = socket.listen { host = address, port = port, nodelay = true }
  server:onerror(function(_, _, code) return code end)
  loop:wrap(function()
    for client in server:clients() do
      loop:wrap(function()
        client:setmode("bn", "bf")
        client:onerror(function(_, _, code) return code end)
        for line in client:lines "*l" do
          client:write(line, "\n")
          client:flush()
        end
        client:close()
      end)
    end
  end)
  assert(loop:loop())
end

local BODY = "Hello, world!\n"

function servers.http()
  local headers = require "http.headers"
  local server = assert(require("http.server").listen {
    host = address,
    port = port,
    tls = false,
    max_concurrent = math.huge,
    onerror = function() end, -- clients that leave
    onstream = function(_, stream)
      assert(stream:get_headers())
      local answer = headers.new()
      answer:append(":status", "200")
      answer:append("content-type", "text/plain")
      answer:append("content-length", tostring(#BODY))
      assert(stream:write_headers(answer, false))
      assert(stream:write_chunk(BODY, true))
    end,
  })
  assert(server:listen())
  assert(server:loop())
end

servers[protocol]()
