-- LuaSQL with a MariaDB server, whose socket is in the directory SERVER.
local driver = require "luasql.mysql"
local exercise = dofile((arg[0]:gsub("[^/]*$", "")) .. "sql.lua")

return function(t)
  local environment = assert(driver.mysql())
  local socket = os.getenv "SERVER" .. "/socket"
  exercise(
    t,
    environment,
    assert(environment:connect("test", "root", "", "localhost", 0, socket)),
    {}
  )
  local again = assert(driver.mysql())
  local _, why = again:connect("none", "root", "", "localhost", 0, socket)
  t.say(why:match "Unknown database 'none'" or why)
  again:close()
end
