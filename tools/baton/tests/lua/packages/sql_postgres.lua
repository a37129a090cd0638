-- LuaSQL with a PostgreSQL server, whose socket is in the directory SERVER.
local driver = require "luasql.postgres"
local exercise = dofile((arg[0]:gsub("[^/]*$", "")) .. "sql.lua")

return function(t)
  local environment = assert(driver.postgres())
  local where = "host=" .. os.getenv "SERVER" .. " user=baton dbname="
  exercise(t, environment, assert(environment:connect(where .. "postgres")), {})
  local again = assert(driver.postgres())
  t.say((select(2, again:connect(where .. "none")):match 'database "none" does not exist'))
  again:close()
end
