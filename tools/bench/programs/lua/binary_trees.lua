-- Allocation and collection: many short-lived trees beside a long-lived one.
local depth = tonumber(arg[1]) or 16

local function grow(levels)
  if levels == 0 then
    return { false, false }
  end
  return { grow(levels - 1), grow(levels - 1) }
end

local function count(tree)
  local left = tree[1]
  if not left then
    return 1
  end
  return 1 + count(left) + count(tree[2])
end

local kept = grow(depth)
local total = 0
for levels = 4, depth, 3 do
  local rounds = 1 << (depth - levels + 2)
  for _ = 1, rounds do
    total = total + count(grow(levels))
  end
end
print(total, count(kept))
