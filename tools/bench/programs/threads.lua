-- Bursts of blocking calls: `threads.lua module|ffi directory lazy|eager burst milliseconds`. In a
-- burst, `burst` processes make one call each. The environment sets the limit on native threads,
-- and how long unused ones are kept. Prints, in this order: elapsed seconds of the first burst and
-- of a second one, the largest number of native threads, the number of threads started, the time to
-- start them in advance, the CPU seconds, and the resident memory in KiB before and with the
-- threads.
local process = require "baton.process"
local how, directory, creation = arg[1], arg[2], arg[3]
local burst, length = tonumber(arg[4]), tonumber(arg[5]) * 1000

package.cpath = directory .. "/?.so"
local functions = require "calls"
local now, sleep = functions.now, functions.sleep
if how == "ffi" then
  local ffi = require "baton.ffi"
  sleep = ffi.fn("int calls_sleep(int microseconds)", ffi.load(directory .. "/libcalls.so"))
else
  process.concurrent("calls", "concurrent")
end

local function resident()
  for line in io.lines("/proc/self/status") do
    local kib = line:match("^VmRSS:%s*(%d+)")
    if kib then
      return tonumber(kib)
    end
  end
end

local most, calls = 1, 0

local function one_call(microseconds)
  assert(sleep(microseconds) == 0)
  calls = calls + 1
  most = math.max(most, process.threads())
end

local function burst_of(count, microseconds)
  local start, list = now(), {}
  for i = 1, count do
    list[i] = process.spawn(one_call, microseconds)
  end
  for i = 1, count do
    assert(list[i]:join())
  end
  return now() - start
end

local function print_figure(name, value)
  print(string.format("%s %.6f", name, value))
end

local base, before = resident(), process.stats().threads_started
if creation == "eager" then
  -- Starts as many threads as the limit allows, before the first burst. This makes as many calls,
  -- and they last until all threads exist. The last call keeps its thread and the VM, because no
  -- other process is left to run.
  local bound, start = process.params.max_threads, now()
  local lasting = 100000 + bound * 500
  while process.threads() < bound do
    burst_of(bound, lasting)
    lasting = lasting * 2
  end
  print_figure("beforehand", now() - start)
end
print_figure("first", burst_of(burst, length))
print_figure("again", burst_of(burst, length))
print_figure("threads", most)
print_figure("started", process.stats().threads_started - before)
print_figure("cpu", os.clock())
print_figure("base_kib", base)
print_figure("kib", resident())
