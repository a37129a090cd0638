-- Transactions that wait for each other's locks: transactions.lua DRIVER. Ten processes have a
-- connection each. A call that waits for a lock must not keep out the call that frees it.
local process = require "baton.process"

local directory = os.getenv "SERVER" -- of the server's socket
local connects = {} -- by driver: returns the functions begin, work and finish, which return no nil

-- LuaSQL: a cursor holds the connection.
local function executes(connection, ...)
  local result
  for _, statement in ipairs { ... } do
    result = assert(connection:execute(statement))
    if type(result) == "userdata" then result:close() end
  end
  return result
end

local function luasql(connection, begin, prepare)
  if prepare then executes(connection, prepare) end
  return {
    begin = function() executes(connection, table.unpack(begin)) end,
    work = function(i) executes(connection, ("insert into done values (%d)"):format(i)) end,
    finish = function() executes(connection, "commit") end,
    count = function()
      local cursor = assert(connection:execute "select count(*) from done")
      local count = cursor:fetch()
      cursor:close()
      return math.tointeger(tonumber(count))
    end,
    make = function(...) executes(connection, ...) end,
  }
end

-- LuaDBI: transactions begin by themselves, but for SQLite's immediate ones.
local function dbi(begin, prepare, ...)
  local connection = assert(require("DBI").Connect(...))
  local function execute(statement)
    local prepared = assert(connection:prepare(statement))
    assert(prepared:execute())
    return prepared
  end
  local function executes(...)
    for _, statement in ipairs { ... } do
      local prepared = execute(statement)
      if statement:find "^select" then prepared:fetch() end
      prepared:close()
    end
  end
  local is_own = begin[1]:find "^begin"
  if is_own then connection:autocommit(true) end
  if prepare then executes(prepare) end
  return {
    begin = function() executes(table.unpack(begin)) end,
    work = function(i) executes(("insert into done values (%d)"):format(i)) end,
    finish = function()
      if is_own then
        executes "commit"
      else
        connection:commit()
      end
    end,
    count = function()
      local prepared = execute "select count(*) from done"
      local count = prepared:fetch()[1]
      prepared:close()
      return math.tointeger(tonumber(count))
    end,
    make = function(...)
      executes(...)
      if not is_own then connection:commit() end
    end,
  }
end

local IMMEDIATE = { "begin immediate" }
local LOCK = "select n from one for update"
local BUSY = "pragma busy_timeout = 2000"

local environment
connects["luasql.sqlite3"] = function()
  environment = environment or require("luasql.sqlite3").sqlite3()
  return luasql(assert(environment:connect(os.getenv "DATABASE")), IMMEDIATE, BUSY)
end

connects["luasql.postgres"] = function()
  environment = environment or require("luasql.postgres").postgres()
  local where = "host=" .. directory .. " user=baton dbname=postgres"
  return luasql(assert(environment:connect(where)), { "begin", LOCK })
end

connects["luasql.mysql"] = function()
  environment = environment or require("luasql.mysql").mysql()
  local connection =
    assert(environment:connect("test", "root", "", "localhost", 0, directory .. "/socket"))
  return luasql(connection, { "begin", LOCK }, "set innodb_lock_wait_timeout = 2")
end

-- PostgreSQL's driver. Debian's build of the module overwrites its own stack in statements without
-- rows, so each has some.
connects["luasql.odbc"] = function()
  environment = environment or require("luasql.odbc").odbc()
  local connection = assert(environment:connect "transactions")
  assert(connection:setautocommit(false))
  return {
    begin = function() executes(connection, LOCK) end,
    work = function(i)
      executes(connection, ("insert into done values (%d) returning n"):format(i))
    end,
    finish = function() assert(connection:commit()) end,
  }
end

connects["dbd.sqlite3"] = function()
  return dbi(IMMEDIATE, BUSY, "SQLite3", os.getenv "DATABASE")
end

connects["dbd.postgresql"] = function()
  return dbi({ LOCK }, nil, "PostgreSQL", "postgres", "baton", nil, directory)
end

connects["dbd.mysql"] = function()
  local port = tonumber(os.getenv "PORT")
  return dbi(
    { LOCK },
    "set innodb_lock_wait_timeout = 2",
    "MySQL",
    "test",
    "root",
    nil,
    "127.0.0.1",
    port
  )
end

local driver = arg[1]
local connect = connects[driver]
local first = connects[driver == "luasql.odbc" and "luasql.postgres" or driver]()
if driver == "luasql.odbc" then environment = nil end
first.make(
  "drop table if exists done",
  "drop table if exists one",
  "create table done (n integer)",
  "create table one (n integer)",
  "insert into one values (1)"
)

local all = {}
for i = 1, 10 do
  all[i] = process.spawn(function()
    local connection = connect()
    for j = 1, 5 do
      connection.begin()
      process.sleep(0.002)
      connection.work(i * 10 + j)
      connection.finish()
    end
  end)
end
for _, one in ipairs(all) do assert(one:join()) end
assert(first.count() == 50, first.count())
print "passed"
