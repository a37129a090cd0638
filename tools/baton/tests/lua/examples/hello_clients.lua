-- Runs arg[2] clients of hello_service on the port arg[1]. Each sends a slow request, and must get
-- its answer. A few more connect and send nothing; the service closes their connections.
local process = require "baton.process"
local socket = require "socket"
local port, count = tonumber(arg[1]), tonumber(arg[2])
local SILENT = 20

local sent, all = 0, {}

local function connect()
  local connection = assert(socket.connect("127.0.0.1", port))
  connection:settimeout(120)
  return connection
end

local function note_sent()
  process.critical(function()
    sent = sent + 1
    if sent < count + SILENT then return end
    print "sent"
    io.stdout:flush()
  end)
end

local function ask(i)
  local connection = connect()
  assert(connection:send(("GET /slow?1.%d HTTP/1.1\r\nHost: localhost\r\n\r\n"):format(i % 10)))
  note_sent()
  local head = assert(connection:receive())
  assert(head == "HTTP/1.1 200 OK", head)
  local length
  repeat
    local line = assert(connection:receive())
    length = length or tonumber(line:match "^Content%-Length: (%d+)$")
  until line == ""
  local body = assert(connection:receive(length))
  assert(body == ("hello from /slow?1.%d\n"):format(i % 10), body)
end

local function say_nothing()
  local connection = connect()
  note_sent()
  local answer, why = connection:receive()
  assert(answer == nil and why == "closed", why)
end

for i = 1, count do all[#all + 1] = process.spawn(ask, i) end
for _ = 1, SILENT do all[#all + 1] = process.spawn(say_nothing) end
for _, p in ipairs(all) do
  local ok, why = p:join()
  if not ok then error(why, 0) end
end
print(count .. " answered")
