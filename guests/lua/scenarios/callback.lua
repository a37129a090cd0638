local process = require "baton.process"
local ffi = require "baton.ffi"

ffi.cdef [[
  void *lfind(const void *key, const void *array, size_t *count, size_t size,
      int (*compare)(const void *, const void *));
]]
io.stdout:setvbuf "line"
process.spawn(function()
  while true do end
end)
local array, count = ffi.new("int[3]", { 1, 2, 3 }), ffi.new("size_t[1]", { 3 })
-- It compares one element after the other, until two are equal.
ffi.C.lfind(array, array, count, ffi.sizeof "int", function(_, element)
  print(ffi.cast("const int *", element)[0])
  process.sleep(0.01)
  return 1
end)
print "returned"
os.exit(true)
