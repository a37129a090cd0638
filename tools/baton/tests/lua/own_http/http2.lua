-- Connections of HTTP/2 with the server of baton.http. The client is Node's (http2_client.mjs).
local check = require "check"
local process = require "baton.process"
local net = require "baton.net"
local http = require "baton.http"
local case = {}

local CLIENT = arg[0]:gsub("%.lua$", "_client.mjs")

local function serve(handler, options)
  options = options or {}
  options.http2 = true
  return assert(http.serve("127.0.0.1:0", handler, options))
end

-- Runs a command, and returns the lines that it prints.
local function lines_of(...)
  local pipe <close> = assert(io.popen(table.concat({ ... }, " ") .. " 2>&1"))
  local lines = {}
  for line in pipe:lines() do lines[#lines + 1] = line end
  return lines
end

-- Runs a case of the client.
local function client(server, name)
  return lines_of("node", CLIENT, "http://" .. server:address(), name)
end

-- Compares what the client prints with the lines of a text.
local function expect(server, name, text)
  local wanted = {}
  for line in text:gmatch "[^\n]+" do wanted[#wanted + 1] = line:match "^%s*(.-)%s*$" end
  check.list(client(server, name), wanted, name)
end

local function nothing_is_left(server)
  check.eventually("the end of all handlers and connections", function()
    local stats = server:stats()
    return stats.handlers == 0 and stats.connections == 0
  end)
end

function case.requests_have_all_fields_and_replies_theirs()
  local noted = {}
  local r = http.router()
  r:use(function(req, _, next)
    req.own = "kept"
    req:set("X-Set", "by middleware")
    return next()
  end)
  r:get("/echo/:what", function(req)
    check.equal(req:header "X-Own", req.headers["x-own"])
    check.equal(req.path, "/echo/" .. (req.params.what == "x" and "x" or "a%20b"))
    check.matches(req.peer, "^127%.0%.0%.1:%d+$")
    check.equal(req.host, req.headers.host)
    check.equal(req.own .. req.version, "kept2.0")
    check.matches(tostring(req), "^baton.http request: %u+ /echo/")
    return ("%s %s %s|%s"):format(req.method, req.params.what, req.query.x, req.query.y)
  end)
  r:post("/body", function(req)
    check.equal(req:body(), "a body")
    check.equal(req:body(), "a body")
    check.equal(req:read(), nil)
    local fields = { ["Set-Cookie"] = { "a=1", "b=2" }, Connection = "keep-alive" }
    return 201, req.headers.cookie, fields
  end)
  r:post("/json", function(req) return req:json(202, req:json().a) end)
  r:get("/none", function() return 204, "no body" end)
  r:get("/websocket", function(req, res) http.websocket(req, res) end)
  local server <close> = serve(r, { access_log = function(request, figures)
    noted[#noted + 1] = ("%s %d %d"):format(request.target, figures.status, figures.sent)
  end })
  expect(server, "requests", [[
    200 GET a b 1 2|A b
    text/plain; charset=utf-8 15 true
    201 one=1; two=2 by middleware a=1,b=2
    200 0 true
    404
    OPTIONS, POST
    202 application/json [1,2]
    204
    501
    426]])
  nothing_is_left(server)
  check.equal(noted[1], "/echo/a%20b?x=1%202&y=%41+b&x=3 200 15")
  check.equal(noted[3], "/echo/x 200 0")
  check.equal(#noted, 8)
  local stats = server:stats()
  check.list({ stats.accepted, stats.requests, stats.refused, stats.failures }, { 1, 8, 1, 0 })
  check.list(stats.replies, { 0, 5, 0, 3, 1 })
end

function case.requests_of_one_connection_run_at_once()
  local here, go = 0, process.semaphore(0)
  local server <close> = serve(function(req)
    here = here + 1
    if here == 50 then go:signal(50) end
    check.that(go:wait(20))
    return req.path:sub(2)
  end)
  local wanted = {}
  for i = 1, 50 do wanted[i] = tostring(i) end
  expect(server, "together", table.concat(wanted, ","))
  check.equal(server:stats().accepted, 1)
end

function case.large_bodies_pass_the_windows()
  local server <close> = serve(function(req, res)
    if req.path == "/up" then return tostring(#req:body()) end
    if req.path == "/send" then return ("s"):rep(5000000) end
    local stream <close> = res:stream()
    for _ = 1, 500 do check.that(stream:write(("w"):rep(9000), ("x"):rep(1000))) end
  end, { max_body = 3000000 })
  expect(server, "large", [[
    200 3000000
    200 5000000 0
    200 5000000 0
    200 5000000 0
    200 5000000 0]])
end

function case.handlers_that_do_not_read_hold_no_other_body_up()
  local go = process.semaphore(0)
  local server <close> = serve(function(req)
    if req.path == "/slow" then check.that(go:wait(20)) end
    local size = #req:body()
    if req.path == "/quick" then go:signal(5) end
    return tostring(size)
  end)
  expect(server, "readers", [[
    500000
    500000,500000,500000,500000,500000]])
end

function case.a_client_that_waits_with_its_body_is_asked_for_it()
  local server <close> = serve(function(req)
    if req.path == "/unread" then return "no body, please" end
    return req:body() == "a body" and 201 or 400
  end)
  expect(server, "expectations", [[
    /read 201 true
    /unread 200 false
    417]])
end

function case.a_client_that_resets_a_request_ends_its_writes()
  local ends = process.channel(1)
  local server <close> = serve(function(req, res)
    if req.path == "/fine" then return "fine" end
    local done, why
    res:stream()
    repeat
      done, why = res:write(("x"):rep(100000))
    until not done
    ends:send(tostring(done) .. " " .. tostring(why))
  end)
  expect(server, "resets", [[
    write 8
    fine]])
  check.equal(ends:receive(20), "nil closed")
  nothing_is_left(server)
end

function case.handlers_that_fail_are_told_apart()
  local messages = {}
  local server <close> = serve(function(req, res)
    if req.path == "/error" then error "no luck" end
    if req.path == "/late" then
      res:stream():write "begun"
      error "too late"
    end
    if req.path == "/field" then return 200, "x", { A = "b\r\nc" } end
    if req.path == "/killed" then process.current():kill() end
    if req.path == "/fine" then return "fine" end
  end, { on_error = function(message) messages[#messages + 1] = message end })
  expect(server, "failures", [[
    /error 500 Internal Server Error 0
    /late 200 begun 2
    /nothing 500 Internal Server Error 0
    /field 500 Internal Server Error 0
    /killed   2
    /fine 200 fine 0]])
  check.equal(#messages, 4)
  check.matches(messages[1], "no luck.*traceback")
  check.matches(messages[3], "neither sent a reply nor returned")
  check.matches(messages[4], "field 'A' of the reply: its value has a control character")
  check.equal(server:stats().failures, 4)
  nothing_is_left(server)
end

function case.limits_hold_for_each_request()
  local server <close> = serve(function(req)
    if req.path == "/slow" then process.sleep(100) end
    if req.path == "/wait" then process.sleep(0.2) end
    if req.path == "/own" then return select(2, req:body(100)) end
    if req.path == "/unread" then return "not read" end
    return assert(req:body())
  end, {
    max_body = 2000,
    max_header = 4096,
    max_handlers = 2,
    handler_timeout = 0.5,
    body_timeout = 0.3,
    on_error = function() end,
  })
  expect(server, "limits", [[
    known 413
    unknown 413
    own too large
    unread 200
    head 431
    slow 504
    handlers 200,200,503
    late body 408]])
  nothing_is_left(server)
end

function case.a_client_that_opens_no_window_has_a_time()
  local why
  local server <close> = serve(function(_, res)
    local _
    _, why = res:send(("x"):rep(10000000))
  end, { body_timeout = 0.2 })
  expect(server, "windows", "code 8")
  check.eventually("an end", function() return why end)
  check.equal(why, "timeout")
end

function case.an_idle_connection_ends()
  local server <close> = serve(function() return "x" end, { idle_timeout = 0.2 })
  expect(server, "idle", [[
    200
    goaway 0
    ended]])
  nothing_is_left(server)
end

function case.events_are_sent()
  local server <close> = serve(function(_, res)
    local events <close> = res:events { heartbeat = 0.05 }
    events:send "one"
    process.sleep(0.12)
    events:send { event = "e", data = "two\nlines" }
  end)
  local line = client(server, "events")[1]
  check.matches(line, [[^text/event%-stream "data: one\n\n]])
  check.matches(line, [[:\n\n]])
  check.matches(line, [[event: e\ndata: two\ndata: lines\n\n"$]])
end

-- The end
-- -------------------------------------------------------------------------------------------------

function case.stopping_answers_open_requests()
  local go = process.semaphore(0)
  local server = serve(function(req)
    if req.path == "/slow" then go:wait(20) end
    return "done"
  end)
  local asking = process.spawn(client, server, "stopping")
  check.eventually("both", function()
    local stats = server:stats()
    return stats.requests == 2 and stats.handlers == 1
  end)
  local stopping = process.spawn(server.stop, server, 20)
  process.sleep(0.1)
  check.equal(stopping:status() ~= "dead", true)
  go:signal()
  check.results("stop", { true, 0 }, stopping:join())
  local _, lines = asking:join()
  check.list(lines, { "200", "goaway 0", "goaway 0", "done", "ended" })
end

function case.stopping_under_load_loses_no_request()
  local server = serve(function(req) return req.path end)
  local asking = process.spawn(client, server, "load")
  check.eventually("load", function() return server:stats().requests > 200 end)
  check.equal(server:stop(20), 0)
  local _, lines = asking:join()
  check.equal(lines[#lines], "true 0")
end

function case.stopping_kills_what_does_not_end()
  local closed = 0
  local server = serve(function()
    local _ <close> = setmetatable({}, { __close = function() closed = closed + 1 end })
    process.sleep(1000)
  end)
  local asking = process.spawn(client, server, "killed")
  check.eventually("a handler", function() return server:stats().handlers == 1 end)
  check.equal(server:stop(0.01), 1)
  check.equal(closed, 1)
  nothing_is_left(server)
  asking:join()
end

function case.handlers_that_are_killed_lose_no_other_request()
  local server <close> = serve(function(_, res)
    local stream <close> = res:stream()
    local ends = process.now() + math.random() * 0.01
    repeat
    until process.now() > ends or not stream:write "x"
  end, { handler_timeout = 0.005 })
  expect(server, "timeouts", "1200")
  local stats = server:stats()
  check.equal(stats.requests, 1200)
  check.within(stats.timeouts, 1, 1200)
  nothing_is_left(server)
end

-- Beginnings, without Node
-- -------------------------------------------------------------------------------------------------

local PREFACE = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
local SETTINGS = "\0\0\0\4\0\0\0\0\0"

local CANCEL = "\0\0\4\3\0\0\0\0\1\0\0\0\8" -- of stream 1
-- POST / of stream 1, whose body follows
local POST = "\0\0\6\1\4\0\0\0\1\x83\x86\x84\x41\1a"

local function connect_to(server)
  return assert(net.connect(server:address(), { timeout = 20 })):timeout(20)
end

-- Sends the beginning of a connection, and reads until it was accepted.
local function begin(server)
  local conn = connect_to(server)
  conn:write(PREFACE, SETTINGS)
  repeat
    local size, kind, flags = (">I3BB"):unpack(conn:read(9))
    conn:read(size)
  until kind == 4 and flags == 1
  return conn
end

function case.a_client_that_resets_a_request_ends_its_reads()
  local ends = process.channel(1)
  local server <close> = serve(function(req)
    local part = req:read()
    local body, why = req:body()
    ends:send(("%s %s %s"):format(part, body, why))
    ends:send(tostring(select(2, req:send "late")))
  end)
  local conn <close> = begin(server)
  conn:write(POST, "\0\0\3\0\0\0\0\0\1abc")
  check.eventually("a handler", function() return server:stats().handlers == 1 end)
  process.sleep(0.05)
  conn:write(CANCEL)
  check.equal(ends:receive(20), "abc nil closed")
  check.equal(ends:receive(20), "closed")
  conn:close()
  nothing_is_left(server)
end

function case.requests_that_are_taken_back_do_not_pile_up()
  local go, most = process.semaphore(0), 0
  local handler = function() return go:wait(20) and 204 or 500 end
  local server <close> = serve(handler, { max_streams = 3 })
  local conn <close> = begin(server)
  for id = 1, 39, 2 do
    local of = (">I4"):pack(id)
    conn:write(POST:sub(1, 5), of, POST:sub(10), CANCEL:sub(1, 5), of, CANCEL:sub(10))
    most = math.max(most, server:stats().handlers)
  end
  check.eventually("all", function()
    local stats = server:stats()
    return stats.requests + stats.refused == 20
  end)
  check.equal(server:stats().requests, 3)
  check.that(most <= 3)
  go:signal(3)
  check.eventually("the end of the handlers", function() return server:stats().handlers == 0 end)
  check.equal(server:stop(20), 0)
end

function case.both_versions_have_one_port()
  local server <close> = serve(function(req) return req.version end, { header_timeout = 0.3 })
  local old <close> = connect_to(server)
  old:write "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
  check.matches(old:read "line", "^HTTP/1.1 200")
  local short <close> = connect_to(server) -- may be either
  short:write "P"
  check.matches(short:read "line", "^HTTP/1.1 408")
  local new <close> = connect_to(server)
  for byte in (PREFACE .. SETTINGS):gmatch "." do new:write(byte) end
  check.equal(new:read(4):sub(4), "\4")
  local plain <close> = http.serve("127.0.0.1:0", print)
  local refused <close> = connect_to(plain)
  refused:write(PREFACE)
  check.matches(refused:read "line", "^HTTP/1.1 505")
end

function case.a_head_that_does_not_go_on_ends_the_connection()
  local server <close> = serve(print, { header_timeout = 0.2 })
  for _, text in ipairs { PREFACE .. "\0\0", PREFACE .. SETTINGS .. "\0\0\9\1\4\0\0\0\1\x82" } do
    local conn <close> = connect_to(server)
    conn:write(text)
    check.that(conn:read "all")
  end
  check.equal(server:stats().timeouts, 2)
  nothing_is_left(server)
end

function case.a_client_that_breaks_the_protocol_is_told_so()
  local server <close> = serve(print)
  local conn <close> = connect_to(server)
  -- DATA on a stream that was never opened
  conn:write(PREFACE, SETTINGS, "\0\0\1\0\0\0\0\0\1x")
  check.matches(conn:read "all", "\0\0.\7\0\0\0\0\0\0\0\0\0\0\0\0[\1\5]")
  nothing_is_left(server)
end

function case.floods_are_ended()
  local server <close> = serve(print)
  local ping = "\0\0\8\6\0\0\0\0\0" .. "12345678"
  local conn <close> = connect_to(server)
  conn:write(PREFACE, SETTINGS)
  local writing = process.spawn(function() conn:write(ping:rep(12000)) end)
  local all = conn:read "all"
  check.equal(all and all:byte(-1), 11) -- ENHANCE_YOUR_CALM
  writing:join()
  nothing_is_left(server)
end

function case.a_client_that_does_not_read_is_given_up()
  local server <close> = serve(print, { body_timeout = 0.2 })
  local ping = "\0\0\8\6\0\0\0\0\0" .. "12345678"
  local conn <close> = connect_to(server)
  conn:write(PREFACE, SETTINGS)
  repeat
    local done = conn:write(ping:rep(100))
    process.sleep(0.01)
  until not done
  nothing_is_left(server)
end

function case.options_are_checked()
  local text = "option 'max_streams': integer from 1 to 10000 expected, got 0"
  check.raises(text, http.serve, "127.0.0.1:0", print, { max_streams = 0 })
  check.raises("option 'http2': boolean expected", http.serve, "127.0.0.1:0", print, { http2 = 1 })
end

-- Other clients
-- -------------------------------------------------------------------------------------------------

local CERTIFICATES = os.getenv "CERTIFICATES"

local function tls_options()
  return { cert = CERTIFICATES .. "/localhost.pem", key = CERTIFICATES .. "/localhost.key" }
end

function case.curl_chooses_it_with_tls()
  local tls = tls_options()
  local handler = function(req) return req.version .. " " .. req:body() end
  local ask = function(server, ...)
    local url = "https://localhost:" .. server:address():match "%d+$" .. "/"
    local always = "--silent --show-error --max-time 60 --write-out ' %{http_version}' --cacert"
    return lines_of("curl", always, CERTIFICATES .. "/ca.pem", url, ...)[1]
  end
  local server <close> = assert(http.serve("127.0.0.1:0", handler, { tls = tls }))
  check.equal(ask(server, "--data sent"), "2.0 sent 2")
  check.equal(ask(server, "--data sent --http1.1"), "1.1 sent 1.1")
  local without <close> = assert(http.serve("127.0.0.1:0", handler, { tls = tls, http2 = false }))
  check.equal(ask(without, "--data sent"), "1.1 sent 1.1")
end

function case.curl_begins_with_it()
  local log = check.scratch "log"
  local noted <close> = assert(io.open(log, "w"))
  local handler = function(req) return req.version .. " " .. #req:body() end
  local server <close> = serve(handler, { access_log = noted })
  local file = check.scratch "body"
  check.write_file(file, ("x"):rep(1000000))
  local line = lines_of(
    "curl --silent --show-error --max-time 60 --http2-prior-knowledge",
    "--data-binary @" .. file,
    "http://" .. server:address()
  )[1]
  check.equal(line, "2.0 1000000")
  local line_of_log = '^127%.0%.0%.1 .* "POST / HTTP/2.0" 200 11 "%-" "curl/[^"]*"\n$'
  check.eventually("a line", function() return check.read_file(log):find(line_of_log) end)
end

-- Over TLS, as a bad preface would be a bad request of HTTP/1.1 otherwise.
function case.h2spec_finds_no_fault()
  local handler = function(req) return "you sent " .. #req:body() end
  local server <close> = assert(http.serve("127.0.0.1:0", handler, { tls = tls_options() }))
  local port = server:address():match "%d+$"
  local lines =
    lines_of(os.getenv "H2SPEC", "--strict --tls --insecure --timeout 10 --port", port)
  local faults = {}
  for _, line in ipairs(lines) do
    local what = line:match "\u{d7} (%d+: .*)"
    if what then faults[#faults + 1] = what end
  end
  check.list(faults, {})
  check.matches(lines[#lines], "14%d tests, 14%d passed, %d skipped, 0 failed")
  nothing_is_left(server)
end

check.run(case)
