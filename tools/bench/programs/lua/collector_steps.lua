-- The smallest steps of the collector, beside a thousand objects. The program asks for each.
local steps = tonumber(arg[1]) or 800000

local kept = {}
for i = 1, 1000 do kept[i] = { i } end
local checksum = 0
for i = 1, steps do
  collectgarbage("step", 0)
  local object = { i }
  kept[i % 1000 + 1] = object
  checksum = (checksum + object[1] + kept[i % 997 + 1][1]) % 1000003
end
print(checksum)
