-- A token passed around a ring of coroutines, generators, and many short-lived coroutines.
local rounds = tonumber(arg[1]) or 18000

local size = 100
local ring = {}
for i = 1, size do
  ring[i] = coroutine.create(function(token)
    while true do
      token = coroutine.yield(token + i % 3)
    end
  end)
end
local token = 0
for _ = 1, rounds do
  for i = 1, size do
    local _
    _, token = coroutine.resume(ring[i], token % 1000003)
  end
end

local function count_down(from)
  return coroutine.wrap(function()
    for i = from, 1, -1 do
      coroutine.yield(i)
    end
  end)
end
local sum = 0
for _ = 1, rounds * 3 do
  for i in count_down(20) do
    sum = sum + i
  end
end
print(token, sum)
