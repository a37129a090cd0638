local process = require "baton.process"

local flag
process.spawn(function() flag = true end)
while not flag do end
print "done"
