local process = require "baton.process"
local ffi = require "baton.ffi"

ffi.cdef [[
  int pthread_create(unsigned long *thread, const void *attributes, void *(*run)(void *), void *);
  int usleep(unsigned);
]]
local woken = process.semaphore(0)
-- A thread of its own calls this.
local wake_later = ffi.cast("void *(*)(void *)", function()
  ffi.C.usleep(50000)
  woken:signal()
  return nil
end)
ffi.C.pthread_create(ffi.new "unsigned long[1]", nil, wake_later, nil)
woken:wait()
print "woken"
os.exit(true)
