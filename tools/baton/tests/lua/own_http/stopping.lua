-- The end of a server of baton.http.
local check = require "check"
local process = require "baton.process"
local net = require "baton.net"
local http = require "baton.http"
local case = {}

local GET = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"

local function connect_to(server)
  return assert(net.connect(server:address(), { timeout = 20 })):timeout(20)
end

function case.stopping_ends_idle_connections_and_waits_for_open_requests()
  local go = process.semaphore(0)
  local server = http.serve("127.0.0.1:0", function(req)
    if req.path == "/slow" then go:wait(20) end
    return 200, "done"
  end)
  local idle, busy = connect_to(server), connect_to(server)
  idle:write(GET)
  check.matches(idle:read "line", "200")
  busy:write "GET /slow HTTP/1.1\r\nHost: a\r\n\r\n"
  check.eventually("a handler", function() return server:stats().handlers == 1 end)
  local stopping = process.spawn(server.stop, server, 20)
  repeat
    local data, why = idle:read "some"
  until not data and why == "closed"
  check.equal(net.connect(server:address()), nil)
  go:signal()
  local text = busy:read "all"
  check.matches(text, "\r\nConnection: close\r\n.*done$")
  check.results("stop", { true, 0 }, stopping:join())
  check.equal(server:stop(), 0)
end

function case.stopping_kills_what_does_not_end_and_says_how_many()
  local closed = 0
  local server = http.serve("127.0.0.1:0", function()
    local _ <close> = setmetatable({}, { __close = function() closed = closed + 1 end })
    process.sleep(1000)
  end)
  local clients = {}
  for i = 1, 3 do
    clients[i] = connect_to(server)
    clients[i]:write(GET)
  end
  clients[4] = connect_to(server) -- has sent nothing
  check.eventually("handlers", function() return server:stats().handlers == 3 end)
  check.equal(server:stop(0.01), 3)
  check.equal(closed, 3)
  for _, client in ipairs(clients) do check.equal((client:read "some"), nil) end
  check.equal(server:stats().connections, 0)
end

function case.stopping_under_load_loses_no_request()
  local server = http.serve("127.0.0.1:0", function(req) return 200, req.path end)
  local stops, lost, answered = false, 0, 0
  local function client(number)
    while not stops do
      local conn <close> = net.connect(server:address(), { timeout = 20 })
      if not conn then return end
      for i = 1, 10 do
        local path = ("/%d/%d"):format(number, i)
        conn:write(("GET %s HTTP/1.1\r\nHost: a\r\n\r\n"):format(path))
        local ends, size
        repeat
          local line = conn:read "line"
          if not line then
            lost = lost + 1
            return
          end
          ends = ends or line == "Connection: close"
          size = size or line:match "^Content%-Length: (%d+)$"
        until line == ""
        check.equal(conn:read(tonumber(size)), path)
        answered = answered + 1
        if ends then break end
      end
    end
  end
  local clients = {}
  for i = 1, 20 do clients[i] = process.spawn(client, i) end
  check.eventually("load", function() return answered > 200 end)
  check.equal(server:stop(20), 0)
  stops = true
  check.join_all(clients)
  check.equal(lost, 0)
end

-- A regression: the request had lost its connection when its handler went on.
function case.stopping_ends_handlers_that_read_or_write()
  local server = http.serve("127.0.0.1:0", function(req)
    if req.path == "/body" then
      req:body()
    elseif req.path == "/write" then
      local stream, data = req:stream(), ("x"):rep(1 << 20)
      while stream:write(data) do
      end
    end
    return 200, "x"
  end, { handler_timeout = 1000 })
  local clients = {}
  for i, path in ipairs { "/body", "/write", "/chunks" } do
    clients[i] = connect_to(server)
    local framing = ({ "Content-Length: 5", "A: b", "Transfer-Encoding: chunked" })[i]
    clients[i]:write(("POST %s HTTP/1.1\r\nHost: a\r\n%s\r\n\r\n"):format(path, framing))
  end
  check.eventually("handlers", function() return server:stats().handlers >= 2 end)
  process.sleep(0.01)
  server:stop(0)
  check.equal(server:stats().connections, 0)
  check.equal(server:stats().handlers, 0)
end

function case.a_killed_connection_counts_no_more()
  local server <close> = http.serve("127.0.0.1:0", function() process.current():kill() end)
  local conn = connect_to(server)
  conn:write(GET)
  check.equal((conn:read "some"), nil)
  local stats = server:stats()
  check.equal(stats.connections, 0)
  check.equal(stats.handlers, 0)
end

check.run(case)
