-- Texts built by concatenation, table.concat and string.rep.
local rounds = tonumber(arg[1]) or 220

local checksum = 0
local function weigh(text)
  checksum = (checksum * 31 + #text + text:byte(#text // 2 + 1)) % 1000000007
end

for round = 1, rounds do
  local text = ""
  for i = 1, 1500 do
    text = text .. (i + round) .. ";"
  end
  weigh(text)

  local pieces = {}
  for i = 1, 6000 do
    pieces[#pieces + 1] = "item " .. i % 97 .. " of " .. round
  end
  weigh(table.concat(pieces, ", "))
  weigh(string.rep("ab" .. round, 500, "-"))
  weigh(text:reverse():upper())
end
print(checksum)
