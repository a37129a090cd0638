-- LuaDBI with a PostgreSQL server, whose socket is in the directory SERVER.
require "dbd.postgresql"
local exercise = dofile((arg[0]:gsub("[^/]*$", "")) .. "dbi.lua")

return function(t) exercise(t, "$", "PostgreSQL", "postgres", "baton", nil, os.getenv "SERVER") end
