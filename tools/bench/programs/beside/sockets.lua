-- Clients of an echo server, beside a long call: `sockets.lua key=value ...`. Two of these programs
-- run, with `role=server` and with `role=clients`. The one that `place` names makes the call. The
-- server prints its port. The clients print the longest and the median time of a request in
-- milliseconds. It counts from the time when the request was due until its answer, so a client that
-- sends late counts as slow. They also print the longest time from sending to the answer.
local process = require "baton.process"
local socket = require "socket"

local options = {}
for _, word in ipairs(arg) do
  local key, value = word:match "^(%w+)=(.*)$"
  options[key] = tonumber(value) or value
end
package.path = arg[0]:gsub("[^/]*$", "?.lua;") .. package.path
local calls = require "calls_that_last"

-- The requests per second of all connections together. The first connection also sends one every 10
-- ms.
local RATE <const> = 1000
local PERIOD <const> = 0.010
-- The number of clients that connect at the same time.
local CONNECTING <const> = 64
local PATIENCE <const> = 60

local ssl = options.transport == "tls" and require "ssl"
local context = ssl and assert(ssl.newcontext(options.role == "server"
  and { mode = "server", protocol = "any", key = options.key, certificate = options.certificate }
  or { mode = "client", protocol = "any", verify = "peer", cafile = options.certificate }))

local function prepare(connection)
  connection:setoption("tcp-nodelay", true)
  if not ssl then return connection end
  local wrapped = assert(ssl.wrap(connection, context))
  assert(wrapped:dohandshake())
  return wrapped
end

-- The main process makes its call itself, when another process asks for it.
local for_main = process.channel(1)

-- Makes the call. Returns how long it took.
local function call_now()
  local made = process.channel(1)
  local call, is_mains = calls.find(options)
  local function make()
    local began = process.now()
    call()
    made:send(process.now() - began)
  end
  if is_mains then for_main:send(make) else process.spawn({ name = options.call }, make) end
  return made:receive()
end

local roles = {}

function roles.server()
  local server = assert(socket.bind("127.0.0.1", 0, 4096))
  local function serve(plain)
    local connection = prepare(plain)
    while true do
      local line = connection:receive()
      if not line then return end
      if line == "call" then line = tostring(call_now()) end
      if not connection:send(line .. "\n") then return end
    end
  end
  process.spawn({ name = "acceptor", daemon = true }, function()
    while true do
      local client = assert(server:accept())
      process.spawn({ daemon = true, quiet = true }, serve, client)
    end
  end)
  calls.prepare(options)
  io.stdout:setvbuf "no"
  print("port " .. select(2, server:getsockname()))
  for make in for_main:values() do make() end
end

local took, longest_sent, is_measuring, outstanding = {}, 0, false, 0

local function ask(connection, line)
  assert(connection:send(line .. "\n"))
  return assert(connection:receive())
end

local function ask_for_ever(connection, number, count)
  local period = number == 1 and PERIOD or math.max(PERIOD, count / RATE)
  local due = process.now() + period * (number - 1) / count
  while true do
    process.sleep_until(due)
    local counts = is_measuring
    local sent = process.now()
    if counts then outstanding = outstanding + 1 end
    assert(ask(connection, "question") == "question")
    if counts then
      local now = process.now()
      took[#took + 1] = now - due
      longest_sent = math.max(longest_sent, now - sent)
      outstanding = outstanding - 1
    end
    due = math.max(due + period, process.now())
  end
end

local function connect()
  return prepare(assert(socket.connect("127.0.0.1", options.port)))
end

local function connect_all(count)
  local connecting, connected = process.semaphore(CONNECTING), process.semaphore(0)
  local begin = process.event()
  for number = 1, count do
    connecting:wait()
    process.spawn({ daemon = true }, function()
      local connection = connect()
      connecting:signal()
      connected:signal()
      begin:wait()
      ask_for_ever(connection, number, count)
    end)
  end
  for _ = 1, count do assert(connected:wait(PATIENCE), "a connection was not made in time") end
  begin:set()
end

local function measure()
  local control = options.place == "server" and connect()
  connect_all(options.connections)
  process.sleep(0.2)
  is_measuring = true
  process.sleep(0.2)
  local lasted
  if control then lasted = tonumber(ask(control, "call")) else lasted = call_now() end
  process.sleep(0.2)
  is_measuring = false
  local patience = process.now() + PATIENCE
  while outstanding > 0 do
    assert(process.now() < patience, "a question was never answered")
    process.sleep(0.001)
  end
  table.sort(took)
  print("worst_ms", took[#took] * 1e3)
  print("worst_from_sending_ms", longest_sent * 1e3)
  print("median_ms", took[#took // 2 + 1] * 1e3)
  print("asked", #took)
  print("lasted_s", lasted)
  io.stdout:flush()
  os.exit(0)
end

function roles.clients()
  calls.prepare(options)
  process.spawn({ name = "measure" }, function()
    local ok, why = xpcall(measure, debug.traceback)
    if not ok then
      io.stderr:write(why, "\n")
      os.exit(1)
    end
  end)
  for make in for_main:values() do make() end
end

roles[options.role]()
