-- Closures, made and called: upvalues, composition, map and fold.
local rounds = tonumber(arg[1]) or 6000

local function counter(step)
  local value = 0
  return function()
    value = value + step
    return value
  end
end

local function compose(f, g)
  return function(x)
    return f(g(x))
  end
end

local function map(list, f)
  local result = {}
  for i = 1, #list do
    result[i] = f(list[i])
  end
  return result
end

local function fold(list, start, f)
  local result = start
  for i = 1, #list do
    result = f(result, list[i])
  end
  return result
end

local numbers = {}
for i = 1, 500 do
  numbers[i] = i
end
local checksum = 0
for round = 1, rounds do
  local next_value = counter(round % 7 + 1)
  local add = function(x) return x + next_value() end
  local change = compose(function(x) return x * 3 % 1009 end, add)
  local sum = fold(map(numbers, change), 0, function(a, b) return a + b end)
  local functions = {}
  for i = 1, 100 do
    functions[i] = function() return i + round end
  end
  for i = 1, 100 do
    sum = sum + functions[i]()
  end
  checksum = (checksum + sum) % 1000000007
end
print(checksum)
