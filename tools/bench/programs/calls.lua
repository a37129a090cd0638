-- Calls of C functions by one process or by two: `calls.lua module|ffi directory case count
-- length`. Every peer gets the last three arguments. Prints elapsed milliseconds, the number of
-- retaken calls, and the number of offloaded calls. For short calls by one process, also prints the
-- time of the loop without calls. The cases with one process also run under stock Lua.
local how, directory, case = arg[1], arg[2], arg[3]
local count, length = tonumber(arg[4]), tonumber(arg[5])

package.cpath = directory .. "/?.so"
local functions = require "calls"
local now = functions.now
if how == "ffi" then
  local ffi = require "baton.ffi"
  local library = ffi.load(directory .. "/libcalls.so")
  functions = {
    spin = ffi.fn("int calls_spin(int turns)", library),
    sleep = ffi.fn("int calls_sleep(int microseconds)", library),
  }
end

local function call(f, times, amount)
  for _ = 1, times do
    f(amount)
  end
end

-- Two processes make half of the calls each.
local function call_together(f, times, amount)
  local process = require "baton.process"
  local one = process.spawn(call, f, times // 2, amount)
  local other = process.spawn(call, f, times // 2, amount)
  assert(one:join())
  assert(other:join())
end

local function report(start)
  print(string.format("ms %.6f", (now() - start) * 1e3))
end

-- Prints the time that the loop takes without the calls.
local function report_loop(times)
  local start = now()
  for _ = 1, times do
  end
  print(string.format("loop_ms %.6f", (now() - start) * 1e3))
end

local function report_together(f)
  local process = require "baton.process"
  local before, start = process.stats(), now()
  call_together(f, count, length)
  report(start)
  local after = process.stats()
  print("retakes", after.retakes - before.retakes)
  print("moves", after.moves - before.moves)
end

local cases = {}

function cases.short_sequential()
  call(functions.spin, 1000, length)
  local start = now()
  call(functions.spin, count, length)
  report(start)
  report_loop(count)
end

function cases.short_together()
  call(functions.spin, 1000, length)
  report_together(functions.spin)
end

function cases.long_sequential()
  local start = now()
  call(functions.sleep, count, length)
  report(start)
end

function cases.long_together()
  report_together(functions.sleep)
end

-- Makes some calls first, so that native threads exist and the runtime has learned the function.
function cases.long_learned()
  call_together(functions.sleep, 10, math.min(length, 20000))
  report_together(functions.sleep)
end

if how == "module" and case:find("_sequential") == nil then
  require("baton.process").concurrent("calls", "concurrent")
end
cases[case]()
