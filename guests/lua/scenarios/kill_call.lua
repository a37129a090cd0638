local process = require "baton.process"
local sleep = require "stretched"
local read_byte = require "read_byte"

io.stdout:setvbuf "line"
local reader = process.spawn(function() print(read_byte()) end)
sleep(0.1)
reader:kill()
print "killed"
reader:join()
print "ended"
