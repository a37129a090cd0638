-- The table library, one short C call after another: insert, remove, unpack, pack, concat, move.
local rounds = tonumber(arg[1]) or 560

local insert, remove, unpack, pack = table.insert, table.remove, table.unpack, table.pack
local checksum = 0
for round = 1, rounds do
  local stack = {}
  for i = 1, 2000 do
    insert(stack, i * round % 101)
  end
  local queue = {}
  for i = 1, 60 do
    insert(queue, 1, i)
  end
  for _ = 1, 2000 do
    local value = remove(stack)
    checksum = (checksum * 3 + value) % 1000003
    if value % 8 == 0 then
      insert(queue, 1 + value % #queue, value)
      checksum = checksum + remove(queue, 1)
    end
  end
  for i = 1, 1000 do
    local a, b, c = unpack(queue, 1, 3)
    local packed = pack(a, b, c, i)
    checksum = (checksum + packed.n + packed[4] + select("#", a, b)) % 1000003
  end
  table.move(queue, 1, #queue, 2)
  checksum = (checksum + #table.concat(queue, ",")) % 1000003
end
print(checksum)
