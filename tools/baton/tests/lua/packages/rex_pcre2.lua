-- lrexlib with the expressions of PCRE2.
local rex = require "rex_pcre2"
local exercise = dofile((arg[0]:gsub("[^/]*$", "")) .. "regex.lua")

return function(t) exercise(t, rex, false) end
