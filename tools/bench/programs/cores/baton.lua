-- Work and messages on two cores, by VMs: `baton.lua map KIND SECONDS`, `message WAY KIND BYTES
-- SECONDS [HEAP]`, `reference WHAT SIZE SECONDS` or `spawn COUNT`.
local process = require "baton.process"
local vm = require "baton.vm"

local chunks = {}

function chunks.queens()
  local size, columns, up, down = 7, {}, {}, {}
  local function place(row)
    if row > size then return 1 end
    local ways = 0
    for column = 1, size do
      local rising, falling = row + column, row - column + size
      if not (columns[column] or up[rising] or down[falling]) then
        columns[column], up[rising], down[falling] = true, true, true
        ways = ways + place(row + 1)
        columns[column], up[rising], down[falling] = false, false, false
      end
    end
    return ways
  end
  return place(1)
end

function chunks.mandelbrot()
  local size, limit, steps = 40, 50, 0
  for row = 0, size - 1 do
    for column = 0, size - 1 do
      local cx, cy = column * 3 / size - 2, row * 2 / size - 1
      local x, y, step = 0.0, 0.0, 0
      while step < limit and x * x + y * y < 4 do
        x, y, step = x * x - y * y + cx, 2 * x * y + cy, step + 1
      end
      steps = steps + step
    end
  end
  return steps
end

function chunks.trees()
  local function grow(depth)
    if depth == 0 then return {} end
    return { grow(depth - 1), grow(depth - 1) }
  end
  local function nodes(tree) return tree[1] and 1 + nodes(tree[1]) + nodes(tree[2]) or 1 end
  return nodes(grow(11))
end

-- The CPU time of this native thread, in seconds. A VM stays on its home thread here.
local function thread_cpu()
  local ffi = require "baton.ffi"
  local get = ffi.fn "int clock_gettime(int clock, long *time);"
  local CLOCK_THREAD_CPUTIME_ID, time = 3, ffi.new "long[2]"
  get(CLOCK_THREAD_CPUTIME_ID, time)
  return time[0] + time[1] * 1e-9
end

local function print_figures(figures)
  for name, figure in pairs(figures) do print(name, string.format("%.4f", figure)) end
end

local parts = {}

function parts.map(kind, seconds)
  local work = chunks[kind]
  local function worker(counts, answers)
    for count in counts:values() do
      local sum = 0
      for _ = 1, count do sum = sum + work() end
      answers:send(sum)
    end
  end
  local answers, workers = vm.channel(), {}
  for i = 1, 2 do
    workers[i] = vm.channel()
    assert(vm.spawn(worker, workers[i], answers))
  end
  local function together(used, all)
    local start, cpu = process.now(), os.clock()
    for i = 1, used do workers[i]:send(all // used) end
    for _ = 1, used do answers:receive() end
    return process.now() - start, os.clock() - cpu
  end
  together(2, 2) -- Both have started.
  local all = 2
  local one, cpu_of_one = together(1, all)
  while one < tonumber(seconds) do
    all = all * 2
    one, cpu_of_one = together(1, all)
  end
  local two, cpu_of_two = together(2, all)
  print_figures {
    one_ms = one * 1e3,
    two_ms = two * 1e3,
    speedup = one / two,
    cpu = cpu_of_two / cpu_of_one,
  }
end

-- Repeats `run` with four times as many until it takes long enough, and prints the last one's
-- figures for each of its messages. `run` may return the CPU time of the other side, and that of
-- its own sends if it does more. `make` makes as many messages as one run, and sends none.
local function until_long(seconds, messages, run, make)
  run(1) -- The other VM has begun.
  local count = 1
  while true do
    local start, cpu, own = process.now(), os.clock(), thread_cpu()
    local wakes = process.stats().wakes
    local other, sends = run(count)
    local elapsed, each = process.now() - start, count * messages / 1e6
    if elapsed >= tonumber(seconds) then
      local figures = {
        us = elapsed / each,
        cpu_us = (os.clock() - cpu) / each,
        sender_us = (sends or thread_cpu() - own) / each,
        receiver_us = other and other / each,
        wakes = (process.stats().wakes - wakes) / each / 1e6,
      }
      if make then
        own = thread_cpu()
        make(count)
        figures.making_us = (thread_cpu() - own) / each
      end
      return print_figures(figures)
    end
    count = count * 4
  end
end

local function answer(there, back)
  for value in there:values() do back:send(value) end
end

local function receive(there, back, counts)
  for count in counts:values() do
    local start = thread_cpu()
    for _ = 1, count do there:receive() end
    back:send(thread_cpu() - start)
  end
end

-- Fills the heap with tables of this many bytes together, which are kept.
local function fill(bytes)
  local kept, before = {}, collectgarbage "count"
  while (collectgarbage "count" - before) * 1024 < bytes do
    for _ = 1, 1000 do kept[#kept + 1] = { #kept } end
  end
  collectgarbage()
  return kept
end

function parts.message(way, kind, bytes, seconds, heap)
  local kept = fill(tonumber(heap or 0))
  local text = ("x"):rep(tonumber(bytes))
  local function create(id)
    if kind == "text" then return text end
    return { id = id, price = 12.5, name = "a small order", open = true }
  end
  -- There is room for two messages of any size.
  local there, back = vm.channel(64, { bytes = math.max(16 << 20, 2 * #text + 1000) }), vm.channel()
  if way == "pingpong" then
    assert(vm.spawn(answer, there, back))
    until_long(seconds, 2, function(count)
      for i = 1, count do
        there:send(create(i))
        back:receive()
      end
    end)
  elseif way == "turns" then
    -- The other VM receives when all of a turn are in the channel, so no message wakes it.
    local counts, turn = vm.channel(), 50
    assert(vm.spawn(receive, there, back, counts))
    until_long(seconds, turn, function(count)
      local other, sends = 0, 0
      for _ = 1, count do
        local start = thread_cpu()
        for i = 1, turn do there:send(create(i)) end
        sends = sends + thread_cpu() - start
        counts:send(turn)
        other = other + back:receive()
      end
      return other, sends
    end, function(count)
      for i = 1, count * turn do create(i) end
    end)
  else
    local counts = vm.channel()
    assert(vm.spawn(receive, there, back, counts))
    until_long(seconds, 1, function(count)
      counts:send(count)
      for i = 1, count do there:send(create(i)) end
      return back:receive()
    end, function(count)
      for i = 1, count do create(i) end
    end)
  end
  assert(#kept >= 0)
end

function parts.reference(what, size, seconds)
  size = tonumber(size)
  local there, back = vm.channel(), vm.channel()
  local pass
  if what == "value" then
    local list = {}
    for i = 1, size do list[i] = i end
    local value = vm.freeze(list)
    assert(vm.spawn(answer, there, back))
    function pass()
      there:send(value)
      back:receive()
    end
  else
    local function move_back()
      local move = require("baton.vm").move
      for buffer in there:values() do back:send(move(buffer)) end
    end
    assert(vm.spawn(move_back))
    local buffer = vm.buffer(size)
    function pass()
      there:send(vm.move(buffer))
      buffer = back:receive()
    end
  end
  until_long(seconds, 2, function(count)
    for _ = 1, count do pass() end
  end)
end

function parts.spawn(count)
  print "base"
  io.flush()
  io.read()
  local first, never, workers = vm.channel(), vm.channel(), {}
  local function main()
    first:send(true)
    never:receive()
  end
  local start = process.now()
  for i = 1, tonumber(count) do
    workers[i] = assert(vm.spawn(main))
    first:receive()
  end
  print("us", (process.now() - start) * 1e6 / #workers)
  print "all"
  io.flush()
  io.read()
end

parts[arg[1]](table.unpack(arg, 2))
os.exit(0)
