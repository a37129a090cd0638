-- Two processes that compute and switch: `computing.lua processes|stock directory case turns`.
-- Prints elapsed milliseconds, and the CPU milliseconds of all threads. `stock` does the same work
-- without processes: one part after the other, or in coroutines that yield.
local how, directory, case, turns = arg[1], arg[2], arg[3], tonumber(arg[4])
local half, piece = turns // 2, 1000

local function compute(count)
  local x = 0
  for i = 1, count do
    x = (x * 31 + i) & 0xffff
  end
  return x
end

local function compute_with_yields(yield)
  for _ = 1, half // piece do
    compute(piece)
    yield()
  end
end

local cases = {}

if how == "stock" then
  function cases.same()
    compute(half)
    compute(half)
  end

  function cases.yielding()
    local one = coroutine.wrap(compute_with_yields)
    local other = coroutine.wrap(compute_with_yields)
    for _ = 0, half // piece do
      one(coroutine.yield)
      other(coroutine.yield)
    end
  end

  cases.priorities = cases.same
else
  local process = require "baton.process"

  local function together(first, second, f, ...)
    local one = process.spawn({ priority = first }, f, ...)
    local other = process.spawn({ priority = second }, f, ...)
    assert(one:join())
    assert(other:join())
  end

  function cases.same()
    together(40, 40, compute, half)
  end

  function cases.yielding()
    together(40, 40, compute_with_yields, process.yield)
  end

  function cases.priorities()
    together(30, 20, compute, half)
  end
end

-- Lua has no clock of elapsed time, but the C module of the other experiments has one.
package.cpath = directory .. "/?.so"
local now = require("calls").now
local start, cpu = now(), os.clock()
cases[case]()
print(string.format("cpu_ms %.6f", (os.clock() - cpu) * 1e3))
print(string.format("ms %.6f", (now() - start) * 1e3))
