local process = require "baton.process"
local ffi = require "baton.ffi"

ffi.cdef "int usleep(unsigned);"
local n, all = 0, {}
for i = 1, 8 do
  all[i] = process.spawn(function()
    for _ = 1, 500 do
      ffi.C.usleep(20)
      n = n + 1
    end
  end)
end
for _, each in ipairs(all) do each:join() end
print(n)
