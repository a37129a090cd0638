-- Protected calls. Most of them succeed, and some raise errors.
local rounds = tonumber(arg[1]) or 6000000

local function checked(x)
  if x % 64 == 0 then
    error(x, 0)
  end
  return x + 1
end

local sum, caught = 0, 0
for i = 1, rounds do
  local ok, value = pcall(checked, i)
  if ok then
    sum = sum + value
  else
    caught = caught + value % 3
  end
end
local function handler(message)
  return message * 2
end
for i = 1, rounds // 8 do
  local _, value = xpcall(checked, handler, i)
  sum = sum + value
end
print(sum, caught)
