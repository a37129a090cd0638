local process = require "baton.process"

print "waiting"
io.stdout:flush()
process.channel():receive()
