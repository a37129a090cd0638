-- Prints the descriptors that its manager passes, and the data that comes from them.
local process = require "baton.process"
for _, each in ipairs(process.listen_fds()) do print(each.fd, each.name) end
assert(#process.listen_fds() == #process.listen_fds())
local flags <close> = io.popen "test -e /proc/self/fd/3 && echo inherited || echo closed"
print(flags:read "l")
