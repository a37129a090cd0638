local process = require "baton.process"
local read_byte = require "read_byte"

process.spawn(function() print(read_byte()) end)
process.sleep(0.1)
print "end"
os.exit(true)
