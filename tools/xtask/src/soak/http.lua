-- A server of baton.http with good and bad clients for some seconds: `http.lua seed seconds`. Each
-- request has a number, and its answer must have the same. The server is stopped under load again
-- and again, and another one has its port. A request that a handler got is answered, no bad request
-- reaches a handler, and after each server there are no more threads, processes, memory or
-- descriptors than after the first. A text on stderr is a failure. To narrow a failure down, only
-- some clients come: `http.lua seed seconds pipelines slow_head`.
local process = require "baton.process"
local net = require "baton.net"
local http = require "baton.http"
local seed, seconds = tonumber(arg[1]), tonumber(arg[2])

local directory = arg[0]:match "^(.*)/" or "."
package.path = directory .. "/?.lua;" .. package.path
local Random = require "random"

local CLIENTS = 24
local WAIT = 60 -- seconds for one step of a client, and for the end of a server
local HEADER_TIMEOUT, BODY_TIMEOUT, HANDLER_TIMEOUT = 1, 2, 1
local TOO_SLOW = 600 -- seconds that a handler sleeps which is ended
local LARGE = 1 << 20 -- bytes of a reply that its client may not read

local count = setmetatable({}, { __index = function() return 0 end })
local function add(name, n) count[name] = count[name] + (n or 1) end

local function expect(holds, what, ...)
  if not holds then error(("seed %d: " .. what):format(seed, ...), 2) end
end

-- {== The server

local page = {}

function page.short(req) return 200, req.query.n, { ["X-Number"] = req.query.n } end

function page.computes(req)
  local sum = 0
  for i = 1, 20000 do sum = (sum + i * i) % 1000003 end
  return 200, req.query.n, { ["X-Number"] = req.query.n, ["X-Sum"] = sum }
end

function page.streams(req, res)
  local stream <close> = res:stream(200, { ["X-Number"] = req.query.n })
  for _, part in ipairs { req.query.n:sub(1, 1), req.query.n:sub(2) } do
    if part ~= "" and not stream:write(part) then return end
    process.sleep(0.001)
  end
end

function page.events(req, res)
  res:set("X-Number", req.query.n)
  local events <close> = res:events { heartbeat = false }
  for i = 1, 3 do
    if not events:send { id = i, data = req.query.n } then return end
    process.yield()
  end
end

function page.fails() error "a failure of the soak" end
function page.too_slow() process.sleep(TOO_SLOW) end

function page.echoes(req, res)
  local value = req:json()
  if not value then return 400, "no JSON" end
  res:json(200, { number = value.number }, { ["X-Number"] = req.query.n })
end

function page.large(req) return 200, ("x"):rep(LARGE), { ["X-Number"] = req.query.n } end

function page.body(req)
  local body, why = req:body()
  if not body then error(why, 0) end
  return 200, body, { ["X-Number"] = req.query.n }
end

-- A server with what is counted of its requests: `begun[n]` if a handler got the number n.
local function serve(address, has_timeout)
  local round = { begun = {}, calls = 0, failures = 0, has_timeout = has_timeout }
  local why
  round.server, why = http.serve(address, function(req, res)
    round.calls = round.calls + 1
    local handler = page[req.path:sub(2)]
    expect(handler and tonumber(req.query.n), "a handler got %s %s", req.method, req.target)
    expect(not round.begun[req.query.n], "a handler got the request %s twice", req.query.n)
    round.begun[req.query.n] = true
    return handler(req, res)
  end, {
    header_timeout = HEADER_TIMEOUT,
    body_timeout = BODY_TIMEOUT,
    handler_timeout = has_timeout and HANDLER_TIMEOUT or nil,
    max_connections = CLIENTS,
    on_error = function(message)
      if message:find("seed", 1, true) then io.stderr:write(message, "\n") end
      round.failures = round.failures + 1
    end,
  })
  expect(round.server, "no server at %s: %s", address, why)
  return round
end

-- ==}

-- {== What clients have in common

local last = 0
local function number()
  last = last + 1
  return tostring(last)
end

-- A connection; nil if the server is about to stop.
local function connect(round)
  local conn, why = net.connect(round.server:address(), { timeout = WAIT })
  expect(conn or round.stops, "no connection: %s", why)
  return conn and conn:timeout(WAIT)
end

local function request(path, n, fields, body)
  return ("%s /%s?n=%s HTTP/1.1\r\nHost: soak\r\n%s\r\n%s"):format(
    body and "POST" or "GET",
    path,
    n,
    fields or (body and ("Content-Length: %d\r\n"):format(#body)) or "",
    body or ""
  )
end

local function chunk(conn)
  local line = conn:read "line"
  local size = line and tonumber(line, 16)
  local data = size and conn:read(size)
  return data and conn:read "line" == "" and data
end

-- Reads a reply: its status, body and fields; nil if it is not there or not whole.
local function reply_of(conn)
  local status = (conn:read "line" or ""):match "^HTTP/1.1 (%d%d%d) "
  if not status then return end
  local fields = {}
  for line in function() return (conn:read "line") end do
    if line == "" then break end
    local name, value = line:match "^([^:]+): (.*)$"
    expect(name, "no field: %q", line)
    fields[name:lower()] = value
  end
  local size = tonumber(fields["content-length"])
  if size then
    local body = size == 0 and "" or conn:read(size)
    return body and #body == size and tonumber(status), body, fields
  end
  expect(fields["transfer-encoding"] == "chunked", "a reply %s without a length", status)
  local parts = {}
  repeat
    local data = chunk(conn)
    if not data then return end
    parts[#parts + 1] = data
  until data == ""
  return tonumber(status), table.concat(parts), fields
end

-- Whether the reply of a request came and is right. The server may close a connection before a
-- handler has the request, if it is about to stop.
local function answered(round, conn, path, n, wanted)
  local status, body, fields = reply_of(conn)
  if not status then
    local is_lost = round.begun[n] or not round.stops
    expect(round.kills or not is_lost, "the request %s of '%s' has no answer", n, path)
    add "unanswered"
    return false
  end
  local expected = ({ fails = 500, too_slow = 504 })[path] or 200
  expect(status == expected, "'%s' gave %d, not %d", path, status, expected)
  if expected == 200 then
    local got = fields["x-number"]
    expect(got == n, "the request %s got the answer of %s", n, tostring(got))
    expect(body == (wanted or n), "the request %s of '%s' got %.100q", n, path, body)
  end
  add "answers"
  return fields.connection ~= "close"
end

-- Waits until the server ends a connection.
local function ended(conn, what)
  local _, why
  repeat
    local data
    data, why = conn:read "some"
  until not data
  expect(why ~= "timeout", "%s: the server does not end the connection", what)
end

-- ==}

-- {== Clients

local client = {}
local PATHS = { "short", "short", "short", "computes", "streams", "events", "fails", "echoes" }

local EVENTS = "id: 1\ndata: %s\n\nid: 2\ndata: %s\n\nid: 3\ndata: %s\n\n"

-- A path with its body and the body of its answer.
local function choose(random, n)
  local path = random:pick(PATHS)
  if path == "echoes" then return path, ('{"number":%s}'):format(n), ('{"number":%s}'):format(n) end
  return path, nil, path == "events" and EVENTS:format(n, n, n) or nil
end

function client.keeps_alive(round, random)
  local conn <close> = connect(round)
  for _ = 1, conn and random:between(1, 10) or 0 do
    local n = number()
    local path, body, wanted = choose(random, n)
    conn:write(request(path, n, nil, body))
    if not answered(round, conn, path, n, wanted) then return end
    process.sleep(random:below(20) / 1000)
  end
end

function client.pipelines(round, random)
  local conn <close> = connect(round)
  if not conn then return end
  local sent, text = {}, {}
  for i = 1, random:between(2, 20) do
    local n = number()
    local path, body, wanted = choose(random, n)
    sent[i], text[i] = { path, n, wanted }, request(path, n, nil, body)
  end
  conn:write(table.concat(text))
  for i, one in ipairs(sent) do
    if not answered(round, conn, table.unpack(one, 1, 3)) then
      for rest = i + 1, #sent do
        expect(not round.begun[sent[rest][2]], "a request behind the last answer was handled")
      end
      return
    end
  end
end

function client.sends_bodies(round, random)
  local conn <close> = connect(round)
  if not conn then return end
  local n = number()
  local body = n .. ("y"):rep(random:below(100000))
  if random:below(2) == 0 then
    conn:write(request("body", n, nil, body))
  else
    conn:write(request("body", n, "Transfer-Encoding: chunked\r\n", ""))
    local at = 1
    while at <= #body do
      local part = body:sub(at, at + random:between(1, 30000))
      at = at + #part
      conn:write(("%x\r\n"):format(#part), part, "\r\n")
    end
    conn:write "0\r\n\r\n"
  end
  answered(round, conn, "body", n, body)
end

function client.waits_too_long(round)
  if not round.has_timeout then return end
  local conn <close> = connect(round)
  if not conn then return end
  local n = number()
  conn:write(request("too_slow", n))
  answered(round, conn, "too_slow", n)
end

function client.slow_head(round, random)
  local conn <close> = connect(round)
  if not conn then return end
  local text = request("never", "x", "X-A: b\r\n")
  local begin = process.now()
  for i = 1, #text - 2 do
    if not conn:write(text:sub(i, i)) then break end
    if process.now() - begin > 2 * HEADER_TIMEOUT or round.stops then break end
    process.sleep(random:between(20, 60) / 1000)
  end
  local status = reply_of(conn)
  expect(not status or status == 408, "a slow head got %s", tostring(status))
  ended(conn, "a slow head")
  add "bad"
end

function client.floods_head(round)
  local conn <close> = connect(round)
  if not conn then return end
  conn:write "GET /never?n=x HTTP/1.1\r\nHost: soak\r\n"
  local line, sent = "X-Flood: " .. ("z"):rep(4000) .. "\r\n", 0
  while conn:write(line) do
    sent = sent + #line
    expect(sent < 64 << 20, "the server reads a head without end")
  end
  add "bad"
end

local BAD = {
  "POST /never HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0",
  "POST /never HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
  "POST /never HTTP/1.1\r\nHost: a\r\nContent-Length: +3\r\n\r\nabc",
  "POST /never HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
  "GET /never HTTP/1.1\r\nHost: a\r\nA: b\r\n c\r\n\r\n",
  "GET /never HTTP/1.1\nHost: a\n\n",
  "GET /never HTTP/1.1\r\nHost : a\r\n\r\n",
  "GET /never HTTP/1.1\r\n\r\n",
  "\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
}

-- A good request may be before the bad one. A good one after it must not be answered.
function client.smuggles(round, random)
  local conn <close> = connect(round)
  if not conn then return end
  if random:below(2) == 0 then
    local n = number()
    conn:write(request("short", n))
    if not answered(round, conn, "short", n) then return end
  end
  local hidden, bad = number(), random:pick(BAD)
  conn:write(bad, request("short", hidden))
  local status = reply_of(conn)
  expect(status == 400 or not status and round.stops, "%q got %s", bad, tostring(status))
  conn:shutdown()
  ended(conn, "a bad request")
  expect(not round.begun[hidden], "a request behind a bad one was handled")
  add "bad"
end

-- Ends in the middle of its head, its body, or the reply.
function client.breaks_off(round, random)
  local conn <close> = connect(round)
  if not conn then return end
  local n = number()
  local path = random:pick { "short", "body", "large", "streams", "events", "echoes" }
  local body = (path == "body" or path == "echoes") and ("y"):rep(5000) or nil
  local text = request(path, n, nil, body)
  if random:below(2) == 0 then
    conn:write(text:sub(1, random:between(1, #text)))
  elseif path ~= "echoes" then
    conn:write(text)
    conn:read(random:between(1, 40))
  end
  process.sleep(random:below(5) / 1000)
  add "broken_off"
end

-- A client that is killed while it waits.
function client.is_killed(round, random)
  local victim = process.spawn({ quiet = true }, function()
    client.keeps_alive(round, random)
    client.pipelines(round, random)
  end)
  process.sleep(random:below(20) / 1000)
  if victim:kill "soak" then add "kills" end
  local ok, why = victim:join()
  expect(ok or why == "soak", "a client: %s", tostring(why))
end

local kinds = {}
for name in pairs(client) do kinds[#kinds + 1] = name end
table.sort(kinds)
for _ = 1, 5 do table.move({ "keeps_alive", "pipelines" }, 1, 2, #kinds + 1, kinds) end
if arg[3] then kinds = table.move(arg, 3, #arg, 1, {}) end

-- ==}

-- {== What the program holds

local function status_of(name)
  for line in io.lines "/proc/self/status" do
    local value = line:match("^" .. name .. ":%s*(%d+)")
    if value then return tonumber(value) end
  end
end

local function descriptors()
  local n = 0
  for descriptor = 0, 1023 do
    local file = io.open("/proc/self/fdinfo/" .. descriptor)
    if file then
      n = n + 1
      file:close()
    end
  end
  return n
end

local function held()
  collectgarbage()
  collectgarbage()
  return {
    descriptors = descriptors(),
    processes = #process.list(),
    threads = status_of "Threads",
    rss_kib = status_of "VmRSS",
    lua_kib = collectgarbage "count",
  }
end

-- Waits until the program holds no more than `begin`.
local function nothing_is_left(begin)
  local deadline, now = process.now() + WAIT, nil
  repeat
    now = held()
    local names = { "threads", "processes", "descriptors" }
    local is_less = true
    for _, name in ipairs(names) do is_less = is_less and now[name] <= begin[name] end
    if is_less then break end
    expect(
      process.now() < deadline,
      "left: %d threads (%d at first), %d processes (%d), %d descriptors (%d)",
      now.threads, begin.threads, now.processes, begin.processes, now.descriptors, begin.descriptors
    )
    process.sleep(0.02)
  until false
  local grown = now.lua_kib - begin.lua_kib
  expect(grown < 2000, "%.0f KiB of Lua's memory are left", grown)
  expect(now.rss_kib < begin.rss_kib + 80000, "%d KiB of memory are left, %d at first", now.rss_kib,
    begin.rss_kib)
  return now
end

-- ==}

-- {== Rounds

local address = "127.0.0.1:0"

local function check_stats(round)
  local stats = round.server:stats()
  expect(stats.connections == 0, "%d connections are left", stats.connections)
  expect(stats.handlers == 0, "%d handlers are left", stats.handlers)
  expect(stats.requests == round.calls, "%d requests are counted, and %d came", stats.requests,
    round.calls)
  expect(stats.failures == round.failures, "%d failures are counted, and %d came", stats.failures,
    round.failures)
  local replies = 0
  for _, n in ipairs(stats.replies) do replies = replies + n end
  expect(replies <= stats.requests + stats.refused, "%d replies to %d requests and %d refused ones",
    replies, stats.requests, stats.refused)
  add("requests", stats.requests)
  add("refused", stats.refused)
  add("timeouts", stats.timeouts)
end

-- One server from its start to its end, with clients all the time.
local function run(which, length, kills)
  local random = Random.new(seed * 1000 + which)
  local round = serve(address, random:below(2) == 0)
  address = round.server:address()
  process.scope(function(scope)
    for i = 1, CLIENTS do
      local own = Random.new((seed * 1000 + which) * 100 + i)
      scope:spawn({ name = "client " .. i }, function()
        while not round.stops do
          client[own:pick(kinds)](round, own)
          add "actions"
        end
      end)
    end
    process.sleep(length)
    round.kills = kills
    round.stops = true
    local begin = process.now()
    local killed = round.server:stop(kills and 0 or WAIT)
    expect(kills or killed == 0, "%d requests were killed after %.1f s", killed,
      process.now() - begin)
    add("killed", killed)
  end)
  check_stats(round)
  add "servers"
end

-- ==}

process.params.thread_idle = 0.05
local watchdog = process.spawn({ daemon = true }, function()
  process.sleep(seconds + 2 * WAIT)
  io.stderr:write(("soak: seed %d: the servers or the clients do not end\n"):format(seed))
  for _, p in ipairs(process.list()) do
    io.stderr:write(p.name or p.id, " ", p:status(), "\n", p:traceback(), "\n")
  end
  os.exit(1)
end)
local ticker = process.spawn({ daemon = true }, function()
  while true do
    process.sleep(1)
    print("progress", count.actions)
    io.stdout:flush()
  end
end)

local random = Random.new(seed)
local deadline, which, begin, now = process.now() + seconds, 1, nil, nil
repeat
  run(which, random:between(200, 2000) / 1000, which % 4 == 0)
  if begin then
    now = nothing_is_left(begin)
  elseif which == 2 then
    process.sleep(4 * process.params.thread_idle)
    begin = held()
    now = begin
  end
  which = which + 1
until process.now() >= deadline and begin
ticker:kill()
watchdog:kill()

if not arg[3] then
  for _, name in ipairs { "answers", "bad", "broken_off", "kills" } do
    expect(count[name] > 0, "no %s in %d s", name, seconds)
  end
end
for _, name in ipairs {
  "actions", "servers", "requests", "answers", "unanswered", "refused", "timeouts", "bad",
  "broken_off", "kills", "killed",
} do
  print(name, count[name])
end
print(("lua_kib %.0f"):format(now.lua_kib))
print("rss_kib", now.rss_kib)
print "passed"
