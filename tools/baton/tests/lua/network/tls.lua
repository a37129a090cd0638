-- LuaSec with verified certificates: a server and its clients, with blocking calls and one process
-- per connection.
local check = require "check"
local process = require "baton.process"
local socket = require "socket"
local ssl = require "ssl"
local https = require "ssl.https"
local ltn12 = require "ltn12"
local make_certificate = require "packages.certificate"
local case = {}

process.params.warn_blocked = 60 -- a handshake computes for long on a busy machine

local function new_certificate()
  local dir = check.scratch "certificate"
  assert(os.execute("mkdir '" .. dir .. "'"))
  make_certificate(dir)
  return { key = dir .. "/key.pem", certificate = dir .. "/certificate.pem" }
end

local function serve_by(files, talk)
  local context = assert(
    ssl.newcontext {
      mode = "server",
      protocol = "any",
      key = files.key,
      certificate = files.certificate,
    }
  )
  local server = assert(socket.bind("127.0.0.1", 0, 64))
  process.spawn({ daemon = true, name = "server" }, function()
    while true do
      local plain = assert(server:accept())
      process.spawn({ daemon = true }, function()
        local connection <close> = setmetatable({ socket = assert(ssl.wrap(plain, context)) }, {
          __close = function(self) self.socket:close() end,
        })
        if connection.socket:dohandshake() then talk(connection.socket) end
      end)
    end
  end)
  return (select(2, server:getsockname()))
end

local function serve(files, answer)
  return serve_by(files, function(connection)
    for line in function() return connection:receive() end do
      connection:send(answer(line) .. "\n")
    end
  end)
end

local function connect(port, trusted)
  local plain = assert(socket.connect("127.0.0.1", port))
  local connection = assert(
    ssl.wrap(plain, { mode = "client", protocol = "any", verify = "peer", cafile = trusted })
  )
  local ok, why = connection:dohandshake()
  if not ok then
    connection:close()
    return nil, why
  end
  return connection
end

local function together(n, f) check.join_all(check.spawn_all(n, f)) end

function case.many_clients_talk_to_a_server_that_they_trust()
  local files = new_certificate()
  local port = serve(files, string.upper)
  together(10, function(i)
    local connection = assert(connect(port, files.certificate))
    for round = 1, 10 do
      connection:send("line " .. i .. " " .. round .. "\n")
      check.equal(connection:receive(), "LINE " .. i .. " " .. round)
    end
    connection:close()
  end)
  check.within(process.threads(), 1, 24, "threads")
end

function case.an_untrusted_certificate_is_refused()
  local port = serve(new_certificate(), string.upper)
  local other = new_certificate()
  together(5, function()
    local connection, why = connect(port, other.certificate)
    check.equal(connection, nil)
    check.matches(why, "certificate verify failed")
  end)
end

function case.waits_end_by_kills_and_timeouts()
  local files = new_certificate()
  local port = serve(files, function(line)
    process.sleep(3600)
    return line
  end)
  local victims = {}
  for i = 1, 5 do
    victims[i] = process.spawn(function()
      local connection = assert(connect(port, files.certificate))
      connection:send "question\n"
      connection:receive()
    end)
  end
  local connection = assert(connect(port, files.certificate))
  connection:send "question\n"
  connection:settimeout(0.05)
  check.equal(select(2, connection:receive()), "wantread")
  for i = 1, 5 do check.becomes(victims[i], "waiting") end
  for i = 1, 5 do victims[i]:kill() end
  for i = 1, 5 do check.results("victim", { false, "killed" }, victims[i]:join()) end
end

function case.a_handshake_without_an_answer_stops_no_other_process()
  local silent = assert(socket.bind("127.0.0.1", 0))
  local victim =
    process.spawn(connect, (select(2, silent:getsockname())), new_certificate().certificate)
  check.becomes(victim, "waiting")
  local ticks = 0
  while ticks < 5 do
    process.sleep(0.001)
    ticks = ticks + 1
  end
  victim:kill()
  check.results("victim", { false, "killed" }, victim:join())
end

function case.closing_ends_the_handshake_of_another_process()
  local silent = assert(socket.bind("127.0.0.1", 0))
  local plain = assert(socket.connect("127.0.0.1", (select(2, silent:getsockname()))))
  local connection = assert(ssl.wrap(plain, { mode = "client", protocol = "any", verify = "none" }))
  local handshake = process.spawn(function() return connection:dohandshake() end)
  check.becomes(handshake, "waiting")
  connection:close()
  check.results("handshake", { true, false, "closed" }, handshake:join())
  connection:close()
end

function case.a_timeout_of_a_handshake_holds()
  local silent = assert(socket.bind("127.0.0.1", 0))
  local plain = assert(socket.connect("127.0.0.1", (select(2, silent:getsockname()))))
  local connection = assert(ssl.wrap(plain, { mode = "client", protocol = "any", verify = "none" }))
  for _, mode in ipairs { "b", "t" } do
    connection:settimeout(0.05, mode)
    local before = process.now()
    check.results("handshake", { false, "wantread" }, connection:dohandshake())
    check.within(process.now() - before, 0.049, 30)
    connection:settimeout(nil, mode)
  end
end

-- Handles one request per connection. Answers with its path when `wait(path)` has returned.
local function serve_https(files, wait)
  local port = serve_by(files, function(connection)
    local request, line = connection:receive()
    if not request then return end
    local path = request:match "^GET (%S+)"
    repeat line = connection:receive() until line == "" or line == nil
    if wait then wait(path, connection) end
    connection:send(
      ("HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s"):format(#path, path)
    )
  end)
  return "https://127.0.0.1:" .. port
end

local function get(address, trusted)
  local parts = {}
  local ok, status = https.request {
    url = address,
    sink = ltn12.sink.table(parts),
    verify = "peer",
    cafile = trusted,
  }
  if not ok then return nil, status end
  check.equal(status, 200)
  return table.concat(parts)
end

function case.requests_by_https_trust_one_server_and_refuse_another()
  local files, others = new_certificate(), new_certificate()
  local trusted, stranger = serve_https(files), serve_https(others)
  together(10, function(i)
    if i % 2 == 0 then
      check.equal(get(trusted .. "/" .. i, files.certificate), "/" .. i)
    else
      local body, why = get(stranger .. "/" .. i, files.certificate)
      check.equal(body, nil)
      check.matches(why, "certificate verify failed")
    end
  end)
end

function case.a_request_by_https_can_be_killed_and_times_out()
  local files = new_certificate()
  local asked, closed, may_answer = process.semaphore(0), process.semaphore(0), process.event()
  local base = serve_https(files, function(path, connection)
    asked:signal()
    if path == "/later" then may_answer:wait() end
    if path ~= "/never" then return end
    check.equal((connection:receive()), nil) -- until the other side has closed the connection
    closed:signal()
  end)
  local victims = {}
  for i = 1, 5 do victims[i] = process.spawn(get, base .. "/never", files.certificate) end
  local other = process.spawn(get, base .. "/later", files.certificate)
  for _ = 1, 6 do asked:wait() end
  for i = 1, 5 do check.becomes(victims[i], "waiting") end
  for i = 1, 5 do check.equal(victims[i]:kill(), true) end
  for i = 1, 5 do check.results("victim", { false, "killed" }, victims[i]:join()) end
  victims = nil
  check.eventually("the server sees the connections closed", function()
    collectgarbage()
    return closed:count() == 5
  end)
  https.TIMEOUT = 0.05
  check.results("request", { n = 2, nil, "wantread" }, get(base .. "/never", files.certificate))
  https.TIMEOUT = 60
  may_answer:set()
  check.results("other", { true, "/later" }, other:join())
end

check.run(case)
