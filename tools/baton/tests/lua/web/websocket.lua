-- WebSocket between two sides of ours, and with peers that write their frames by hand.
local check = require "check"
local net = require "baton.net"
local process = require "baton.process"
local web = require "baton.web"

local case = {}

local KEY = "dGhlIHNhbXBsZSBub25jZQ==" -- of RFC 6455, section 1.3
local PROOF = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="

local function url_of(listener) return "ws://" .. listener:address() end

-- A server in a process of its own, which calls f(ws).
local function server(f, options)
  local listener = assert(net.listen "127.0.0.1:0")
  local serving = process.spawn(function()
    local conn = assert(listener:accept())
    local ws, why = web.accept(conn, options)
    if not ws then return nil, why end
    return f(ws)
  end)
  return listener, serving
end

local function echo(ws)
  for data, kind in ws:messages() do
    assert(kind == "text" and ws:send(data) or kind == "binary" and ws:send_binary(data))
  end
  return "done"
end

-- What a server gets that echoes until the peer closes.
local function ended(ws)
  while true do
    local data, why, code, reason = ws:receive()
    if data == nil then return why, code, reason end
    ws:send(data)
  end
end

-- A frame of a client, whose mask is zero.
local function frame(first, payload)
  local size = #payload
  local length = size < 126 and string.char(0x80 | size)
    or size < 65536 and "\xfe" .. string.pack(">I2", size)
    or "\xff" .. string.pack(">I8", size)
  return string.char(first) .. length .. "\0\0\0\0" .. payload
end

local TEXT, MORE, CLOSE, PING, PONG = 0x81, 0x80, 0x88, 0x89, 0x8a

-- A client that writes its frames itself. The upgrade is done.
local function raw(listener)
  local conn = assert(net.connect(listener:address()))
  assert(
    conn:write(
      "GET /chat?x=1 HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n",
      "Connection: keep-alive, Upgrade\r\nSec-WebSocket-Version: 13\r\n",
      ("Sec-WebSocket-Key: %s\r\n\r\n"):format(KEY)
    )
  )
  check.equal(conn:read "line", "HTTP/1.1 101 Switching Protocols")
  local proof
  for line in conn:lines() do
    if line == "" then break end
    proof = proof or line:match "^sec%-websocket%-accept: (.*)$"
  end
  check.equal(proof, PROOF)
  return conn
end

-- The next frame of a server: its first byte and its payload.
local function read_frame(conn)
  local head = conn:read(2)
  if not head then return nil end
  local first, size = head:byte(1, 2)
  if size == 126 then size = string.unpack(">I2", conn:read(2)) end
  if size == 127 then size = string.unpack(">I8", conn:read(8)) end
  return first, conn:read(size)
end

-- The server closes with this code after the frames, and says why.
local function is_refused(frames, code, pattern, options)
  local listener, serving = server(ended, options)
  local conn = raw(listener)
  assert(conn:write(table.unpack(frames)))
  local first, payload
  repeat
    first, payload = read_frame(conn)
  until first == CLOSE or first == nil
  check.equal(first, CLOSE)
  check.equal(string.unpack(">I2", payload), code)
  check.equal(conn:read "all", "")
  conn:close()
  local _, why = serving:join()
  check.matches(why, pattern)
end

-- Both sides
-- -------------------------------------------------------------------------------------------------

function case.messages_come_back()
  local listener, serving = server(echo)
  local ws = assert(web.connect(url_of(listener)))
  local texts = { "hello", "", "Grüße", ("x"):rep(125), ("y"):rep(126), ("z"):rep(70000) }
  for _, text in ipairs(texts) do
    check.results("send", { true }, ws:send(text))
    check.results("receive", { text, "text" }, ws:receive())
  end
  check.results("send", { true }, ws:send_binary "\0\xff")
  check.results("receive", { "\0\xff", "binary" }, ws:receive())
  check.results("close", { true }, ws:close())
  check.results("the server", { true, "done" }, serving:join())
  check.results("after it", { nil, "closed", n = 2 }, ws:receive())
  check.results("after it", { nil, "closed", n = 2 }, ws:send "more")
end

function case.a_close_has_a_code_and_a_reason()
  local listener, serving = server(ended)
  local ws = assert(web.connect(url_of(listener)))
  check.results("close", { true }, ws:close(4001, "enough"))
  check.results("the server", { true, "closed", 4001, "enough" }, serving:join())

  listener, serving = server(function(other) return other:close(1001, "bye") end)
  ws = assert(web.connect(url_of(listener)))
  check.results("the client", { nil, "closed", 1001, "bye", n = 4 }, ws:receive())
  check.results("the server", { true, true }, serving:join())
end

function case.a_request_is_known_to_the_server()
  local listener, serving = server(function(ws)
    ws:close()
    return ws.path, ws.headers["x-user"], ws.protocol
  end, { protocols = { "chat.v2", "chat" } })
  local ws = assert(web.connect {
    url = url_of(listener) .. "/room/1?x=y",
    headers = { ["X-User"] = "ann" },
    protocols = { "chat", "chat.v2" },
  })
  check.equal(ws.protocol, "chat.v2")
  ws:close()
  check.results("the server", { true, "/room/1?x=y", "ann", "chat.v2" }, serving:join())
end

function case.a_receive_ends_by_its_timeout_and_goes_on()
  local listener = server(function(ws)
    ws:receive()
    ws:send "late"
    ws:receive()
  end)
  local ws = assert(web.connect(url_of(listener)))
  check.results("receive", { nil, "timeout", n = 2 }, ws:receive(0.01))
  check.results("receive", { nil, "timeout", n = 2 }, ws:receive(0))
  ws:send "now"
  check.results("receive", { "late", "text" }, ws:receive())
  ws:close()
end

function case.a_silent_peer_is_asked_and_given_up()
  local listener, serving = server(ended, { keepalive = 0.02 })
  local conn = raw(listener)
  check.results("the ping", { PING, "" }, read_frame(conn))
  check.equal(conn:read "all", "")
  local _, why = serving:join()
  check.equal(why, "the peer does not answer")
end

function case.a_peer_that_answers_pings_is_not_given_up()
  local listener, serving = server(echo)
  local ws = assert(web.connect { url = url_of(listener), keepalive = 0.2 })
  check.results("no message", { nil, "timeout", n = 2 }, ws:receive(0.5))
  check.results("close", { true }, ws:close())
  check.results("the server", { true, "done" }, serving:join())
end

function case.a_request_that_was_read_elsewhere_is_upgraded()
  local listener = assert(net.listen "127.0.0.1:0")
  local serving = process.spawn(function()
    local conn = assert(listener:accept())
    local method, headers = conn:read("line"):match "%u+", {}
    for line in conn:lines() do
      local name, value = line:match "^(.-): (.*)$"
      if not name then break end
      headers[name:lower()] = value
    end
    local options = { protocols = { "chat" } }
    local answer = assert(web.upgrade(method, headers, options))
    conn:write "HTTP/1.1 101 Switching Protocols\r\n"
    for name, value in pairs(answer) do conn:write(name, ": ", value, "\r\n") end
    conn:write "\r\n"
    return echo(web.socket(conn, answer, options))
  end)
  local ws = assert(web.connect { url = url_of(listener), protocols = { "chat" } })
  check.equal(ws.protocol, "chat")
  ws:send "hello"
  check.results("the echo", { "hello", "text" }, ws:receive())
  ws:close()
  check.results("the server", { true, "done" }, serving:join())
  check.equal(select(2, web.upgrade("PUT", {})), 405)
end

function case.a_variable_that_goes_closes_without_a_wait()
  local listener, serving = server(function(ws)
    local sender = process.spawn({ quiet = true }, function()
      while ws:send(("x"):rep(100000)) do end
      return "ended"
    end)
    check.becomes(sender, "waiting") -- the peer does not read
    do
      local gone <close> = ws
    end
    return select(2, sender:join())
  end)
  local conn <close> = raw(listener)
  check.results("the server", { true, "ended" }, serving:join())
end

function case.a_close_is_answered_while_another_process_receives()
  local may_answer = process.event()
  local listener, serving = server(function(ws)
    may_answer:wait()
    return ended(ws)
  end)
  local ws = assert(web.connect(url_of(listener)))
  local receiver = process.spawn(function() return ws:receive() end)
  check.becomes(receiver, "waiting")
  local closer = process.spawn(function() return ws:close() end)
  check.becomes(closer, "waiting")
  may_answer:set()
  check.results("the receiver", { true, nil, "closed", 1000, "" }, receiver:join())
  check.results("the closer", { true, true }, closer:join())
  check.results("the server", { true, "closed", 1000, "" }, serving:join())
end

function case.a_client_and_a_server_speak_over_tls()
  local directory = os.getenv "CERTIFICATES"
  local listener = assert(net.listen "127.0.0.1:0")
  local serving = process.spawn(function()
    local conn = assert(listener:accept())
    assert(
      web.tls(conn, { cert = directory .. "/localhost.pem", key = directory .. "/localhost.key" })
    )
    return echo(assert(web.accept(conn)))
  end)
  local ws = assert(web.connect {
    url = "wss://" .. listener:address(),
    tls = { ca = directory .. "/ca.pem" },
  })
  ws:send(("x"):rep(100000))
  check.equal(#ws:receive(), 100000)
  check.results("close", { true }, ws:close())
  check.results("the server", { true, "done" }, serving:join())
end

-- Frames
-- -------------------------------------------------------------------------------------------------

function case.the_frames_are_those_of_the_rfc()
  local listener, serving = server(echo)
  local conn = raw(listener)
  -- Section 5.7: "Hello" in one masked frame, then in two
  assert(conn:write "\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58")
  check.equal(conn:read(7), "\x81\x05Hello")
  assert(conn:write(frame(0x01, "He"), frame(MORE, "llo")))
  check.equal(conn:read(7), "\x81\x05Hello")
  assert(conn:write(frame(CLOSE, "\x03\xe8")))
  check.equal(conn:read "all", "\x88\x02\x03\xe8")
  check.results("the server", { true, "done" }, serving:join())
end

function case.a_ping_is_answered_while_another_message_is_received()
  local listener, serving = server(echo)
  local conn = raw(listener)
  assert(conn:write(frame(0x01, "He"), frame(PING, "now"), frame(PONG, "?"), frame(MORE, "llo")))
  check.results("the answer", { PONG, "now" }, read_frame(conn))
  check.results("the message", { TEXT, "Hello" }, read_frame(conn))
  conn:close()
  serving:join()
end

function case.frames_may_come_byte_by_byte()
  local listener, serving = server(echo)
  local conn = raw(listener)
  for byte in (frame(TEXT, ("a"):rep(200)) .. frame(CLOSE, "\x03\xe8")):gmatch "." do
    assert(conn:write(byte))
    process.yield()
  end
  check.results("the message", { TEXT, ("a"):rep(200) }, read_frame(conn))
  check.results("the close", { CLOSE, "\x03\xe8" }, read_frame(conn))
  check.results("the server", { true, "done" }, serving:join())
end

function case.messages_over_the_limit_are_refused()
  local limits = { max_message = 1000, max_frame = 600 }
  local pattern = "^a message of %d+ bytes came, and the limit is "
  is_refused({ frame(TEXT, ("x"):rep(601)) }, 1009, pattern .. "600$", limits)
  is_refused(
    { frame(0x01, ("x"):rep(600)), frame(MORE, ("x"):rep(401)) },
    1009,
    pattern .. "1000$",
    limits
  )
  -- No byte of it has come.
  is_refused({ "\x82\xff" .. ("\x7f"):rep(8) .. "\0\0\0\0" }, 1009, pattern)
end

function case.broken_frames_are_refused()
  local pattern = "^the peer breaks the protocol %("
  is_refused({ "\x81\x01x" }, 1002, pattern) -- not masked
  is_refused({ frame(0xc1, "x") }, 1002, pattern) -- a reserved bit
  is_refused({ frame(0x83, "x") }, 1002, pattern) -- a reserved kind
  is_refused({ frame(0x09, "x") }, 1002, pattern) -- a ping in parts
  is_refused({ frame(PING, ("x"):rep(126)) }, 1002, pattern)
  is_refused({ frame(MORE, "x") }, 1002, pattern) -- the rest of nothing
  is_refused({ frame(0x01, "x"), frame(TEXT, "x") }, 1002, pattern)
  is_refused({ frame(CLOSE, "x") }, 1002, pattern)
end

function case.a_text_that_is_not_utf8_is_refused()
  is_refused({ frame(TEXT, "\xff") }, 1007, "^a text came that is not UTF%-8$")
  is_refused({ frame(0x01, "\xe2\x82"), frame(MORE, "\xff") }, 1007, "not UTF%-8$")
  local listener, serving = server(echo)
  local ws = assert(web.connect(url_of(listener)))
  check.raises(
    "bad argument #1 to 'send' %(UTF%-8 expected; send_binary sends other bytes%)",
    function() ws:send "\xff" end
  )
  ws:close()
  serving:join()
end

function case.an_end_without_a_close_is_told()
  local listener, serving = server(ended)
  local conn = raw(listener)
  assert(conn:write(frame(0x01, "He")))
  conn:close()
  local _, why = serving:join()
  check.equal(why, "the connection was cut off: the peer has not closed it")
end

function case.a_peer_that_does_not_read_fills_no_memory_by_pings()
  local listener, serving = server(ended)
  local conn = raw(listener)
  local pings = frame(PING, ("x"):rep(125)):rep(1000)
  local before = collectgarbage "count"
  -- The server answers until its own writes wait, and then reads no more.
  local writer = process.spawn({ quiet = true }, function()
    while true do assert(conn:write(pings)) end
  end)
  check.becomes(writer, "waiting")
  check.becomes(serving, "waiting")
  writer:kill()
  check.that(collectgarbage "count" < before + 4096)
  conn:close()
  serving:join()
end

-- Waits
-- -------------------------------------------------------------------------------------------------

function case.a_process_is_killed_in_each_wait_and_no_frame_is_torn()
  local are_killed = process.event()
  local listener, serving = server(function(ws)
    local receiver = process.spawn({ quiet = true }, function() ws:receive() end)
    check.becomes(receiver, "waiting")
    receiver:kill()
    local sender = process.spawn({ quiet = true }, function()
      while true do ws:send(("x"):rep(100000)) end
    end)
    check.becomes(sender, "waiting")
    sender:kill()
    sender:join()
    are_killed:set()
    assert(ws:send "whole")
    return ws:close()
  end)
  local ws = assert(web.connect(url_of(listener)))
  are_killed:wait()
  local last, count = nil, 0
  for data in ws:messages() do
    last, count = data, count + 1
    check.that(data == "whole" or data == ("x"):rep(100000))
  end
  check.equal(last, "whole")
  check.that(count > 1)
  check.results("the server", { true, true }, serving:join())
end

function case.several_processes_send_whole_messages()
  local listener, serving = server(function(ws)
    local all = check.spawn_all(10, function(i)
      for _ = 1, 20 do assert(ws:send((string.char(96 + i)):rep(20000))) end
    end)
    check.join_all(all)
    return ws:close()
  end)
  local ws = assert(web.connect(url_of(listener)))
  local count = 0
  for data in ws:messages() do
    check.equal(data, data:sub(1, 1):rep(20000))
    count = count + 1
  end
  check.equal(count, 200)
  check.results("the server", { true, true }, serving:join())
end

-- The upgrade
-- -------------------------------------------------------------------------------------------------

local function answer_to(request)
  local listener, serving = server(echo)
  local conn <close> = assert(net.connect(listener:address()))
  assert(conn:write(request))
  local answer = conn:read "all"
  local _, done, why = serving:join()
  check.equal(done, nil)
  return answer, why
end

function case.other_requests_get_an_answer_that_says_why()
  local upgrade = "Upgrade: websocket\r\nConnection: Upgrade\r\n"
  local version = "Sec-WebSocket-Version: 13\r\n"
  local key = "Sec-WebSocket-Key: " .. KEY .. "\r\n"
  local function is_answered(status, request)
    check.matches(answer_to(request), "^HTTP/1.1 " .. status .. " ")
  end
  is_answered(426, "GET / HTTP/1.1\r\n\r\n")
  is_answered(405, "POST / HTTP/1.1\r\n" .. upgrade .. version .. key .. "\r\n")
  is_answered(426, "GET / HTTP/1.1\r\n" .. upgrade .. key .. "\r\n")
  is_answered(400, "GET / HTTP/1.1\r\n" .. upgrade .. version .. "\r\n")
  is_answered(400, "GET / HTTP/1.0\r\n" .. upgrade .. version .. key .. "\r\n")
  is_answered(400, "hello\r\n\r\n")
  is_answered(400, "GET / HTTP/1.1\r\nbad header\r\n\r\n")
end

function case.a_head_without_an_end_is_bounded()
  local listener, serving = server(echo)
  local conn <close> = assert(net.connect(listener:address()))
  process.spawn({ quiet = true, daemon = true }, function()
    assert(conn:write "GET / HTTP/1.1\r\n")
    while conn:write(("x: y\r\n"):rep(1000)) do end
  end)
  local _, done, why = serving:join()
  check.equal(done, nil)
  check.equal(why, "the head has more than 16384 bytes")
end

function case.a_head_that_does_not_go_on_ends_by_its_timeout()
  local listener, serving = server(echo, { timeout = 0.05 })
  local conn <close> = assert(net.connect(listener:address()))
  assert(conn:write "GET / HTTP/1.1\r\n")
  check.results("the server", { true, nil, "timeout" }, serving:join())
end

-- What a client says of a server that answers this.
local function said_of(answer)
  local listener = assert(net.listen "127.0.0.1:0")
  process.spawn(function()
    local conn <close> = assert(listener:accept())
    local key
    for line in conn:lines() do
      key = line:match "^sec%-websocket%-key: (.*)$" or key
      if line == "" then break end
    end
    check.that(key)
    conn:write(answer)
    conn:shutdown()
    conn:read "all"
  end)
  return web.connect { url = url_of(listener), protocols = { "chat" } }
end

function case.a_client_checks_the_answer()
  check.results(
    "another status",
    { nil, "the server refused the upgrade: HTTP/1.1 404 Not Found", 404, n = 3 },
    said_of "HTTP/1.1 404 Not Found\r\n\r\n"
  )
  check.matches(select(2, said_of "SSH-2.0-OpenSSH\r\n\r\n"), "no head of HTTP/1.1")
  check.matches(
    select(
      2,
      said_of(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
          .. ("Sec-WebSocket-Accept: %s\r\n\r\n"):format(PROOF)
      )
    ),
    "has not understood the upgrade"
  )
  check.matches(select(2, said_of "HTTP/1.1 101"), "closed")
end

function case.a_wrong_argument_is_refused()
  local function refuses(pattern, options)
    check.raises(pattern, function() web.connect(options) end)
  end
  refuses("option 'url': ws://HOST/PATH or wss://HOST/PATH expected", "http://localhost/")
  refuses("option 'url'", "ws://localhost/ x")
  refuses("unknown option 'path'", { path = "/" })
  refuses("the field 'Host' cannot be sent", { url = "ws://x/", headers = { Host = "y" } })
  refuses("the field 'A' cannot be sent", { url = "ws://x/", headers = { A = "b\r\nC: d" } })
  local listener, serving = server(echo)
  local ws = assert(web.connect(url_of(listener)))
  check.raises("argument #1 to 'send' %(string expected, got number%)", function() ws:send(1) end)
  check.raises("at most 125 bytes expected, got 126", function() ws:ping(("x"):rep(126)) end)
  check.raises("a code from 1000 to 4999 that may be sent expected", function() ws:close(1005) end)
  ws:close()
  serving:join()
end

check.run(case)
