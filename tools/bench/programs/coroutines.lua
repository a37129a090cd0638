-- The operations of processes, done with coroutines: `coroutines.lua resume|wrap case n`. Prints
-- nanoseconds of CPU time per operation.
local style, case, n = arg[1], arg[2], tonumber(arg[3])
local yield = coroutine.yield

-- The two ways to run a coroutine. `start` makes a coroutine of a function, and `continue` resumes
-- it and returns what it yields.
local start, continue = coroutine.create, coroutine.resume
if style == "wrap" then
  start = coroutine.wrap
end

local cases = {}

-- One pair of resume and yield.
function cases.yield()
  local a, b = 0, 0
  local other = start(function()
    while true do
      b = b + 1
      yield()
    end
  end)
  if style == "wrap" then
    for _ = 1, n do
      a = a + 1
      other()
    end
  else
    for _ = 1, n do
      a = a + 1
      continue(other)
    end
  end
  assert(a == n and b == n, "the coroutine missed a turn")
  return n
end

-- A value passed from one coroutine to another: one yields it, and the other's resume returns it.
function cases.channel()
  local sum = 0
  local sender = start(function()
    for i = 1, n do
      yield(i)
    end
  end)
  if style == "wrap" then
    for _ = 1, n do
      sum = sum + sender()
    end
  else
    for _ = 1, n do
      local _, value = continue(sender)
      sum = sum + value
    end
  end
  assert(sum == n * (n + 1) // 2, "values were lost")
  return n
end

-- Two coroutines that alternate. A third one has to resume each of them.
function cases.semaphore()
  local a, b, turns = 0, 0, n // 2
  local first = start(function()
    while true do
      a = a + 1
      yield()
    end
  end)
  local second = start(function()
    while true do
      b = b + 1
      yield()
    end
  end)
  if style == "wrap" then
    for _ = 1, turns do
      first()
      second()
    end
  else
    for _ = 1, turns do
      continue(first)
      continue(second)
    end
  end
  assert(a == turns and b == turns, "somebody missed a turn")
  return turns * 2
end

-- A coroutine from its start to its end.
function cases.spawn_join()
  local sum = 0
  local function body(i)
    return i
  end
  if style == "wrap" then
    for i = 1, n do
      sum = sum + start(body)(i)
    end
  else
    for i = 1, n do
      local _, value = continue(start(body), i)
      sum = sum + value
    end
  end
  assert(sum == n * (n + 1) // 2, "results were lost")
  return n
end

local began = os.clock()
local operations = cases[case]()
print("ns", (os.clock() - began) * 1e9 / operations)
