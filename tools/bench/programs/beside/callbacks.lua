-- A process that waits in a callback of C, again and again, beside a long call of another process:
-- `callbacks.lua key=value ...`. Prints in milliseconds by how much the latest wait was too long,
-- and how many waits there were and how long the call took.
local ffi = require "baton.ffi"
local process = require "baton.process"

local options = { role = "caller", place = "caller" }
for _, word in ipairs(arg) do
  local key, value = word:match "^(%w+)=(.*)$"
  options[key] = tonumber(value) or value
end
package.path = arg[0]:gsub("[^/]*$", "?.lua;") .. package.path
local calls = require "calls_that_last"

local WAIT <const> = 0.005

ffi.cdef [[
  void qsort(void *base, size_t count, size_t size, int (*compare)(const void *, const void *));
]]
local two = ffi.new "int[2]"
local worst, waits, is_over = 0, 0, false

local compare = ffi.cast("int (*)(const void *, const void *)", function()
  local due = process.now() + WAIT
  process.sleep(WAIT)
  worst, waits = math.max(worst, process.now() - due), waits + 1
  return 0
end)

calls.prepare(options)
local call = calls.find()
local waiter = process.spawn({ name = "waiter" }, function()
  while not is_over do ffi.C.qsort(two, 2, 4, compare) end
end)
process.sleep(4 * WAIT)
local began = process.now()
local caller = process.spawn({ name = options.call }, call)
local ok, why = caller:join()
assert(ok, why)
local lasted = process.now() - began
is_over = true
waiter:join()
print(string.format("worst_ms %.3f\nwaits %d\nlasted_s %.3f", worst * 1e3, waits, lasted))
