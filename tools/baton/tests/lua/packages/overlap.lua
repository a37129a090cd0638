-- Blocking calls of modules whose policy is built in, beside other processes: overlap.lua CASE.
local process = require "baton.process"

local cases = {}

-- Calls `f` while another process ticks; answers how often it could.
local function ticks_beside(f)
  local ticks = 0
  local ticker = process.spawn({ daemon = true, priority = 60 }, function()
    while true do
      process.sleep(0.001)
      ticks = ticks + 1
    end
  end)
  f()
  ticker:kill()
  return ticks
end

function cases.postgres()
  local driver = require "luasql.postgres"
  local environment = driver.postgres()
  local connections, queries = {}, {}
  for i = 1, 50 do
    connections[i] = assert(environment:connect("host=" .. os.getenv "SERVER" .. " user=baton dbname=postgres"))
  end
  local before = process.now()
  for i, connection in ipairs(connections) do
    queries[i] = process.spawn(function() return connection:execute("select pg_sleep(1)"):fetch() end)
  end
  for _, query in ipairs(queries) do assert(query:join()) end
  local elapsed = process.now() - before
  io.stderr:write(("50 queries of 1 s each: %.3f s\n"):format(elapsed))
  assert(elapsed < 25, "they did not overlap")
  assert(process.stats().descriptor_waits >= 50 and process.threads() < 25, "they did not park")
  -- A kill ends the wait; the connection is left as it is.
  local victim = process.spawn(function() connections[1]:execute "select pg_sleep(60)" end)
  repeat process.sleep(0.001) until victim:status() == "waiting"
  victim:kill()
  assert(select(2, victim:join()) == "killed")
end

local LONG_QUERY = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 3000000) select count(*) from n"

function cases.sqlite()
  local driver = require "luasql.sqlite3"
  local environment = driver.sqlite3()
  local connection = assert(environment:connect ":memory:")
  local other = assert(environment:connect ":memory:")
  local count
  local ticks = ticks_beside(function()
    local cursor = assert(connection:execute(LONG_QUERY))
    count = cursor:fetch()
  end)
  assert(tonumber(count) == 3000000, count)
  assert(ticks > 5, ticks)
  -- One call into the module at a time: the second one waits, and is right all the same.
  local long = process.spawn(function() return (assert(connection:execute(LONG_QUERY)):fetch()) end)
  local short = process.spawn(function() return (assert(other:execute "select 42"):fetch()) end)
  local _, of_long = long:join()
  local _, of_short = short:join()
  assert(tonumber(of_long) == 3000000 and tonumber(of_short) == 42)
end

-- Until the process waits for a socket.
local function await(p)
  while p:status() ~= "waiting" do process.sleep(0.001) end
end

function cases.sockets()
  local socket = require "socket"
  local server = assert(socket.bind("127.0.0.1", 0))
  local address, port = server:getsockname()
  local clients, readers = {}, {}
  for i = 1, 20 do
    clients[i] = assert(socket.connect(address, port))
    local accepted = assert(server:accept())
    readers[i] = process.spawn(function() return (accepted:receive "*l") end)
  end
  local accepting = process.spawn(function() return server:accept() end)
  for _, reader in ipairs(readers) do await(reader) end
  await(accepting)
  assert(process.threads() < 12, process.threads())
  for i = #clients, 1, -1 do assert(clients[i]:send(i .. "\n")) end
  for i, reader in ipairs(readers) do
    local _, line = reader:join()
    assert(tonumber(line) == i, line)
  end
  server:close() -- ends the other call about the server
  local ok, accepted, why = accepting:join()
  assert(ok and not accepted and why == "Bad file descriptor", why)
end

function cases.tls()
  local socket, ssl = require "socket", require "ssl"
  local server = assert(socket.bind("127.0.0.1", 0))
  local address, port = server:getsockname()
  local client = assert(socket.connect(address, port))
  local silent = assert(server:accept())
  local connection = assert(ssl.wrap(client, { mode = "client", protocol = "any", verify = "none" }))
  local handshake = process.spawn(function() return connection:dohandshake() end)
  await(handshake) -- the other side says nothing
  silent:close()
  local _, done = handshake:join()
  assert(not done)
end

-- All of luaossl's texts are written in one buffer of the module: its calls come one at a time.
function cases.texts()
  local pkey = require "openssl.pkey"
  process.params.slice = 0.0001
  process.params.window = 0.00002
  local keys, works = {}, {}
  for i = 1, 4 do
    local key = pkey.new { type = "EC", curve = "prime256v1" }
    keys[i] = { key = key, text = key:toPEM "private" }
  end
  for i, one in ipairs(keys) do
    works[i] = process.spawn(function()
      for _ = 1, 500 do
        if one.key:toPEM "private" ~= one.text then return false end
      end
      return true
    end)
  end
  for _, work in ipairs(works) do
    local ok, same = work:join()
    assert(ok and same, same)
  end
end

function cases.streams()
  local zlib = require "zlib"
  local text = ("The quick brown fox. "):rep(400000)
  local works = {}
  local ticks = ticks_beside(function()
    for i = 1, 4 do
      works[i] = process.spawn(function()
        local packed = zlib.deflate(9)(i .. text, "finish")
        return zlib.inflate()(packed) == i .. text
      end)
    end
    for _, work in ipairs(works) do
      local ok, same = work:join()
      assert(ok and same)
    end
  end)
  assert(ticks > 5, ticks)
end

assert(cases[arg[1]], "no such case")()
print("passed")
