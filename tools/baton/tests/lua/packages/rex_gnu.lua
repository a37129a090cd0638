-- lrexlib with the expressions of GNU.
local rex = require "rex_gnu"
local exercise = dofile((arg[0]:gsub("[^/]*$", "")) .. "regex.lua")

return function(t) exercise(t, rex, true) end
