local process = require "baton.process"

print "ready"
io.stdout:flush()
process.sleep(3)
print "done"
