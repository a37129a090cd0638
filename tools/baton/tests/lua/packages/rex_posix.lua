-- lrexlib with the expressions of POSIX.
local rex = require "rex_posix"
local exercise = dofile((arg[0]:gsub("[^/]*$", "")) .. "regex.lua")

return function(t) exercise(t, rex, true) end
