-- A system call that blocks, of which the interpreter knows nothing. Returns the number of a byte.
local ffi = require "baton.ffi"

ffi.cdef "ssize_t read(int, void *, size_t);"

return function()
  local byte = ffi.new "unsigned char[1]"
  ffi.C.read(0, byte, 1)
  return byte[0]
end
