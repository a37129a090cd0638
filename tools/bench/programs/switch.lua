-- One way to switch between processes: `switch.lua case n`. Prints nanoseconds of CPU time per
-- operation. The CPU time includes all threads of this program, so work in the background counts
-- too.
local process = require "baton.process"
local case, n = arg[1], tonumber(arg[2])

local function run_all(...)
  local list = {}
  for i, f in ipairs { ... } do
    list[i] = process.spawn(f)
  end
  for _, p in ipairs(list) do
    assert(p:join())
  end
end

local function report(start, operations)
  print("ns", (os.clock() - start) * 1e9 / operations)
end

local cases = {}

-- Two runnable processes that only yield and count. A first, slower pass checks after every turn
-- how far apart the counters are. The timed pass counts in local variables, so that it times the
-- switch and not the counting, and compares them at its end.
function cases.yield()
  local yield, a, b, apart = process.yield, 0, 0, 0
  run_all(function()
    for _ = 1, 100000 do
      a = a + 1
      apart = math.max(apart, math.abs(a - b))
      yield()
    end
  end, function()
    for _ = 1, 100000 do
      b = b + 1
      apart = math.max(apart, math.abs(a - b))
      yield()
    end
  end)
  print("apart", apart)

  a, b = 0, 0
  local turns, ended = n // 2, false
  local before = process.stats().switches
  local start = os.clock()
  run_all(function()
    local mine = 0
    for _ = 1, turns do
      mine = mine + 1
      yield()
    end
    a, ended = mine, true
  end, function()
    local mine = 0
    while not ended do
      mine = mine + 1
      yield()
    end
    b = mine
  end)
  report(start, turns * 2)
  print("counters", a, b)
  if before then
    print("switches", process.stats().switches - before, turns * 2)
  end
end

-- One value through a channel without a buffer: a send and a receive.
function cases.channel()
  local channel, sum = process.channel(), 0
  local start = os.clock()
  run_all(function()
    for i = 1, n do
      channel:send(i)
    end
  end, function()
    for _ = 1, n do
      sum = sum + channel:receive()
    end
  end)
  report(start, n)
  assert(sum == n * (n + 1) // 2, "values were lost")
end

-- Two processes that alternate: each signals the other's semaphore and waits for its own.
function cases.semaphore()
  local mine, yours, turns = process.semaphore(1), process.semaphore(), n // 2
  local a, b = 0, 0
  local start = os.clock()
  run_all(function()
    for _ = 1, turns do
      mine:wait()
      a = a + 1
      yours:signal()
    end
  end, function()
    for _ = 1, turns do
      yours:wait()
      b = b + 1
      assert(a == b, "both had the turn")
      mine:signal()
    end
  end)
  report(start, turns * 2)
end

-- A process from its start to its end.
function cases.spawn_join()
  local spawn, sum = process.spawn, 0
  local function body(i)
    return i
  end
  local start = os.clock()
  for i = 1, n do
    local _, value = spawn(body, i):join()
    sum = sum + value
  end
  report(start, n)
  assert(sum == n * (n + 1) // 2, "results were lost")
end

-- A call with a deadline that does not come.
function cases.timeout()
  local timeout, sum = process.timeout, 0
  local function body(i)
    return i
  end
  local start = os.clock()
  for i = 1, n do
    local _, value = timeout(60, body, i)
    sum = sum + value
  end
  report(start, n)
  assert(sum == n * (n + 1) // 2, "results were lost")
end

-- A scope that starts one process and waits for it.
function cases.scope()
  local open, count = process.scope, 0
  local function body()
    count = count + 1
  end
  local start = os.clock()
  for _ = 1, n do
    open(function(scope)
      scope:spawn(body)
    end)
  end
  report(start, n)
  assert(count == n, "a process was lost")
end

-- Two processes take one lock in turns. Each yields while it holds the lock, so the other one waits
-- for it.
function cases.mutex()
  local lock, turns, held, worst = process.mutex(), n // 2, 0, 0
  local yield = process.yield
  local function body()
    for _ = 1, turns do
      lock:lock()
      held = held + 1
      yield()
      worst = worst < held and held or worst
      held = held - 1
      lock:unlock()
    end
  end
  local start = os.clock()
  run_all(body, body)
  report(start, turns * 2)
  assert(worst == 1, "both held the lock")
end

-- Two processes that alternate: each sets the other's event and waits for its own.
function cases.event()
  local mine, yours, turns = process.event(), process.event(), n // 2
  local a, b = 0, 0
  mine:set()
  local start = os.clock()
  run_all(function()
    for _ = 1, turns do
      mine:wait()
      mine:clear()
      a = a + 1
      yours:set()
    end
  end, function()
    for _ = 1, turns do
      yours:wait()
      yours:clear()
      b = b + 1
      assert(a == b, "both had the turn")
      mine:set()
    end
  end)
  report(start, turns * 2)
end

-- A process selects among four channels, to which another one sends in turns.
function cases.select()
  local list, sum = {}, 0
  for i = 1, 4 do
    list[i] = process.channel()
  end
  local select = process.select
  local start = os.clock()
  run_all(function()
    for i = 1, n do
      list[i % 4 + 1]:send(i)
    end
  end, function()
    for _ = 1, n do
      local _, value = select(list)
      sum = sum + value
    end
  end)
  report(start, n)
  assert(sum == n * (n + 1) // 2, "values were lost")
end

-- Two processes that alternate: each resumes the other and suspends itself.
function cases.suspend()
  local turns, a, b = n // 2, 0, 0
  local suspend, first, second = process.suspend, nil, nil
  first = process.spawn({ suspended = true }, function()
    for _ = 1, turns do
      a = a + 1
      second:resume()
      suspend()
    end
  end)
  second = process.spawn({ suspended = true }, function()
    for _ = 1, turns do
      b = b + 1
      assert(a == b, "one missed a turn")
      first:resume()
      suspend()
    end
  end)
  local start = os.clock()
  first:resume()
  assert(first:join())
  report(start, turns * 2)
  second:kill()
end

-- A chain over five priorities, as in Thread-Metric's preemptive test. Each process resumes the
-- next more urgent one, which preempts it at once. Each but the lowest then suspends itself. A
-- round is eight switches.
function cases.chain()
  local suspend, rounds, turns, above = process.suspend, n // 8, {}, nil
  for i = 5, 2, -1 do
    local wakes = above
    above = process.spawn({ priority = 10 * i, suspended = true, daemon = true }, function()
      for turn = 1, rounds do
        if wakes then
          wakes:resume()
        end
        turns[i] = turn
        suspend()
      end
    end)
  end
  local lowest = process.spawn({ priority = 10, suspended = true }, function()
    for turn = 1, rounds do
      above:resume()
      assert(turns[2] == turn, "the more urgent process did not run at once")
      turns[1] = turn
    end
  end)
  local start = os.clock()
  lowest:resume()
  assert(lowest:join())
  report(start, rounds * 8)
  for i = 1, 5 do
    assert(turns[i] == rounds, "one missed a turn")
  end
end

cases[case]()
