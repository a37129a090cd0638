-- Integer arrays and inner loops: the largest number of flips that any permutation needs until its
-- first card is 1.
local n = tonumber(arg[1]) or 9

local function flips(permutation, scratch)
  for i = 1, n do
    scratch[i] = permutation[i]
  end
  local count = 0
  local first = scratch[1]
  while first ~= 1 do
    local low, high = 1, first
    while low < high do
      scratch[low], scratch[high] = scratch[high], scratch[low]
      low, high = low + 1, high - 1
    end
    count = count + 1
    first = scratch[1]
  end
  return count
end

local permutation, scratch, turns = {}, {}, {}
local most, checksum, sign = 0, 0, 1
local function visit()
  local count = flips(permutation, scratch)
  if count > most then
    most = count
  end
  checksum = checksum + sign * count
  sign = -sign
end

-- Heap's algorithm, without recursion.
local function visit_all()
  for i = 1, n do
    permutation[i], turns[i] = i, 1
  end
  visit()
  local i = 2
  while i <= n do
    if turns[i] < i then
      local j = i % 2 == 1 and 1 or turns[i]
      permutation[i], permutation[j] = permutation[j], permutation[i]
      visit()
      turns[i] = turns[i] + 1
      i = 2
    else
      turns[i] = 1
      i = i + 1
    end
  end
end

visit_all()
visit_all()
print(most, checksum)
