-- LuaSQL over libpq, with its own PostgreSQL server, whose socket is in the directory SERVER.
local check = require "check"
local process = require "baton.process"
local driver = require "luasql.postgres"
local case = {}

local SLEEP = "select pg_sleep(600)"

local function connect()
  local environment = assert(driver.postgres())
  return assert(environment:connect("host=" .. os.getenv "SERVER" .. " user=baton dbname=postgres"))
end

local function value(connection, query)
  local cursor = assert(connection:execute(query))
  local first = cursor:fetch()
  cursor:close()
  return first
end

local function together(n, f) check.join_all(check.spawn_all(n, f)) end

function case.many_processes_connect_and_ask_at_once()
  together(20, function(i)
    local connection = connect()
    for round = 1, 10 do
      check.equal(value(connection, ("select %d + %d"):format(i, round)), tostring(i + round))
    end
    check.equal(connection:close(), true)
  end)
  check.within(process.threads(), 1, process.params.max_threads, "threads")
end

function case.a_statement_timeout_ends_the_query_of_its_connection_only()
  local holder, patient = connect(), connect()
  value(holder, "select pg_advisory_lock(1)")
  local other = process.spawn(value, patient, "select 42 from pg_advisory_lock(1)")
  check.becomes(other, "foreign")
  together(5, function()
    local connection = connect()
    assert(connection:execute "set statement_timeout = 50") -- milliseconds
    local before = process.now()
    local cursor, why = connection:execute(SLEEP)
    check.equal(cursor, nil)
    check.matches(why, "statement timeout")
    check.within(process.now() - before, 0.049, 60)
    check.equal(value(connection, "select 7"), "7") -- works as before
    connection:close()
  end)
  check.equal(other:status(), "foreign")
  check.equal(value(holder, "select pg_advisory_unlock(1)"), "t")
  check.results("other", { true, "42" }, other:join())
end

-- libpq waits on a native thread, so the kill takes effect when the query has ended.
function case.a_killed_process_ends_when_its_query_has()
  local control = connect()
  local connections, numbers, victims = {}, {}, {}
  for i = 1, 5 do
    connections[i] = connect()
    numbers[i] = value(connections[i], "select pg_backend_pid()")
    victims[i] = process.spawn(function() connections[i]:execute(SLEEP) end)
  end
  local function count(condition)
    return tonumber(value(control, "select count(*) from pg_stat_activity where " .. condition))
  end
  check.eventually(
    "the server has all queries",
    function() return count("state = 'active' and query = '" .. SLEEP .. "'") == 5 end
  )
  for i = 1, 5 do check.becomes(victims[i], "foreign") end
  for i = 1, 5 do check.equal(victims[i]:kill(), true) end
  check.equal(value(control, "select 42"), "42")
  for i = 1, 5 do check.equal(victims[i]:status(), "foreign") end
  for i = 1, 5 do
    check.equal(value(control, "select pg_cancel_backend(" .. numbers[i] .. ")"), "t")
  end
  for i = 1, 5 do check.results("victim", { false, "killed" }, victims[i]:join()) end
  for i = 1, 5 do check.equal(connections[i]:close(), true) end
  check.eventually(
    "the server has one connection left",
    function() return count "backend_type = 'client backend'" == 1 end
  )
end

check.run(case)
