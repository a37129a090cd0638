-- Calls of C functions by one process, and by two: `calls.lua module|ffi directory case count length`, the last three as every
-- peer gets them. Prints elapsed milliseconds, how many calls the VM was taken from, and how many were made on another thread;
-- of short calls by one process, also what the loop around them takes.
-- Runs under stock Lua as well, as far as one process goes.
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

-- Half of the calls by each of two processes.
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

-- What the loop around the calls takes by itself.
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
  print("false_retakes", after.false_retakes - before.false_retakes)
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

-- The same after some others, so that threads are there, and what can be learned is.
function cases.long_learned()
  call_together(functions.sleep, 10, math.min(length, 20000))
  report_together(functions.sleep)
end

if how == "module" and case:find("_sequential") == nil then
  require("baton.process").concurrent("calls", "concurrent")
end
cases[case]()
