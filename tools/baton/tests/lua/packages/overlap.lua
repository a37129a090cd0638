-- Blocking calls of modules with a built-in policy, beside other processes: overlap.lua CASE.
local process = require "baton.process"

local cases = {}

-- Calls `f` while another process ticks. Returns the number of ticks.
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

-- Each of these processes returns true, or what is wrong.
local function all_are_right(works)
  for _, work in ipairs(works) do
    local ok, right = work:join()
    assert(ok and right == true, right)
  end
end

function cases.postgres()
  local driver = require "luasql.postgres"
  local environment = driver.postgres()
  local connections, queries = {}, {}
  for i = 1, 50 do
    connections[i] =
      assert(environment:connect("host=" .. os.getenv "SERVER" .. " user=baton dbname=postgres"))
  end
  local before = process.now()
  for i, connection in ipairs(connections) do
    queries[i] = process.spawn(
      function() return connection:execute("select pg_sleep(1)"):fetch() end
    )
  end
  for _, query in ipairs(queries) do assert(query:join()) end
  local elapsed = process.now() - before
  io.stderr:write(("50 queries of 1 s each: %.3f s\n"):format(elapsed))
  assert(elapsed < 25, "they did not overlap")
  -- libpq waits on a native thread, so the kill takes effect when the query has ended.
  local victim = process.spawn(function() connections[1]:execute "select pg_sleep(1)" end)
  repeat process.sleep(0.001) until victim:status() == "foreign"
  victim:kill()
  assert(select(2, victim:join()) == "killed")
end

local LONG_QUERY = "with recursive n(i) as "
  .. "(select 1 union all select i + 1 from n where i < 3000000) select count(*) from n"

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
  -- One call at a time is about a connection, with its cursors. A call about another one overlaps.
  local function query(one, text)
    return function() return tonumber((assert(one:execute(text)):fetch())) end
  end
  local cursor = assert(connection:execute "select 1 union select 2")
  local long = process.spawn(query(connection, LONG_QUERY))
  repeat process.sleep(0.001) until long:status() == "foreign"
  local short = process.spawn(query(other, "select 42"))
  assert(select(2, short:join()) == 42)
  assert(long:status() == "foreign", "the other connection has waited")
  local same = process.spawn(function() return tonumber((cursor:fetch())) end)
  repeat process.sleep(0.001) until same:status() == "waiting" or long:status() ~= "foreign"
  assert(select(2, long:join()) == 3000000)
  assert(select(2, same:join()) == 1)
end

-- Waits until the process waits for a socket.
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
  server:close() -- ends the other call on the server
  local ok, accepted, why = accepting:join()
  assert(ok and not accepted and why == "closed", why)
end

function cases.tls()
  local socket, ssl = require "socket", require "ssl"
  local server = assert(socket.bind("127.0.0.1", 0))
  local address, port = server:getsockname()
  local client = assert(socket.connect(address, port))
  local silent = assert(server:accept())
  local connection =
    assert(ssl.wrap(client, { mode = "client", protocol = "any", verify = "none" }))
  local handshake = process.spawn(function() return connection:dohandshake() end)
  await(handshake) -- the other side sends nothing
  silent:close()
  local _, done = handshake:join()
  assert(not done)
end

-- luaossl writes all its texts into one buffer of the module, so its calls run one at a time.
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
  all_are_right(works)
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
    all_are_right(works)
  end)
  assert(ticks > 5, ticks)
end

-- Decodes `text` in several processes, beside one that ticks and one that collects. During `encode`
-- no other process runs.
local function decodes(decode, encode, is_right, text)
  local works, done = {}, false
  local ticks = ticks_beside(function()
    local collector = process.spawn(function()
      while not done do
        collectgarbage "step"
        process.yield()
      end
    end)
    for i = 1, 3 do works[i] = process.spawn(function() return is_right(decode(text)) end) end
    all_are_right(works)
    done = true
    assert(collector:join())
  end)
  assert(ticks > 5, ticks)
  local value = decode(text)
  process.params.warn_blocked = 3600
  local during = process.spawn({ priority = 70 }, function()
    return ticks_beside(function() encode(value) end)
  end)
  assert(select(2, during:join()) <= 1, "a table is encoded in one piece")
end

local function json_of(n)
  local parts = {}
  for i = 1, n do
    parts[i] = ('{"id":%d,"name":"name %d","tags":["a",%d.5,true,null]}'):format(i, i, i)
  end
  return "[" .. table.concat(parts, ",") .. "]"
end

local function is_json(value)
  for i = 1, 30000 do
    local one = value[i]
    if one.id ~= i or one.name ~= "name " .. i or one.tags[2] ~= i + 0.5 or one.tags[3] ~= true then
      return false
    end
  end
  return #value == 30000
end

function cases.json()
  local cjson = require "cjson"
  decodes(cjson.decode, cjson.encode, is_json, json_of(30000))
end

function cases.safe_json()
  local cjson = require "cjson.safe"
  decodes(cjson.decode, cjson.encode, is_json, json_of(30000))
  assert(cjson.decode "{" == nil)
end

-- A pattern serves one process at a time. Another process uses a second pattern meanwhile.
function cases.patterns()
  local lpeg = require "lpeg"
  local text = ("abc de "):rep(100000)
  local function new_pattern()
    return lpeg.Ct((lpeg.C(lpeg.R "az" ^ 1) * lpeg.P " " ^ -1) ^ 0)
  end
  local shared = new_pattern()
  local works = {}
  local ticks = ticks_beside(function()
    for i = 1, 4 do
      works[i] = process.spawn(function()
        local pattern = i <= 2 and shared or new_pattern()
        local words = pattern:match(text)
        return #words == 200000 and words[199999] == "abc" and words[200000] == "de"
      end)
    end
    all_are_right(works)
  end)
  assert(ticks > 5, ticks)
end

-- A regular expression has room for one result. Its methods let other processes run; other calls on
-- it wait.
function cases.expressions()
  local rex = require(os.getenv "FLAVOUR")
  local expression = rex.new "(a*)*(b|c)(d*)e$"
  local text = ("a"):rep(40) .. "c" .. ("d"):rep(5)
  local subject = (text .. "f "):rep(2000) .. text .. "e"
  local works = {}
  for i = 1, 6 do
    works[i] = process.spawn(function()
      for _ = 1, 3 do
        local _, what, last
        if i % 2 == 0 then
          _, what, last = expression:match(subject)
        else
          _, what, last = rex.match(subject, expression)
        end
        if what ~= "c" or last ~= "ddddd" then return tostring(what) .. tostring(last) end
      end
      return true
    end)
  end
  all_are_right(works)
end

function cases.documents()
  local lxp = require "lxp"
  local document = "<list>" .. ("<item id='1'>text</item>"):rep(30000) .. "</list>"
  local works = {}
  local ticks = ticks_beside(function()
    for i = 1, 3 do
      works[i] = process.spawn(function()
        local starts, ends, length = 0, 0, 0
        local parser = lxp.new {
          StartElement = function() starts = starts + 1 end,
          EndElement = function() ends = ends + 1 end,
          CharacterData = function(_, text) length = length + #text end,
        }
        assert(parser:parse(document))
        assert(parser:parse())
        parser:close()
        return starts == 30001 and ends == 30001 and length == 120000
      end)
    end
    all_are_right(works)
  end)
  assert(ticks > 5, ticks)
end

-- One parser is fed by several processes, whose callbacks wait. Calls come one at a time.
function cases.one_parser()
  local lxp = require "lxp"
  local starts, ends, inside, most = 0, 0, 0, 0
  local parser = lxp.new {
    StartElement = function()
      inside = inside + 1
      most = math.max(most, inside)
      process.sleep(0.0003)
      inside = inside - 1
      starts = starts + 1
    end,
    EndElement = function()
      process.yield()
      ends = ends + 1
    end,
  }
  assert(parser:parse "<list>")
  local works = {}
  for i = 1, 6 do
    works[i] = process.spawn(function()
      for _ = 1, 10 do assert(parser:parse "<item>text</item><item/>") end
      return true
    end)
  end
  all_are_right(works)
  assert(parser:parse "</list>")
  assert(parser:parse())
  parser:close()
  assert(starts == 121 and ends == 121, starts .. " and " .. ends)
  assert(most == 1, most)
end

-- A grammar does not change, so others may match it while a callback waits.
function cases.one_grammar()
  local lpeg = require "lpeg"
  local entered = process.event()
  local grammar = lpeg.Cmt(lpeg.P(1), function(text, position)
    if text == "a" then entered:wait() end
    return position
  end)
  local one = process.spawn(function() return grammar:match "a" == 2 end)
  await(one)
  assert(grammar:match "b" == 2)
  entered:set()
  all_are_right { one }
end

-- RFC 7919's group of 2048 bits
local DH_PARAMETERS = [[
-----BEGIN DH PARAMETERS-----
MIIBCAKCAQEA//////////+t+FRYortKmq/cViAnPTzx2LnFg84tNpWp4TZBFGQz
+8yTnc4kmz75fS/jY2MMddj2gbICrsRhetPfHtXV/WVhJDP1H18GbtCFY2VVPe0a
87VXE15/V8k1mE8McODmi3fipona8+/och3xWKE2rec1MKzKT0g6eXq8CrGCsyT7
YdEIqUuyyOP7uWrat2DX9GgdT0Kj3jlN9K5W7edjcrsZCwenyO4KbXCeAvzhzffi
7MA0BM0oNC9hkXL+nOmFg/+OTxIy7vKBg8P+OxtMb61zO7X8vC7CIAXFjvGDfRaD
ssbzSibBsu/6iGtCOGEoXJf//////////wIBAg==
-----END DH PARAMETERS-----
]]

-- LuaSec calls two functions during a handshake, and both wait. The context has the state of the
-- handshake in progress, so handshakes come one at a time.
function cases.handshakes()
  local socket, ssl = require "socket", require "ssl"
  local directory = os.getenv "SCRATCH"
  dofile((arg[0]:gsub("[^/]*$", "")) .. "certificate.lua")(directory, { type = "RSA", bits = 2048 })
  local called = 0
  local context = assert(ssl.newcontext {
    mode = "server",
    protocol = "tlsv1_2",
    key = directory .. "/key.pem",
    certificate = directory .. "/certificate.pem",
    ciphers = "DHE-RSA-AES256-GCM-SHA384",
    dhparam = function()
      process.sleep(0.002)
      called = called + 1
      return DH_PARAMETERS
    end,
    alpn = function(offered)
      process.sleep(0.001)
      return offered[1]
    end,
  })
  local listener = assert(socket.bind("127.0.0.1", 0, 64))
  local host, port = listener:getsockname()
  local clients, servers, listening = {}, {}, process.event()
  for i = 1, 8 do
    clients[i] = process.spawn(function()
      local connection = assert(ssl.wrap(assert(socket.connect(host, port)), {
        mode = "client",
        protocol = "tlsv1_2",
        verify = "none",
        alpn = { "protocol" .. i },
      }))
      assert(connection:dohandshake())
      local chosen = connection:getalpn()
      connection:close()
      return chosen == "protocol" .. i or tostring(chosen)
    end)
  end
  for i = 1, #clients do
    local accepted = assert(listener:accept())
    servers[i] = process.spawn(function()
      local connection = assert(ssl.wrap(accepted, context))
      listening:wait()
      assert(connection:dohandshake())
      connection:receive "*l" -- until the other side closes
      return true
    end)
  end
  for _, server in ipairs(servers) do await(server) end
  listening:set()
  all_are_right(clients)
  all_are_right(servers)
  assert(called == #clients, called)
end

-- A checksum that processes share counts every update.
function cases.sums()
  local zlib = require "zlib"
  local sum, piece = zlib.crc32(), ("x"):rep(3000000)
  local all = {}
  for i = 1, 4 do all[i] = process.spawn(function() for _ = 1, 5 do sum(piece) end end) end
  for _, one in ipairs(all) do assert(one:join()) end
  assert(sum "" == zlib.crc32()(piece:rep(20)))
end

assert(cases[arg[1]], "no such case")()
print("passed")
