-- LuaSQL with a database file of SQLite.
local driver = require "luasql.sqlite3"
local exercise = dofile((arg[0]:gsub("[^/]*$", "")) .. "sql.lua")

return function(t)
  local environment = assert(driver.sqlite3())
  exercise(t, environment, assert(environment:connect(t.scratch .. "/database")), {})
  local again = assert(driver.sqlite3())
  t.say((again:connect(t.scratch .. "/none/database")))
  again:close()
end
