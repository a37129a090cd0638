-- Patterns over a generated text: find, match, gmatch and gsub with strings, tables and functions.
local rounds = tonumber(arg[1]) or 100

local words = { "river", "stone", "Cloud", "ember", "Field", "north", "quiet", "2024", "17", "x9" }
local seed = 42
local lines = {}
for i = 1, 400 do
  local line = {}
  for j = 1, 12 do
    seed = (seed * 1103515245 + 12345) % 2147483648
    line[j] = words[seed // 65536 % #words + 1]
  end
  lines[i] = "key" .. i .. " = " .. table.concat(line, " ") .. "  "
end
local text = table.concat(lines, "\n")
local names = { river = "fleuve", stone = "pierre", quiet = false }

local checksum = 0
for _ = 1, rounds do
  local counted = 0
  for key, value in text:gmatch("(%w+)%s*=%s*([^\n]*)") do
    local trimmed = value:match("^(.-)%s*$")
    counted = counted + #key + #trimmed
  end
  local swapped, swaps = text:gsub("(%w+) (%w+)", "%2 %1")
  local translated = text:gsub("%a+", names)
  local shouted = text:gsub("%f[%a]%u%l+", function(word)
    return word:upper() .. "!"
  end)
  local at, numbers = 1, 0
  while true do
    local from, to = text:find("%d+", at)
    if not from then
      break
    end
    numbers, at = numbers + tonumber(text:sub(from, to)) % 7, to + 1
  end
  checksum = (checksum + counted + swaps + #swapped + #translated * 3 + #shouted * 5 + numbers)
    % 1000000007
end
print(checksum)
