-- The server of baton.http: requests, bodies, replies, streams, and what bad clients get.
local check = require "check"
local process = require "baton.process"
local net = require "baton.net"
local http = require "baton.http"
local case = {}

-- A server, and a function that connects to it.
local function serve(handler, options)
  local server = assert(http.serve("127.0.0.1:0", handler, options))
  return server,
    function() return assert(net.connect(server:address(), { timeout = 20 })):timeout(20) end
end

local function ok(_, _) return 200, "fine" end

-- Reads a reply: its status, its body, and its fields with names in lower case.
local function reply_of(conn, has_no_body)
  local line, why = conn:read "line"
  if not line then return nil, why end
  local fields = {}
  for field in conn:lines() do
    if field == "" then break end
    local name, value = field:match "^([^:]+): (.*)$"
    fields[name:lower()] = value
  end
  local status, body = tonumber(line:match "^HTTP/1.1 (%d%d%d) "), ""
  if has_no_body then return status, body, fields end
  if fields["content-length"] then
    body = conn:read(tonumber(fields["content-length"]))
  elseif fields["transfer-encoding"] == "chunked" then
    repeat
      local size = tonumber(conn:read "line", 16)
      body = body .. conn:read(size)
      check.equal(conn:read "line", "")
    until size == 0
  else
    body = conn:read "all"
  end
  return status, body, fields
end

local function ask(conn, text, has_no_body)
  assert(conn:write(text))
  return reply_of(conn, has_no_body)
end

local function ends(conn)
  check.results("the end", { nil, "closed" }, conn:read "some")
  conn:close()
end

local GET = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"

function case.a_handler_returns_status_body_and_fields()
  local server <close>, connect = serve(function() return 201, "made", { ["X-A"] = { 1, "b" } } end)
  local conn <close> = connect()
  for _ = 1, 3 do
    local status, body, fields = ask(conn, GET)
    check.equal(status, 201)
    check.equal(body, "made")
    check.equal(fields["x-a"], "b")
    check.matches(fields.date, "^%a%a%a, %d%d %a%a%a %d%d%d%d %d%d:%d%d:%d%d GMT$")
    check.equal(fields.connection, nil)
  end
  check.equal(server:stats().requests, 3)
  check.equal(server:stats().replies[2], 3)
end

function case.a_request_has_method_path_query_fields_and_peer()
  local seen
  local server <close>, connect = serve(function(req)
    seen = { req.method, req.path, req.query_string, req.query.a, req.query.b, req.query.c }
    table.move({ req.host, req.version, req.headers["x-a"], req:header "X-A" }, 1, 4, 7, seen)
    check.equal(req.headers, req.headers)
    check.equal(req.nothing, nil)
    req.user = "me"
    return 200, req.peer .. " " .. req.user .. " " .. tostring(req)
  end)
  local conn <close> = connect()
  local _, body = ask(
    conn,
    "OPTIONS /p%20q?a=%41+b&b&a=2&c=d=e HTTP/1.1\r\nHost: h:1\r\nX-A:  1 \r\nx-a: 2\r\n\r\n"
  )
  check.equal(body, conn:address() .. " me baton.http request: OPTIONS /p%20q?a=%41+b&b&a=2&c=d=e")
  check.equal(
    table.concat(seen, "|"),
    "OPTIONS|/p%20q|a=%41+b&b&a=2&c=d=e|A b||d=e|h:1|1.1|1, 2|1, 2"
  )
end

function case.bodies_are_read_whole_or_in_parts()
  local server <close>, connect = serve(function(req)
    if req.path == "/twice" then return 200, req:body() .. req:body() end
    local parts, part = {}, req:read(3)
    while part do
      check.that(#part <= 3)
      parts[#parts + 1] = part
      part = req:read(3)
    end
    return 200, table.concat(parts, "")
  end)
  local conn <close> = connect()
  local head = "POST %s HTTP/1.1\r\nHost: a\r\n%s\r\n\r\n%s"
  for _, path in ipairs { "/twice", "/parts" } do
    local wanted = path == "/twice" and "hello wideworldhello wideworld" or "hello wideworld"
    local _, body = ask(conn, head:format(path, "Content-Length: 15", "hello wideworld"))
    check.equal(body, wanted)
    local chunks = "6;a=b\r\nhello \r\n9\r\nwideworld\r\n0\r\nA: b\r\n\r\n"
    _, body = ask(conn, head:format(path, "Transfer-Encoding: chunked", chunks))
    check.equal(body, wanted)
  end
end

function case.requests_in_one_write_are_answered_in_their_order()
  local server <close>, connect = serve(function(req) return 200, req.path .. req:body() end)
  local conn <close> = connect()
  local text = {}
  for i = 1, 50 do
    text[i] = ("POST /%d HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n%02d"):format(i, i)
  end
  conn:write(table.concat(text))
  for i = 1, 50 do
    local _, body = reply_of(conn)
    check.equal(body, ("/%d%02d"):format(i, i))
  end
end

function case.a_body_that_nobody_reads_does_not_become_a_request()
  local server <close>, connect = serve(ok)
  local conn <close> = connect()
  local head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n"
  local body = GET:rep(100)
  check.equal(ask(conn, head:format(#body) .. body), 200)
  check.equal(ask(conn, GET), 200)
  check.equal(server:stats().requests, 2)
  local large = connect() -- more than is read for nothing
  check.equal(ask(large, head:format(1000000)), 200)
  large:shutdown()
  ends(large)
end

function case.a_client_that_expects_is_told_to_go_on_if_the_body_is_wanted()
  local server <close>, connect = serve(function(req)
    if req.path == "/no" then return 403 end
    return 200, req:body()
  end)
  local head = "POST %s HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n"
  local conn = connect()
  conn:write(head:format "/yes")
  check.equal(conn:read "line", "HTTP/1.1 100 Continue")
  check.equal(conn:read "line", "")
  local _, body = ask(conn, "body")
  check.equal(body, "body")
  check.equal(ask(conn, head:format "/no"), 403)
  conn:shutdown()
  ends(conn)
end

function case.heads_and_empty_replies_have_no_body()
  local server <close>, connect = serve(function(req, res)
    if req.path == "/204" then return 204 end
    if req.path == "/stream" then return res:stream():write "x" and nil end
    if req.path == "/own" then return 200, nil, { ["Content-Length"] = 5000 } end
    return 200, "four"
  end)
  local conn <close> = connect()
  local _, _, fields = ask(conn, "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n", true)
  check.equal(fields["content-length"], "4")
  _, _, fields = ask(conn, "HEAD /own HTTP/1.1\r\nHost: a\r\n\r\n", true)
  check.equal(fields["content-length"], "5000")
  check.equal(ask(conn, "HEAD /stream HTTP/1.1\r\nHost: a\r\n\r\n", true), 200)
  _, _, fields = ask(conn, "GET /204 HTTP/1.1\r\nHost: a\r\n\r\n", true)
  check.equal(fields["content-length"], nil)
  check.equal(ask(conn, GET), 200)
end

function case.version_1_0_ends_unless_it_is_asked_to_stay()
  local server <close>, connect = serve(function(req, res)
    if req.path == "/s" then
      res:stream():write("a", "b")
      return
    end
    return 200, "x"
  end)
  local conn = connect()
  local status, _, fields = ask(conn, "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
  check.equal(status, 200)
  check.equal(fields.connection, "keep-alive")
  status, _, fields = ask(conn, "GET / HTTP/1.0\r\n\r\n")
  check.equal(fields.connection, "close")
  ends(conn)
  conn = connect()
  local _, body = ask(conn, "GET /s HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
  check.equal(body, "ab")
  ends(conn)
end

function case.a_stream_is_sent_as_it_is_written()
  local step = process.semaphore(0)
  local server <close>, connect = serve(function(_, res)
    local stream <close> = res:stream(200, { ["Content-Type"] = "text/csv" })
    stream:write("1,", 2)
    stream:write ""
    step:wait(20)
    stream:write "rest"
  end)
  local conn <close> = connect()
  conn:write(GET)
  repeat
  until conn:read "line" == ""
  check.equal(conn:read(8), "3\r\n1,2\r\n")
  step:signal()
  check.equal(conn:read(14), "4\r\nrest\r\n0\r\n\r\n")
  check.equal(ask(conn, GET:gsub("/ ", "/2 ")) and 200, 200)
  step:signal()
end

function case.events_have_their_form_and_a_heartbeat()
  local last
  local server <close>, connect = serve(function(req, res)
    local events <close> = res:events { heartbeat = 0.01 }
    last = events.last_id
    events:send "one\r\ntwo"
    events:send { id = 7, event = "news", retry = 100, data = "x" }
    check.raises("one line expected", events.send, events, { id = "a\nb" })
    while events:send "." do process.sleep(0.05) end
  end)
  local conn = connect()
  conn:write("GET / HTTP/1.1\r\nHost: a\r\nLast-Event-ID: 6\r\n\r\n")
  repeat
  until conn:read "line" == ""
  local text = ""
  repeat
    text = text .. conn:read(tonumber(conn:read "line", 16))
    conn:read "line"
  until text:find(":\n\n", 1, true)
  check.equal(text:sub(1, 21), "data: one\ndata: two\n\n")
  check.that(text:find("id: 7\nevent: news\nretry: 100\ndata: x\n\n", 1, true))
  check.equal(last, "6")
  conn:close()
  check.eventually("the handler ends", function() return server:stats().handlers == 0 end)
end

function case.a_failing_handler_gives_500_and_others_go_on()
  local reports = {}
  local options = {
    on_error = function(message, req) reports[#reports + 1] = req.path .. message end,
  }
  local server <close>, connect = serve(function(req, res)
    if req.path == "/raise" then error "at fault" end
    if req.path == "/table" then error {} end
    if req.path == "/nothing" then return end
    if req.path == "/split" then return 200, "", { a = "b\r\nc: d" } end
    if req.path == "/twice" then
      res:send(200, "one")
      res:send(200, "two")
    end
    if req.path == "/broken" then
      res:stream():write "half"
      error "broken"
    end
    return 200, "x"
  end, options)
  local conn = connect()
  for _, path in ipairs { "raise", "table", "nothing", "split" } do
    check.equal(ask(conn, ("GET /%s HTTP/1.1\r\nHost: a\r\n\r\n"):format(path)), 500)
  end
  local _, body = ask(conn, "GET /twice HTTP/1.1\r\nHost: a\r\n\r\n")
  check.equal(body, "one")
  check.matches(reports[1], "^/raise.*at fault\nstack traceback:\n")
  check.equal(#reports, 5)
  conn:write "GET /broken HTTP/1.1\r\nHost: a\r\n\r\n"
  local all = conn:read "all"
  check.that(all:find("half", 1, true) and not all:find("\r\n0\r\n", 1, true))
  check.equal(server:stats().failures, 6)
end

function case.what_bad_clients_send_reaches_no_handler()
  local calls = 0
  local server <close>, connect = serve(function()
    calls = calls + 1
    return 200, "x"
  end, { max_body = 1000, max_header = 1000 })
  local bad = {
    [400] = {
      "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0",
      "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
      "GET / HTTP/1.1\r\nHost: a\r\nA: b\r\n c\r\n\r\n",
      "GET / HTTP/1.1\nHost: a\n\n",
      "GET / HTTP/1.1\r\nHost : a\r\n\r\n",
      "GET / HTTP/1.1\r\n\r\n",
      "nonsense\r\n\r\n",
      "\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
    },
    [413] = { "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1001\r\n\r\n" },
    [417] = { "POST / HTTP/1.1\r\nHost: a\r\nExpect: tea\r\n\r\n" },
    [431] = { "GET / HTTP/1.1\r\nHost: a\r\nA: " .. ("x"):rep(2000) },
    [501] = { "BREW / HTTP/1.1\r\nHost: a\r\n\r\n" },
    [505] = { "GET / HTTP/2.0\r\nHost: a\r\n\r\n" },
  }
  for wanted, texts in pairs(bad) do
    for _, text in ipairs(texts) do
      local conn = connect()
      local status, _, fields = ask(conn, text .. GET)
      check.equal(status, wanted, text)
      check.equal(fields.connection, "close", text)
      conn:shutdown()
      ends(conn)
    end
  end
  check.equal(calls, 0)
  check.equal(server:stats().refused, 13)
end

function case.a_body_that_is_wrong_in_its_middle_gives_its_status()
  local whys = {}
  local server <close>, connect = serve(function(req)
    local body, why = req:body(tonumber(req.query.max))
    whys[#whys + 1] = why
    return 200, body .. "" -- fails without a body
  end, { max_body = 1000, body_timeout = 0.2 })
  local head = "POST /%s HTTP/1.1\r\nHost: a\r\n%s\r\n\r\n"
  local function try(wanted, why, text)
    local conn = connect()
    check.equal(ask(conn, text), wanted, why)
    check.equal(whys[#whys], why)
    conn:shutdown()
    ends(conn)
  end
  local chunked = head:format("", "Transfer-Encoding: chunked")
  try(400, "malformed", chunked .. "x\r\n")
  try(413, "too large", chunked .. "fff\r\n" .. ("x"):rep(0xfff))
  try(413, "too large", head:format("?max=2", "Content-Length: 3") .. "abc")
  try(408, "timeout", head:format("", "Content-Length: 3") .. "ab")
  check.equal(server:stats().failures, 0)
end

function case.slow_heads_are_ended_in_one_time_and_hold_nobody_up()
  local server <close>, connect = serve(ok, { header_timeout = 0.5 })
  local slow, drips = {}, true
  for i = 1, 50 do
    slow[i] = connect()
    slow[i]:write "GET / HTTP/1.1\r\nHost: a\r\n"
  end
  local dripping = process.spawn(function()
    while drips do
      for _, conn in ipairs(slow) do conn:write "A" end
      process.sleep(0.05)
    end
  end)
  local conn <close> = connect()
  for _ = 1, 20 do check.equal(ask(conn, GET), 200) end
  for _, one in ipairs(slow) do check.equal(reply_of(one), 408) end
  drips = false
  dripping:join()
  check.equal(server:stats().timeouts, 50)
end

function case.idle_connections_end_without_a_word()
  local server <close>, connect = serve(ok, { idle_timeout = 0.05, header_timeout = 0.05 })
  local conn = connect()
  check.equal(ask(conn, GET), 200)
  ends(conn)
  ends(connect())
  check.eventually("all are gone", function() return server:stats().connections == 0 end)
end

function case.a_head_without_end_takes_no_memory()
  local server <close>, connect = serve(ok)
  local conn = connect()
  local piece = ("x"):rep(1 << 20)
  collectgarbage()
  local before, written = collectgarbage "count", 0
  conn:write "GET / HTTP/1.1\r\nHost: a\r\nA: "
  for _ = 1, 1024 do -- a gigabyte, if it were taken
    if not conn:write(piece) then break end
    written = written + 1
  end
  check.that(written < 64, "the connection ends")
  check.that(collectgarbage "count" - before < 4096, "memory")
  check.equal(server:stats().refused, 1)
end

function case.too_many_handlers_are_refused_with_503()
  local go = process.semaphore(0)
  local server <close>, connect = serve(function()
    go:wait(20)
    return 200, "x"
  end, { max_handlers = 2 })
  local first, second, third = connect(), connect(), connect()
  first:write(GET)
  second:write(GET)
  check.eventually("two handlers", function() return server:stats().handlers == 2 end)
  local status, _, fields = ask(third, GET)
  check.equal(status, 503)
  check.equal(fields["retry-after"], "1")
  go:signal(2)
  check.equal(reply_of(first), 200)
  check.equal(reply_of(second), 200)
end

function case.a_handler_that_takes_too_long_is_ended_with_504()
  local closed = false
  local server <close>, connect = serve(function(req)
    check.within(process.time_left(), 0, 0.1)
    if req.path == "/quick" then return 200, "x" end
    local _ <close> = setmetatable({}, { __close = function() closed = true end })
    while true do
    end
  end, { handler_timeout = 0.1 })
  local conn <close> = connect()
  check.equal(ask(conn, "GET /quick HTTP/1.1\r\nHost: a\r\n\r\n"), 200)
  check.equal(ask(conn, GET), 504)
  check.that(closed)
  check.equal(ask(conn, "GET /quick HTTP/1.1\r\nHost: a\r\n\r\n"), 200)
  check.equal(server:stats().timeouts, 1)
end

function case.an_exchange_that_is_kept_cannot_answer_another_request()
  local kept
  local server <close>, connect = serve(function(req)
    if kept then
      check.raises("the request has ended", kept.send, kept, 200, "wrong")
      check.raises("the request has ended", kept.body, kept)
      check.equal(kept.path, "/first")
    end
    kept = req
    return 200, "right"
  end)
  local conn <close> = connect()
  check.equal(ask(conn, "POST /first HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx"), 200)
  local _, body = ask(conn, GET)
  check.equal(body, "right")
end

function case.the_access_log_is_a_function_or_lines()
  local path = check.scratch "access.log"
  local file <close> = io.open(path, "w")
  local notes = {}
  local by_function <close>, connect = serve(ok, {
    access_log = function(req, figures)
      notes[#notes + 1] = req.path .. figures.status .. figures.sent
    end,
  })
  check.equal(ask(connect(), GET), 200)
  check.eventually("noted", function() return notes[1] == "/2004" end)
  local by_lines <close>, connect_2 = serve(ok, { access_log = file })
  check.equal(ask(connect_2(), 'GET /"a HTTP/1.1\r\nHost: a\r\nUser-Agent: x"\\\xff\r\n\r\n'), 200)
  check.eventually("written", function() return #check.read_file(path) > 0 end)
  local date = "%[%d+/%a+/%d+:%d+:%d+:%d+ %+0000%]"
  local rest = '"GET /\\x22a HTTP/1%.1" 200 4 "%-" "x\\x22\\x5c\\xff"'
  check.matches(check.read_file(path), "^127%.0%.0%.1 %- %- " .. date .. " " .. rest .. "\n$")
end

function case.the_access_log_may_be_lines_of_the_programs_log()
  local path = check.scratch "program.log"
  assert(require("baton.log").setup { to = path, format = "json" })
  local server <close>, connect = serve(ok, { access_log = true })
  check.equal(ask(connect(), "GET /a HTTP/1.1\r\nHost: a\r\nUser-Agent: x\"y\r\n\r\n"), 200)
  check.eventually("written", function() return #check.read_file(path) > 0 end)
  local line = require("baton.json").decode(check.read_file(path))
  check.equal(line.msg, "request")
  local words = { line.method, line.target, line.status, line.sent }
  check.equal(table.concat(words, " "), "GET /a 200 4")
  check.equal(line.agent, 'x"y')
  check.matches(line.peer, "^127.0.0.1:%d+$")
  check.that(math.type(line.microseconds) == "integer")
end

function case.misuse_is_refused()
  check.raises("function as handler expected, got nil", http.serve, "127.0.0.1:0")
  check.raises("unknown option 'x'", http.serve, "127.0.0.1:0", ok, { x = 1 })
  local wrong = { max_body = -1 }
  check.raises("option 'max_body': number of bytes", http.serve, "127.0.0.1:0", ok, wrong)
  local listener <close> = net.listen "127.0.0.1:0"
  local server, why = http.serve(listener:address(), ok)
  check.equal(server, nil)
  check.matches(why, "in use")
end

check.run(case)
