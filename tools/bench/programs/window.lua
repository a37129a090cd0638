-- Two processes that alternately call C and compute: `window.lua stay|move|auto directory
-- spin|sleep microseconds amount rounds`. A call takes `microseconds`, for which the C function
-- gets `amount`. Computing takes a quarter of that. Prints the speedup of two processes over one. 1
-- means no gain, and 2 means that neither ever waits for the other.
local process = require "baton.process"
local how, directory, name = arg[1], arg[2], arg[3]
local microseconds, amount, rounds = tonumber(arg[4]), tonumber(arg[5]), tonumber(arg[6])
local tries = 5

package.cpath = directory .. "/?.so"
local now = require("calls").now
local ffi = require "baton.ffi"
local f = ffi.fn("int calls_" .. name .. "(int amount)", ffi.load(directory .. "/libcalls.so"))
if how == "stay" then
  ffi.nonblocking(f)
elseif how == "move" then
  ffi.blocking(f)
end

local function compute(turns)
  local x = 0
  for i = 1, turns do
    x = (x * 31 + i) & 0xffff
  end
  return x
end

-- The loop turns per microsecond. The fastest of several tries counts, because the others were
-- interrupted.
local function speed()
  local best, turns = math.huge, 200000
  for _ = 1, 5 do
    local start = now()
    compute(turns)
    best = math.min(best, now() - start)
  end
  return turns / best / 1e6
end

local turns = math.max(1, math.floor(speed() * microseconds / 4))

local function work(times)
  for _ = 1, times do
    f(amount)
    compute(turns)
  end
end

local function work_together(times)
  local one = process.spawn(work, times)
  local other = process.spawn(work, times)
  assert(one:join())
  assert(other:join())
end

local function elapsed(f, times)
  local start = now()
  f(times)
  return now() - start
end

-- Both ways run once before the measurement, so that native threads exist and the runtime has
-- learned the function. Then they take turns, since a machine's speed changes; the median counts.
work(2)
work_together(2 + rounds // 4)
local speedups, before = {}, process.stats()
for i = 1, tries do
  speedups[i] = 2 * elapsed(work, rounds) / elapsed(work_together, rounds)
end
table.sort(speedups)
print(string.format("speedup %.6f", speedups[tries // 2 + 1]))
local after, calls = process.stats(), 2 * rounds * tries
print("retakes", (after.retakes - before.retakes) / calls)
print("moves", (after.moves - before.moves) / calls)
