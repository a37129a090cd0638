-- A small HTTP service as a service manager runs one. hello_service.service and
-- hello_service.socket beside this file are its units for systemd.
--
--   baton examples/hello_service.lua [PORT]
--
--   GET /any/path        200, and a greeting      GET /slow?SECONDS        the same, later
--
-- It takes its socket from the manager, or opens one itself and prints the port. It reports to the
-- manager when it is ready. If the manager has a watchdog, it also reports that it still runs.
--
--   SIGTERM, SIGINT      accepts no more connections, answers all requests that have arrived, and
--                        ends with status 0
--   SIGHUP               reads its greeting again, from the variable GREETING_FILE
--
-- Each client has a process. A handler may be slow, or even loop for ever: it delays no other
-- client, and its request ends at a deadline.

local process = require "baton.process"
local socket = require "socket"

local GRACE = 20 -- seconds for requests at the end
local IDLE = 60 -- seconds that a client may keep a connection without a request
local DEADLINE = 30 -- seconds for an answer
local BACKLOG = 4096 -- connections that wait to be accepted
local BREAK = 0.05 -- seconds without an accept, when there are too many clients

local greeting = "hello"
local stopping = false
local clients = {} -- the set of open connections

-- {======================================================
-- Requests
-- ======================================================

local function read_greeting()
  local file = os.getenv "GREETING_FILE" and io.open(os.getenv "GREETING_FILE")
  if not file then return end
  greeting = file:read "l" or greeting
  file:close()
end

local function handle(path)
  local seconds = path:match "^/slow%?([%d.]+)$"
  if seconds then process.sleep(tonumber(seconds) or 0) end
  return 200, ("%s from %s\n"):format(greeting, path)
end

-- Reads a request. Returns its path, and whether the client keeps the connection.
local function read_request(connection)
  local method, path, version = (connection:receive() or ""):match "^(%u+) (%S+) HTTP/1%.(%d)$"
  if not method then return nil end
  local keep = version == "1"
  while true do
    local line = connection:receive()
    if not line then return nil end
    if line == "" then return path, keep end
    if line:lower() == "connection: close" then keep = false end
  end
end

local function answer(connection, path, keep)
  local ok, in_time, status, body = pcall(process.timeout, DEADLINE, handle, path)
  if not ok then status, body = 500, "it failed\n" end
  if ok and not in_time then status, body = 503, "it took too long\n" end
  keep = keep and not stopping
  local head = ("HTTP/1.1 %d -\r\nContent-Length: %d\r\nConnection: %s\r\n\r\n"):format(
    status,
    #body,
    keep and "keep-alive" or "close"
  )
  return connection:send(head .. body) and keep
end

-- Data that has arrived is still read and answered. Then the connection is at its end.
local function hear_no_more(connection) connection:shutdown "receive" end

local function serve(connection)
  local _ <close> = setmetatable({}, { __close = function()
    clients[connection] = nil
    connection:close()
  end })
  connection:setoption("tcp-nodelay", true)
  connection:settimeout(IDLE)
  local keep
  repeat
    local path, wants_more = read_request(connection)
    keep = path and answer(connection, path, wants_more)
  until not keep
end

-- }======================================================

-- {======================================================
-- Connections
-- ======================================================

-- The manager's socket, or a new one.
local function open_listener(port)
  local passed = process.listen_fds()[1]
  local listener = socket.tcp()
  if passed then
    listener:setfd(passed.fd)
  else
    listener:setoption("reuseaddr", true)
    assert(listener:bind("127.0.0.1", port))
  end
  assert(listener:listen(BACKLOG)) -- LuaSocket must know that it listens, even if it does already
  if not passed then print("port " .. select(2, listener:getsockname())) end
  return listener
end

local function accept_one(listener)
  local connection, why = listener:accept()
  if connection then
    clients[connection] = true
    process.spawn({ daemon = true }, serve, connection)
  end
  return connection, why
end

-- Accepts all clients that wait: each in one step, so that a kill loses no connection.
local function accept_waiting(listener)
  local connection, why
  repeat connection, why = process.critical(accept_one, listener) until not connection
  return why
end

local function accept_for_ever(listener)
  listener:settimeout(0)
  while true do
    socket.select({ listener })
    if accept_waiting(listener) ~= "timeout" then process.sleep(BREAK) end
  end
end

-- Answers all requests, also those of clients that wait for accept. Returns how many connections
-- were cut off.
local function drain(listener, acceptor)
  stopping = true
  process.notify "STOPPING=1"
  acceptor:kill()
  acceptor:join()
  accept_waiting(listener)
  listener:close()
  for connection in pairs(clients) do hear_no_more(connection) end
  local deadline = process.now() + GRACE
  while next(clients) and process.now() < deadline do process.sleep(0.01) end
  local count = 0
  for _ in pairs(clients) do count = count + 1 end
  return count
end

-- }======================================================

local function keep_the_watchdog_quiet()
  local interval = tonumber(os.getenv "WATCHDOG_USEC")
  if interval then process.every(interval / 2e6, process.notify, "WATCHDOG=1") end
end

local signals = process.signals("TERM", "INT", "HUP")
read_greeting()
local listener = open_listener(tonumber(arg[1]) or 8080)
local acceptor = process.spawn({ name = "acceptor", daemon = true }, accept_for_ever, listener)
keep_the_watchdog_quiet()
io.stdout:flush()
process.notify "READY=1"

for signal in signals:values() do
  if signal ~= "HUP" then break end
  read_greeting()
end

local cut_off = drain(listener, acceptor)
print(cut_off == 0 and "all requests answered" or cut_off .. " requests cut off")
os.exit(0, true)
