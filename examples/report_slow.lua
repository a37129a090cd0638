-- A report that takes far too long. The guide's page "When it is slow" finds out why.
--
--   baton examples/report_slow.lua [ROWS]
--
-- It reads rows, sorts them, and joins them into one text.

local rows = tonumber(arg and arg[1]) or 50000

local function read_rows(count)
  local list, seed = {}, 42
  for i = 1, count do
    seed = (seed * 1103515245 + 12345) % 2147483648
    list[i] = { name = "customer " .. seed % 5000, amount = seed % 1000 }
  end
  return list
end

-- The first fault: names are made lower case again for each of the comparisons.
local function by_name(left, right)
  return left.name:lower() < right.name:lower()
end

-- The second fault: each step copies the whole text so far.
local function to_text(list)
  local text = ""
  for _, row in ipairs(list) do text = text .. row.name .. "\t" .. row.amount .. "\n" end
  return text
end

local list = read_rows(rows)
table.sort(list, by_name)
print(#to_text(list) .. " bytes")
