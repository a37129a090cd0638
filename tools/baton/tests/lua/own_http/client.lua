-- The client of baton.http.
local check = require "check"
local process = require "baton.process"
local net = require "baton.net"
local http = require "baton.http"
local case = {}

local function serve(handler)
  local server = assert(http.serve("127.0.0.1:0", handler))
  return server, "http://" .. server:address()
end

-- A server that calls f with each connection. Returns its address, and what ends it.
local function raw(f)
  local listener = assert(net.listen "127.0.0.1:0")
  local p = process.spawn({ daemon = true }, function()
    while true do
      local conn = listener:accept()
      if not conn then return end
      process.spawn({ daemon = true }, function()
        local closed <close> = conn
        f(closed:timeout(20))
      end)
    end
  end)
  return "http://" .. listener:address(),
    function()
      listener:close()
      p:join()
    end
end

local function read_head(conn)
  local lines = {}
  for line in conn:lines() do
    if line == "" then return table.concat(lines, "\n") end
    lines[#lines + 1] = line
  end
end

-- A server that answers each connection's first request with these bytes, and ends it.
local function says(text)
  return raw(function(conn)
    if not read_head(conn) then return end
    conn:write(text)
    conn:shutdown()
    conn:read "all"
  end)
end

function case.a_reply_has_status_fields_and_a_body()
  local server <close>, url = serve(function(req)
    if req.path == "/json" then return req:json { name = req.query.name } end
    return 201, "made", { ["X-A"] = { 1, 2 }, ["Set-Cookie"] = { "a=1, b", "c=2" } }
  end)
  local res = assert(http.get(url .. "/x"))
  check.equal(res.status, 201)
  check.equal(res.headers["x-a"], "1, 2")
  check.list(res.set_cookies, { "a=1, b", "c=2" })
  check.equal(res.version, "1.1")
  check.equal(res.url, url .. "/x")
  check.equal(res:body(), "made")
  check.equal(res:body(), "made")
  check.equal(http.request(url .. "/json?name=a%20b#part"):json().name, "a b")
  local _, why = http.get(url):json()
  check.that(why)
  res = http.request { url = url, method = "head" }
  check.results("HEAD", { 201, "" }, res.status, res:body())
end

function case.requests_have_fields_and_bodies_of_each_kind()
  local server <close>, url = serve(function(req)
    local length = req:header "content-length" or req:header "transfer-encoding" or "none"
    local lines = { req.method, req.target, req:header "x-a" or "", length, req:body() }
    return 200, table.concat(lines, "|")
  end)
  local function ask(options)
    options.url = url .. (options.url or "/")
    return assert(http.request(options)):body()
  end
  check.equal(ask { url = "/a b?c=ü\r\n" }, "GET|/a%20b?c=%C3%BC%0D%0A||none|")
  check.equal(ask { url = "?q" }, "GET|/?q||none|")
  check.equal(ask { headers = { ["X-A"] = { "1", 2 } } }, "GET|/|1, 2|none|")
  check.equal(ask { body = "text" }, "POST|/||4|text")
  check.equal(ask { method = "PUT" }, "PUT|/||0|")
  local parts = { "a", "", "bc" }
  local body = function() return table.remove(parts, 1) end
  check.equal(ask { method = "PUT", body = body }, "PUT|/||chunked|abc")
  local file <close> = io.tmpfile()
  file:write "skipped and sent"
  file:seek("set", 12)
  check.equal(ask { body = file }, "POST|/||4|sent")
  local long = ("x"):rep(700000)
  check.equal(#http.post(url, long):body(), #"POST|/||700000|" + #long)
  check.equal(server:stats().accepted, 1)
end

function case.a_connection_is_used_again_and_a_stale_one_replaced()
  local requests, connections = 0, 0
  local url, stop = raw(function(conn)
    connections = connections + 1
    for _ = 1, 2 do
      if not read_head(conn) then return end
      requests = requests + 1
      conn:write "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    end
    read_head(conn) -- the third request gets no reply
  end)
  for _ = 1, 5 do check.equal(http.get(url):body(), "ok") end
  check.equal(requests, 5)
  check.equal(connections, 3)
  check.equal(http.post(url, "x"):body(), "ok")
  check.results("not sent twice", { nil, "closed" }, http.post(url, "x"))
  local pool <close> = http.pool()
  check.equal(http.get(url, { pool = pool }):body(), "ok")
  check.equal(#pool, 1)
  check.equal(http.get(url, { pool = false }):body(), "ok")
  check.equal(connections, 5)
  stop()
end

function case.a_pool_is_bounded_and_forgets_old_connections()
  local server <close>, url = serve(function() return "ok" end)
  local other <close>, other_url = serve(function() return "ok" end)
  local pool <close> = http.pool { size = 2, per_host = 1, idle_timeout = 0.05 }
  local open = {}
  for i = 1, 3 do open[i] = http.get(url, { pool = pool }) end
  for i = 1, 3 do open[i]:body() end
  check.equal(#pool, 1)
  http.get(other_url, { pool = pool }):body()
  check.equal(#pool, 2)
  check.eventually("the idle connections are closed", function() return #pool == 0 end)
  check.eventually("the server sees it", function()
    return server:stats().connections == 0 and other:stats().connections == 0
  end)
  local closing = http.pool()
  http.get(url, { pool = closing }):body()
  closing:close()
  check.equal(#closing, 0)
  http.get(url, { pool = closing }):body()
  check.equal(#closing, 0)
end

function case.bodies_are_read_in_parts_whatever_ends_them()
  local head = "HTTP/1.1 200 OK\r\n"
  local whole = head .. "Content-Length: 10\r\n\r\n0123456789"
  local chunks = "4;a=b\r\n0123\r\n6\r\n456789\r\n0\r\nA: b\r\n\r\n"
  for name, text in pairs {
    length = whole,
    chunks = head .. "Transfer-Encoding: chunked\r\n\r\n" .. chunks,
    connection = "HTTP/1.0 200 OK\r\n\r\n0123456789",
    interim = "HTTP/1.1 103 Hints\r\nA: b\r\n\r\n" .. whole,
  } do
    local url, stop = says(text)
    check.equal(http.get(url):body(), "0123456789", name)
    local res, parts = http.get(url), {}
    for part in function() return res:read(3) end do
      check.that(#part <= 3)
      parts[#parts + 1] = part
    end
    check.equal(table.concat(parts), "0123456789", name)
    check.equal(res:read(), nil, name)
    check.results(name, { nil, "too large" }, http.get(url):body(9))
    stop()
  end
end

function case.redirects_are_followed_and_secrets_stay_behind()
  local other <close>, other_url = serve(function(req)
    return 200, req.method .. (req:header "authorization" or " no secret") .. req:body()
  end)
  local server <close>, url = serve(function(req)
    if req.path == "/a/b" then return 302, "", { Location = "../c/./d?x" } end
    if req.path == "/ever" then return 301, "", { Location = "/ever" } end
    if req.path == "/away" then return 307, "", { Location = other_url .. "/" } end
    if req.path == "/odd" then return 302, "", { Location = "ftp://a/" } end
    return 200, req.method .. " " .. req.target .. " " .. (req:header "authorization" or "")
  end)
  local headers = { Authorization = "secret" }
  local res = http.request { url = url .. "/a/b", body = "x", headers = headers }
  check.equal(res:body(), "GET /c/d?x secret")
  check.equal(res.url, url .. "/c/d?x")
  res = http.request { url = url .. "/away", body = "x", headers = headers }
  check.equal(res:body(), "POST no secretx")
  check.results("loop", { nil, "too many redirects" }, http.get(url .. "/ever"))
  check.equal(http.get(url .. "/ever", { redirects = 0 }).status, 301)
  local _, why = http.get(url .. "/odd")
  check.matches(why, "^redirect to a wrong address: http")
  local once = http.post(url .. "/away", function() return nil end)
  check.equal(once.status, 307) -- its body cannot be sent again
end

function case.retries_wait_for_a_server_that_comes()
  local fails = 2
  local url, stop = raw(function(conn)
    read_head(conn)
    fails = fails - 1
    if fails < 0 then conn:write "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok" end
  end)
  check.results("one", { nil, "closed" }, http.get(url))
  check.equal(fails, 1)
  check.equal(http.get(url, { retries = 1 }):body(), "ok")
  fails = 1
  check.results("POST", { nil, "closed" }, http.post(url, "x", { retries = 3, pool = false }))
  check.equal(fails, 0)
  stop()
  local res, why = http.get(url, { pool = false })
  check.equal(res, nil)
  check.matches(why, "refused")
end

function case.hostile_servers_are_refused_and_bounded()
  local head = "HTTP/1.1 200 OK\r\n"
  local function head_fails(why, text)
    local url, stop = says(text)
    check.results(text:sub(1, 60), { nil, why }, http.get(url, { retries = 0 }))
    stop()
  end
  head_fails("malformed", head .. "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n")
  head_fails("malformed", head .. "Transfer-Encoding: gzip, chunked\r\n\r\n")
  head_fails("malformed", "HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n")
  head_fails("malformed", ("HTTP/1.1 100 Continue\r\n\r\n"):rep(1000))
  head_fails("malformed", "SSH-2.0 hello\r\n\r\n")
  head_fails("too large", head .. ("A: b\r\n"):rep(20000))
  head_fails("cut off", head .. "A: ")
  head_fails("cut off", "HTTP/1.1 100 Continue\r\n\r\n")
  local function body_fails(why, text)
    local url, stop = says(head .. text)
    local res = assert(http.get(url))
    check.results(text:sub(1, 60), { nil, why }, res:body(1000000))
    check.results("afterwards", { nil, "closed" }, res:read())
    stop()
  end
  body_fails("cut off", "Content-Length: 9\r\n\r\n1234")
  body_fails("too large", "Content-Length: 9000000000000\r\n\r\n1234")
  body_fails("too large", "\r\n" .. ("x"):rep(1000001))
  body_fails("malformed", "Transfer-Encoding: chunked\r\n\r\nzz\r\n")
  body_fails("malformed", "Transfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n")
  body_fails("cut off", "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n")
  -- a reply that nobody has asked for is never taken for that of the next request
  local url, stop = says(("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na"):rep(2))
  check.equal(http.get(url):body(), "a")
  check.equal(http.get(url):body(), "a")
  stop()
  url, stop = raw(function(conn) conn:read "all" end)
  check.results("silent", { nil, "timeout" }, http.get(url, { timeout = 0.05, retries = 3 }))
  stop()
end

function case.a_killed_process_leaves_no_request_open()
  local steps, ended = process.channel(), process.channel(3)
  local url, stop = raw(function(conn)
    local head = read_head(conn)
    if head:find "GET /body" then conn:write "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n1" end
    steps:send(true)
    conn:read "all"
    ended:send(true)
  end)
  for _, ask in ipairs {
    function() http.get(url) end,
    function() http.get(url .. "/body"):body() end,
    function()
      http.post(url, function() return ("x"):rep(65536) end)
    end,
  } do
    local p = process.spawn({ quiet = true }, ask)
    check.equal(steps:receive(20), true)
    p:kill()
    p:join()
    check.equal(ended:receive(20), true)
  end
  local res = http.get(url .. "/body")
  steps:receive(20)
  res:close()
  check.equal(ended:receive(20), true)
  check.results("closed", { nil, "closed" }, res:read())
  stop()
end

function case.a_server_that_refuses_a_body_early_is_heard()
  local url, stop = raw(function(conn)
    read_head(conn)
    conn:write "HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno"
    conn:shutdown()
    conn:read "all"
  end)
  local res = assert(http.post(url, ("x"):rep(3000000)))
  check.results("early", { 413, "no" }, res.status, res:body())
  stop()
end

function case.misuse_of_the_client_is_refused()
  local function refused(why, options) check.raises(why, http.request, options) end
  refused("option 'url': http://HOST/PATH or https://HOST/PATH expected", { url = "ftp://a" })
  refused("option 'url'", {})
  refused("it has a user", { url = "http://me:secret@a/" })
  refused("its host is wrong", { url = "http://a b/" })
  refused("its port is wrong", { url = "http://a:99999/" })
  refused("unknown option 'uri'", { uri = "http://a/" })
  refused("option 'method': name of a method expected", { url = "http://a/", method = "GET /" })
  local two_lines = { A = "b\r\nC: d" }
  refused("field 'A': a line of text expected", { url = "http://a/", headers = two_lines })
  refused("'A:' cannot be the name of a field", { url = "http://a/", headers = { ["A:"] = "b" } })
  refused("the client sets it itself", { url = "http://a/", headers = { ["Content-Length"] = 1 } })
  refused("option 'body': string, function or open file expected", { url = "http://a/", body = {} })
  refused("option 'pool': pool of http.pool or false expected", { url = "http://a/", pool = {} })
  refused("table or address expected, got nil", nil)
  check.raises("unknown option 'max'", http.pool, { max = 1 })
  local server <close>, url = serve(function() return "ok" end)
  local wrong = { url = url, body = function() return 1 end }
  check.raises("body: string or nil expected, got number", http.request, wrong)
end

check.run(case)
