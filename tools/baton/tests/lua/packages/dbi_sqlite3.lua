-- LuaDBI with a database file of SQLite.
require "dbd.sqlite3"
local exercise = dofile((arg[0]:gsub("[^/]*$", "")) .. "dbi.lua")

return function(t) exercise(t, "?", "SQLite3", t.scratch .. "/database") end
