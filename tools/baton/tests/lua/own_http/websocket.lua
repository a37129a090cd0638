-- Requests of baton.http that become WebSockets.
local check = require "check"
local process = require "baton.process"
local net = require "baton.net"
local http = require "baton.http"
local web = require "baton.web"
local case = {}

local function serve(handler, options)
  return assert(http.serve("127.0.0.1:0", handler, options))
end

local function echo(req, res)
  local ws <close> = assert(http.websocket(req, res, { protocols = { "b", "a" } }))
  for data in ws:messages() do ws:send(req.path .. data) end
end

local function connect(server, protocols)
  return assert(web.connect { url = "ws://" .. server:address() .. "/p", protocols = protocols })
end

-- Returns the first line and the fields of a reply, and the connection.
local function ask(server, text)
  local conn = assert(net.connect(server:address(), { timeout = 20 })):timeout(20)
  assert(conn:write(text))
  local head = {}
  for line in conn:lines() do
    if line == "" then break end
    head[#head + 1] = line
  end
  return head[1], table.concat(head, "\n"), conn
end

local UPGRADE = "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
  .. "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"

function case.a_request_becomes_a_websocket_and_others_are_answered()
  local server <close> = serve(function(req, res)
    if req.path == "/p" then return echo(req, res) end
    return 200, "plain"
  end)
  local one, other = connect(server, { "a" }), connect(server)
  check.equal(one.protocol, "a")
  check.equal(ask(server, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"), "HTTP/1.1 200 OK")
  for _, ws in ipairs { one, other, one } do
    ws:send "x"
    check.equal(ws:receive(20), "/px")
  end
  check.equal(server:stats().replies[1], 2)
  check.equal(one:close(), true)
  other:close()
  check.eventually("ended", function() return server:stats().handlers == 0 end)
end

function case.frames_that_come_with_the_head_are_received()
  local server <close> = serve(echo)
  local line, head, conn = ask(server, UPGRADE .. "\r\n\x81\x82\0\0\0\0hi")
  check.equal(line, "HTTP/1.1 101 Switching Protocols")
  check.matches(head:lower(), "sec%-websocket%-accept: s3pplmbitxaq9kygzzhzrbk%+xoo=")
  check.equal(conn:read(5), "\x81\x03/hi")
  conn:close()
end

function case.what_asks_for_something_else_gets_its_answer()
  local why
  local server <close> = serve(function(req, res)
    local ws
    ws, why = http.websocket(req, res)
    check.equal(ws, nil)
  end)
  local line, head = ask(server, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
  check.matches(line, "^HTTP/1.1 426 ")
  check.matches(head, "\nSec%-WebSocket%-Version: 13")
  check.matches(head, "\nConnection: Upgrade")
  check.matches(why, "upgrade is required")
  line = ask(server, UPGRADE:gsub("GET", "POST") .. "\r\n")
  check.matches(line, "^HTTP/1.1 405 ")
  line = ask(server, UPGRADE:gsub("HTTP/1.1", "HTTP/1.0") .. "\r\n")
  check.matches(line, "^HTTP/1.1 426 ")
  line = ask(server, UPGRADE .. "Content-Length: 1\r\n\r\nx")
  check.matches(line, "^HTTP/1.1 400 ")
  check.matches(why, "without a body")
end

function case.a_websocket_may_outlive_its_handler()
  local sockets = process.channel(1)
  local server <close> = serve(
    function(req, res) sockets:send(assert(http.websocket(req, res))) end
  )
  local client = connect(server)
  local ws = sockets:receive(20)
  check.eventually("returned", function() return server:stats().handlers == 0 end)
  check.equal(server:stats().connections, 0)
  ws:send "late"
  check.equal(client:receive(20), "late")
  local stopping = process.spawn(server.stop, server, 20)
  local data, why, code, reason = client:receive(20)
  check.results("the end", { nil, "closed", 1001 }, data, why, code)
  check.equal(reason, "the server was stopped")
  check.results("stop", { true, 0 }, stopping:join())
end

function case.stopping_ends_websockets_by_a_close_frame()
  local server = serve(echo)
  local client = connect(server)
  client:send "x"
  check.equal(client:receive(20), "/px")
  local stopping = process.spawn(server.stop, server, 20)
  local data, why, code = client:receive(20)
  check.results("the end", { nil, "closed", 1001 }, data, why, code)
  check.results("stop", { true, 0 }, stopping:join())
end

function case.stopping_waits_for_no_client_that_does_not_answer()
  local server = serve(echo)
  local line, _, conn = ask(server, UPGRADE .. "\r\n")
  check.equal(line, "HTTP/1.1 101 Switching Protocols")
  check.equal(server:stop(0.05), 1)
  check.matches(conn:read "all", "^\x88.\x03\xe9")
end

function case.a_handler_that_fails_closes_its_websocket()
  local message
  local server <close> = serve(function(req, res)
    local ws = assert(http.websocket(req, res))
    error("no " .. ws:receive(20))
  end, { on_error = function(text) message = text end })
  local client = connect(server)
  client:send "luck"
  local data, why, code = client:receive(20)
  check.results("the end", { nil, "closed", 1011 }, data, why, code)
  check.matches(message, "no luck")
end

function case.misuse_is_refused()
  local why
  local server <close> = serve(function(req, res)
    why = {
      select(2, pcall(http.websocket, req)),
      select(2, pcall(http.websocket, req, res, { x = 1 })),
    }
    return 200, "fine"
  end)
  ask(server, UPGRADE .. "\r\n")
  check.matches(why[1], "the request and its reply expected")
  check.matches(why[2], "unknown option 'x'")
end

check.run(case)
