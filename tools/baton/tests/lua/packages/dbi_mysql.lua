-- LuaDBI with a MariaDB server on the port PORT of this machine.
require "dbd.mysql"
local exercise = dofile((arg[0]:gsub("[^/]*$", "")) .. "dbi.lua")

return function(t)
  exercise(t, "?", "MySQL", "test", "root", nil, "127.0.0.1", tonumber(os.getenv "PORT"))
end
