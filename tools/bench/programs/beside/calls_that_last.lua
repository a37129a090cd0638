-- The long C calls, by name. One process makes each, while all others run. `options.seconds` is
-- about how long a call takes.
local process = require "baton.process"

local calls, preparations = {}, {}

-- The number of short calls before the long one. After so many, the runtime takes the function for
-- a short one.
local SHORT_CALLS <const> = 3000

local function microseconds(options) return math.floor(options.seconds * 1e6) end

-- A sleep, during which everything else continues.
function calls.nothing(options)
  return function() process.sleep(options.seconds) end
end

function calls.ffi_first(options)
  local usleep = require "baton.ffi".fn "int usleep(unsigned microseconds)"
  return function() usleep(microseconds(options)) end
end

function calls.ffi_turning(options)
  local usleep = require "baton.ffi".fn "int usleep(unsigned microseconds)"
  return function()
    for _ = 1, SHORT_CALLS do usleep(0) end
    usleep(microseconds(options))
  end
end

-- Nothing but short calls, one after the other.
function calls.ffi_short(options)
  local usleep = require "baton.ffi".fn "int usleep(unsigned microseconds)"
  return function()
    local until_then = process.now() + options.seconds
    while process.now() < until_then do usleep(0) end
  end
end

local function query_of(seconds)
  local query = "with recursive n(x) as (select 1 union all select x + 1 from n where x < %d) "
    .. "select max(x) from n"
  return query:format(math.max(1, seconds * 3e6 // 1))
end

local function sqlite(before)
  return function(options)
    local connection = assert(require "luasql.sqlite3".sqlite3():connect ":memory:")
    return function()
      for _ = 1, before do assert(connection:execute "select 1"):close() end
      assert(connection:execute(query_of(options.seconds))):close()
    end
  end
end
calls.sqlite_first, calls.sqlite_turning = sqlite(0), sqlite(SHORT_CALLS)

function calls.popen_write(options)
  return function()
    local pipe = assert(io.popen(("sleep %f; cat >/dev/null"):format(options.seconds), "w"))
    assert(pipe:write(("x"):rep(800000)))
    assert(pipe:close())
  end
end

function calls.popen_close(options)
  return function() assert(assert(io.popen(("sleep %f"):format(options.seconds))):close()) end
end

-- A shell opens the other end after the given time.
function calls.fifo_open(options)
  local fifo = options.directory .. "/fifo"
  return function()
    os.execute(("(sleep %f; echo >'%s') >/dev/null 2>&1 &"):format(options.seconds, fifo))
    assert(io.open(fifo, "r")):close()
  end
end

-- A pattern that tries every way to split the text before it fails. The number of ways is that of
-- choosing 8 from the length plus 8.
function calls.match(options)
  local length, ways = 0, 1
  repeat
    length = length + 1
    ways = ways * (length + 8) / length
  until ways > options.seconds * 20e6
  local text, pattern = ("a"):rep(length), ("a*"):rep(8) .. "b"
  return function() assert(not string.match(text, pattern)) end
end

-- An environment variable tells the constructors how long to sleep.
function calls.ffi_load(options)
  return function() require "baton.ffi".load(options.modules .. "/libslow.so") end
end

function calls.require(options)
  package.cpath = options.modules .. "/?.so"
  return function() assert(require "slow" == true) end
end

-- The second value says that the main process makes the call.
function calls.main_polls(options)
  local poll = require "baton.ffi".fn "int poll(void *files, unsigned long count, int milliseconds)"
  return function() poll(nil, 0, math.floor(options.seconds * 1000)) end, true
end

function calls.module_sleeps(options)
  package.cpath = options.modules .. "/?.so;" .. package.cpath
  local module = require "calls"
  process.concurrent("calls", "concurrent")
  return function() module.sleep(microseconds(options)) end
end

local QUERIES <const> = 50

local function connect_postgres(options)
  local settings = ("host=%s dbname=postgres user=baton"):format(options.postgres)
  return assert(require "luasql.postgres".postgres():connect(settings))
end

-- Queries that wait for the server as long as the program runs.
function preparations.libpq(options)
  local begun = process.semaphore(0)
  for _ = 1, QUERIES do
    local connection = connect_postgres(options)
    process.spawn({ daemon = true, quiet = true }, function()
      begun:signal()
      connection:execute "select pg_sleep(3600)"
    end)
  end
  for _ = 1, QUERIES do begun:wait() end
end

function calls.libpq(options)
  local connection = connect_postgres(options)
  return function()
    assert(connection:execute(("select pg_sleep(%f)"):format(options.seconds))):close()
  end
end

-- 15 MB of small objects for each second.
local OBJECT <const> = '{"id":1234567,"name":"abcdef"}'

function calls.decode(options)
  local count = math.max(1, options.seconds * 15e6 // (#OBJECT + 1))
  local text = "[" .. (OBJECT .. ","):rep(count - 1) .. OBJECT .. "]"
  local cjson = require "cjson"
  return function() assert(#cjson.decode(text) == count) end
end

local found = {}

-- Makes everything that must exist before the clients begin. Only the program that makes the call
-- runs this.
function found.prepare(options)
  if options.role ~= options.place then return end
  if preparations[options.call] then preparations[options.call](options) end
  found.call, found.is_mains = calls[options.call](options)
end

function found.find() return found.call, found.is_mains end

return found
