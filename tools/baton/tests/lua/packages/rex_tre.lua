-- lrexlib with the expressions of TRE.
local rex = require "rex_tre"
local exercise = dofile((arg[0]:gsub("[^/]*$", "")) .. "regex.lua")

return function(t) exercise(t, rex, true) end
