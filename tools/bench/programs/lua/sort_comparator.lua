-- Sorting records with a comparator in Lua, and numbers without one.
local rounds = tonumber(arg[1]) or 17

local count = 10000
local seed = 7
local function random()
  seed = (seed * 16807) % 2147483647
  return seed
end

local checksum = 0
for _ = 1, rounds do
  local records, numbers = {}, {}
  for i = 1, count do
    records[i] = { group = random() % 50, weight = random() / 2147483647, id = i }
    numbers[i] = random()
  end
  table.sort(records, function(a, b)
    if a.group ~= b.group then
      return a.group < b.group
    end
    return a.weight > b.weight
  end)
  table.sort(numbers)
  table.sort(numbers, function(a, b) return a > b end)
  for i = 1, count, 100 do
    checksum = (checksum * 17 + records[i].id + numbers[i]) % 1000000007
  end
end
print(checksum)
