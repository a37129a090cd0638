local process = require "baton.process"
local sleep = require "stretched"
local read_byte = require "read_byte"

process.spawn(function() print(read_byte()) end)
sleep(0.1)
print "end"
os.exit(true)
