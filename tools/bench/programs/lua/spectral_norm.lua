-- Function calls and float arrays: the largest singular value of an infinite matrix, cut to n by n.
local n = tonumber(arg[1]) or 450

local function element(i, j)
  local diagonal = i + j
  return 1 / (diagonal * (diagonal + 1) // 2 + i + 1)
end

local function times(matrix, from, to)
  for i = 1, n do
    local sum = 0.0
    for j = 1, n do
      sum = sum + matrix(i - 1, j - 1) * from[j]
    end
    to[i] = sum
  end
end

local function transposed(i, j)
  return element(j, i)
end

local u, v, middle = {}, {}, {}
for i = 1, n do
  u[i] = 1.0
end
for _ = 1, 10 do
  times(element, u, middle)
  times(transposed, middle, v)
  times(element, v, middle)
  times(transposed, middle, u)
end
local vu, vv = 0.0, 0.0
for i = 1, n do
  vu = vu + u[i] * v[i]
  vv = vv + v[i] * v[i]
end
print(string.format("%.9f", math.sqrt(vu / vv)))
