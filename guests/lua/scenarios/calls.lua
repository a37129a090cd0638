local process = require "baton.process"
local ffi = require "baton.ffi"

ffi.cdef "ssize_t read(int, void *, size_t);"

-- A system call that blocks, of which the interpreter knows nothing.
local function read_byte()
  local byte = ffi.new "unsigned char[1]"
  ffi.C.read(0, byte, 1)
  return byte[0]
end

io.stdout:setvbuf "line"
local all = {}
for i = 1, 4 do
  all[i] = process.spawn(function()
    print "in"
    print(read_byte())
  end)
end
for _, each in ipairs(all) do each:join() end
print "done"
