local process = require "baton.process"
local ffi = require "baton.ffi"

ffi.cdef "ssize_t read(int, void *, size_t);"

-- A system call that blocks, of which the interpreter knows nothing.
local function read_byte()
  local byte = ffi.new "unsigned char[1]"
  ffi.C.read(0, byte, 1)
  return byte[0]
end

process.spawn(function() print(read_byte()) end)
process.sleep(0.1)
print "end"
os.exit(true)
