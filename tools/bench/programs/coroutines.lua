-- Resume and yield of one coroutine: `coroutines.lua case n`. Prints nanoseconds of CPU per pair.
local case, n = arg[1], tonumber(arg[2])
local yield, resume = coroutine.yield, coroutine.resume

local a, b = 0, 0
local function body()
  while true do
    b = b + 1
    yield()
  end
end

local cases = {}

function cases.resume()
  local co = coroutine.create(body)
  for _ = 1, n do
    a = a + 1
    resume(co)
  end
end

function cases.wrap()
  local next_turn = coroutine.wrap(body)
  for _ = 1, n do
    a = a + 1
    next_turn()
  end
end

local start = os.clock()
cases[case]()
print("ns", (os.clock() - start) * 1e9 / n)
assert(a == n and b == n, "the coroutine missed a turn")
