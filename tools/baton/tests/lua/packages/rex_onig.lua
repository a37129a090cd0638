-- lrexlib with the expressions of Oniguruma.
local rex = require "rex_onig"
local exercise = dofile((arg[0]:gsub("[^/]*$", "")) .. "regex.lua")

return function(t) exercise(t, rex, false) end
