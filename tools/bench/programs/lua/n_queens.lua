-- Recursion and boolean arrays: all solutions for queens on a board.
local n = tonumber(arg[1]) or 11

local columns, rising, falling = {}, {}, {}
local solutions, places = 0, 0

local function place(row)
  if row > n then
    solutions = solutions + 1
    return
  end
  for column = 1, n do
    local up, down = row + column, row - column + n
    if not (columns[column] or rising[up] or falling[down]) then
      places = places + 1
      columns[column], rising[up], falling[down] = true, true, true
      place(row + 1)
      columns[column], rising[up], falling[down] = false, false, false
    end
  end
end

for _ = 1, 6 do
  place(1)
end
print(solutions, places)
