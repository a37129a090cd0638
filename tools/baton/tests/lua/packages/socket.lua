-- LuaSocket: TCP, UDP and Unix sockets between two tasks, HTTP with another interpreter, encodings
-- and pumps.
local socket = require "socket"
local unix = require "socket.unix"
local http = require "socket.http"
local url = require "socket.url"
local mime = require "mime"
local ltn12 = require "ltn12"

-- Repeats a non-blocking call while it returns "timeout" or wants to be repeated.
local function patiently(t, call)
  while true do
    local value, why, part = call()
    if value then return value end
    if why ~= "timeout" or part and #part > 0 then error(why) end
    t.pause()
  end
end

local function receive(t, from, count)
  local parts, got = {}, 0
  while got < count do
    local part, why, rest = from:receive(count - got)
    part = part or rest
    if why and why ~= "timeout" then error(why) end
    parts[#parts + 1] = part
    got = got + #part
    if why then t.pause() end
  end
  return table.concat(parts)
end

local function send(t, to, data)
  local sent = 0
  while sent < #data do
    local last, why, partly = to:send(data, sent + 1)
    if why and why ~= "timeout" then error(why) end
    sent = last or partly
    if why then t.pause() end
  end
end

local function echo(t, server, connect)
  local text = ("0123456789"):rep(50000)
  server:settimeout(0)
  local back
  t.together(function()
    local peer = patiently(t, function() return server:accept() end)
    peer:settimeout(0)
    send(t, peer, receive(t, peer, #text):reverse())
    peer:close()
  end, function()
    local client = connect()
    client:settimeout(0)
    send(t, client, text)
    back = receive(t, client, #text)
    local why
    repeat
      t.pause()
      why = select(2, client:receive(1))
    until why ~= "timeout"
    t.say(why)
    client:close()
  end)
  server:close()
  t.say(#back, back == text:reverse())
end

local function datagrams(t)
  local here, there = assert(socket.udp()), assert(socket.udp())
  for _, side in ipairs { here, there } do
    assert(side:setsockname("127.0.0.1", 0))
    side:settimeout(0)
  end
  local _, port = there:getsockname()
  local got = {}
  t.together(function()
    for i = 1, 20 do
      assert(here:sendto("datagram " .. i, "127.0.0.1", port))
      t.pause()
    end
  end, function()
    for i = 1, 20 do got[i] = patiently(t, function() return there:receivefrom() end) end
  end)
  t.say(#got, got[1], got[20], select(2, there:receivefrom()))
  here:close()
  there:close()
end

local SERVER = [[
  local socket = require "socket"
  local server = assert(socket.bind("127.0.0.1", 0))
  print((select(2, server:getsockname())))
  io.stdout:flush()
  for _ = 1, 2 do
    local client = assert(server:accept())
    local request = client:receive()
    local length = 0
    for line in function() return client:receive() end do
      if line == "" then break end
      length = tonumber(line:lower():match "^content%-length: (%d+)") or length
    end
    local body = request .. "\n" .. (length > 0 and client:receive(length):upper() or "nothing")
    local head = "HTTP/1.1 200 OK\r\nContent-Length: " .. #body .. "\r\nConnection: close\r\n\r\n"
    client:send(head .. body)
    client:close()
  end
]]

local function over_http(t)
  local server = t.child(SERVER)
  local port = assert(server:read "n")
  local address = ("http://127.0.0.1:%d/some%%20path"):format(port)
  local body, code = http.request(address)
  t.say(body, code)
  local parts = {}
  local ok, status, headers = http.request {
    url = address,
    method = "POST",
    headers = { ["content-length"] = 4 },
    source = ltn12.source.string "text",
    sink = ltn12.sink.table(parts),
  }
  t.say(ok, status, headers["content-length"], table.concat(parts))
  t.say(server:close())
end

-- The messages name the place, the function and the argument, though Baton stands in between.
local function wrong_calls(t)
  local unconnected = socket.tcp()
  local server = assert(socket.bind("127.0.0.1", 0))
  local address, port = server:getsockname()
  local client = assert(socket.connect(address, port))
  local function fails(f, ...) t.say(select(2, pcall(f, ...))) end
  fails(function() client.receive(5) end)
  fails(function() client.receive() end)
  fails(function() unconnected:receive({}) end)
  fails(function() unconnected.accept(client) end)
  fails(function() client:receive("*x") end)
  fails(function() client:send({}) end)
  fails(function() client.send "x" end)
  fails(function() client:connect "localhost" end)
  fails(function() client:settimeout "x" end)
  fails(function() client.close(1) end)
  fails(function() client.getfd(1) end)
  fails(function() return client.getpeername(1) end)
  fails(function() socket.udp():send() end)
  fails(function() socket.udp():sendto "x" end)
  fails(function() socket.select(1) end)
  fails(function() socket.sleep "x" end)
  fails(function() socket.connect() end)
  fails(client.receive, 5)
  local function handler(message)
    local called = debug.getinfo(2, "nSf")
    t.say(called.name, called.what, called.func == client.receive)
    t.say(debug.getinfo(3, "l").currentline)
    return debug.traceback(message, 2):match "^.-function <"
  end
  t.say(select(2, xpcall(function() client.receive(5) end, handler)))
  for _, each in ipairs { unconnected, server, client } do each:close() end
end

return function(t)
  t.say(socket._VERSION)
  local server = assert(socket.bind("127.0.0.1", 0))
  local _, port = server:getsockname()
  echo(t, server, function() return assert(socket.connect("127.0.0.1", port)) end)
  local path = t.scratch .. "/socket"
  local listener = assert(unix.stream())
  assert(listener:bind(path))
  assert(listener:listen(4))
  echo(t, listener, function()
    local client = assert(unix.stream())
    assert(client:connect(path))
    return client
  end)
  datagrams(t)
  over_http(t)
  t.say(select(3, socket.select({}, {}, 0.01)))
  t.say(select(2, socket.connect("127.0.0.1", 1)), pcall(socket.tcp().send, nil))
  local parsed = url.parse "http://user@host.example:81/a/b;p?q=1#f"
  t.say(
    parsed.host,
    parsed.port,
    parsed.query,
    parsed.fragment,
    url.absolute("http://a/b/c", "../d"),
    url.escape "a b/c"
  )
  t.say(
    mime.b64 "any text",
    (mime.unb64 "YW55IHRleHQ="),
    (mime.qp "a=\xe9"),
    mime.wrp(10, "123456789012", 10)
  )
  local out = {}
  local chain = ltn12.filter.chain(mime.encode "base64", mime.wrap "base64")
  ltn12.pump.all(
    ltn12.source.string(("text"):rep(5000)),
    ltn12.sink.chain(chain, (ltn12.sink.table(out)))
  )
  t.say(#table.concat(out), table.concat(out):sub(1, 20))
  wrong_calls(t)
  local try = socket.newtry(function() t.say "cleaned up" end)
  t.say(socket.protect(function() try(nil, "refused") end)())
end
