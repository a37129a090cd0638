-- A calculation of a fixed amount beside an event loop, after the 1997 analysis of the Thread
-- Manager's performance: `calculation.lua METHOD ROUNDS SLICE GROUPS`. METHOD says how the
-- calculation lets the event loop run:
--     time         it yields every third of a second
--     count        it yields every 4096 rounds
--     preemptive   it never yields, and is preempted
--     urgent       like preemptive, but the event loop has a higher priority
--     balance      like preemptive, but the event loop spins without yielding
-- The same work also runs alone, without yielding. The two ways take turns, because the speed of a
-- machine changes within seconds. A group is one part alone, two beside the event loop, and one
-- alone. For each group, prints the seconds and CPU seconds beside the loop and alone. Also prints
-- the number of switches beside the loop, and how late it handled its events. `calibrate SECONDS`
-- prints the rounds per second.
local process = require "baton.process"
local method, amount, slice, groups = arg[1], tonumber(arg[2]), tonumber(arg[3]), tonumber(arg[4])

local THIRD = 20 / 60 -- the article's 20 ticks
local PASS = 256 -- rounds between readings of the clock, since a reading costs much of a round
local COUNT = 4096
local PERIOD = 0.02 -- seconds between events

-- One round, similar to Dhrystone: copies and links records, uses arrays, calls functions, compares
-- strings.
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

-- The seconds of the parts beside the event loop. The clock stands still during the other parts.
local stopped_at, cut = process.now(), 0
local function clock() return (stopped_at or process.now()) - cut end

local last_yield = clock()
local function by_time(passes)
  local sum = 0
  for number = 1, passes do
    sum = sum + pass(number)
    if clock() - last_yield > THIRD then
      process.yield()
      last_yield = clock()
    end
  end
  return sum
end

local done_since_yield = 0
local function by_count(passes)
  local sum = 0
  for number = 1, passes do
    sum = sum + pass(number)
    done_since_yield = done_since_yield + PASS
    if done_since_yield >= COUNT then
      process.yield()
      done_since_yield = 0
    end
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

local calculation = ({ time = by_time, count = by_count })[method] or never
process.params.preemptive = calculation == never
process.params.slice = slice

local goes_on, is_waiting, done = process.event(), false, false
local late = {}

local function wait_for_next_part()
  is_waiting = true
  goes_on:wait()
  is_waiting = false
end

-- The event loop. Events are due at fixed times, whether the loop is ready or not. It handles all
-- events that are due, and then waits for the next one. It does not sleep until a time in the past,
-- because each such sleep would give the calculation another slice.
local function handle_events()
  local due = clock() + PERIOD
  while not done do
    if stopped_at then wait_for_next_part() end
    while not stopped_at and clock() >= due do
      late[#late + 1] = clock() - due
      due = due + PERIOD
    end
    process.sleep_until(due + cut)
  end
end

local function spin()
  while not done do
    if stopped_at then wait_for_next_part() end
  end
end

local function stop_the_loop()
  stopped_at = process.now()
  goes_on:clear()
  while not is_waiting do process.sleep(0.001) end
end

-- A sleep, after which the calculation has a whole slice.
local function let_the_loop_run()
  process.sleep(0.00001)
  stopped_at, cut = nil, cut + process.now() - stopped_at
  goes_on:set()
end

local function timed(f, ...)
  local start, cpu = process.now(), os.clock()
  f(...)
  return process.now() - start, os.clock() - cpu
end

local found = { seconds = {}, cpu = {}, never_seconds = {}, never_cpu = {} }
local switches = 0

local function group(passes)
  local alone, alone_cpu = timed(never, passes)
  local before = process.stats().switches
  let_the_loop_run()
  local beside, beside_cpu = timed(calculation, passes)
  local other, other_cpu = timed(function()
    -- The calculation and the loop take turns to have the first slice.
    if method == "balance" then process.yield() end
    calculation(passes)
  end)
  stop_the_loop()
  switches = switches + process.stats().switches - before
  local later, later_cpu = timed(never, passes)
  local figures = {
    seconds = beside + other,
    cpu = beside_cpu + other_cpu,
    never_seconds = alone + later,
    never_cpu = alone_cpu + later_cpu,
  }
  for name, figure in pairs(figures) do table.insert(found[name], figure) end
end

never(16)
collectgarbage()
local worker = process.spawn({ name = "calculation", priority = 40 }, function()
  while not is_waiting do process.sleep(0.001) end
  for _ = 1, groups do group(math.ceil(amount / PASS / groups / 2)) end
  done, stopped_at = true, nil
  goes_on:set()
end)
process.current():set_priority(method == "urgent" and 41 or 40)
local loop = method == "balance" and spin or handle_events
loop()
assert(worker:join())

for name, figures in pairs(found) do print(name, table.concat(figures, " ")) end
print("switches", switches)
table.sort(late)
local function percentile(share) return late[math.max(1, math.ceil(#late * share))] * 1e3 end
if #late > 0 then print("late_ms", percentile(0.5), percentile(0.99), percentile(1)) end
