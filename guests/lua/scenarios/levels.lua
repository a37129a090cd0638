local process = require "baton.process"
local ffi = require "baton.ffi"

ffi.cdef "int usleep(unsigned);"
process.spawn(function()
  while true do end
end)

local function descend(levels)
  if levels == 0 then
    ffi.C.usleep(5000)
    error "bottom"
  end
  descend(levels - 1)
  return levels -- no tail call
end

local n, all = 0, {}
for i = 1, 4 do
  all[i] = process.spawn(function()
    for _ = 1, 10 do
      local ok, message = pcall(descend, 2 * i)
      assert(not ok and message:find "bottom$")
      n = n + 1
    end
  end)
end
for _, each in ipairs(all) do each:join() end
print(n)
os.exit(true)
