-- A calculation of a fixed amount beside a main event loop, after the 1997 analysis of the Thread Manager's performance:
-- `calculation.lua METHOD ROUNDS [SLICE]`. METHOD says how the calculation lets the event loop run:
--   never        not at all: nobody else is there
--   time         it yields when a third of a second has passed since it last did
--   count        it yields every 4096 rounds
--   preemptive   it never yields, and is preempted
--   urgent       the same, and the event loop is more urgent
--   balance      the same, and the event loop spins without yielding
-- Prints seconds elapsed, CPU seconds, switches, and how late the loop handled its events. `calibrate SECONDS` prints rounds a second.
local process = require "baton.process"
local method, amount, slice = arg[1], tonumber(arg[2]), tonumber(arg[3])

local THIRD = 20 / 60 -- the article's 20 ticks
local PASS = 64 -- rounds between looks at the clock: to look costs a good part of one
local COUNT = 4096
local PERIOD = 0.02 -- seconds between events

-- One round in the manner of Dhrystone: records that are copied and linked, arrays, calls, comparisons of strings.
local numbers, grid = {}, {}
for i = 1, 50 do
  numbers[i], grid[i] = 0, {}
  for j = 1, 50 do grid[i][j] = 0 end
end
local first = { kind = "one", number = 0, text = "a program of calculation, first text" }
first.next = { kind = "one", number = 0, text = "", next = first }

local function follow(record, number)
  local other = record.next
  other.kind, other.text = record.kind, record.text
  other.number = number + record.number
  if other.number > 10000 then other.number = 0 end
  return other
end

local function fill(index, value)
  local place = index % 45 + 1
  local row = grid[place]
  numbers[place], numbers[place + 1] = value, numbers[place]
  row[place], row[place + 1] = value, row[place] + 1
  return numbers[place + 1]
end

local function later(left, right)
  if left == right or #left ~= #right then return 1 end
  return left < right and 2 or 3
end

local function round(i)
  local record = follow(first, i & 0xff)
  local sum = fill(i, record.number)
  first.kind = later(record.text, "a program of calculation, other text") == 2 and "two" or "one"
  for j = 1, 3 do
    sum = (sum * 31 + j) // 2 & 0xffff
    if sum & 1 == 0 then sum = sum + record.number else sum = sum ~ i end
  end
  return sum
end

local function pass(number)
  local sum = 0
  for i = number * PASS + 1, (number + 1) * PASS do sum = sum + round(i) end
  return sum
end

local function never(passes)
  local sum = 0
  for number = 1, passes do sum = sum + pass(number) end
  return sum
end

local function by_time(passes)
  local sum, last = 0, process.now()
  for number = 1, passes do
    sum = sum + pass(number)
    if process.now() - last > THIRD then
      process.yield()
      last = process.now()
    end
  end
  return sum
end

local function by_count(passes)
  local sum = 0
  for number = 1, passes do
    sum = sum + pass(number)
    if number * PASS % COUNT == 0 then process.yield() end
  end
  return sum
end

if method == "calibrate" then
  local rounds, start = 0, process.now()
  repeat
    never(16)
    rounds = rounds + 16 * PASS
  until process.now() - start > amount
  print("rounds_per_second", rounds / (process.now() - start))
  os.exit(0)
end

local calculations = { never = never, time = by_time, count = by_count }
local calculation = calculations[method] or never
process.params.preemptive = calculations[method] == nil
if slice then process.params.slice = slice end

local done, late = false, {}

-- The main event loop: events are due at set times, whether or not it is ready for them, and each is handled when it is.
local function handle_events()
  local due = process.now() + PERIOD
  while not done do
    process.sleep_until(due)
    late[#late + 1] = process.now() - due
    due = due + PERIOD
  end
end

local function spin()
  while not done do end
end

never(16)
collectgarbage()
local before, start, cpu = process.stats(), process.now(), os.clock()
local elapsed
local worker = process.spawn({ name = "calculation", priority = 40 }, function()
  local sum = calculation(math.ceil(amount / PASS))
  elapsed, cpu, done = process.now() - start, os.clock() - cpu, true
  return sum
end)
process.current():set_priority(method == "urgent" and 41 or 40)
if method == "balance" then
  spin()
elseif method ~= "never" then
  handle_events()
end
local _, sum = assert(worker:join())

print("seconds", elapsed)
print("cpu", cpu)
print("sum", sum)
print("switches", process.stats().switches - before.switches)
table.sort(late)
local function percentile(share) return late[math.max(1, math.ceil(#late * share))] * 1e3 end
if #late > 0 then print("late_ms", percentile(0.5), percentile(0.99), percentile(1)) end
