-- The string library, one short C call after another: byte, char, sub, format, tostring, tonumber.
local rounds = tonumber(arg[1]) or 130000

local byte, char, sub, format = string.byte, string.char, string.sub, string.format
local text = "The quick onyx goblin jumps over the lazy dwarf, 0123456789 times."
local checksum = 0
for round = 1, rounds do
  local at = round % 40 + 1
  local piece = sub(text, at, at + 11)
  local shifted = {}
  for i = 1, #piece do
    shifted[i] = char((byte(piece, i) + round) % 94 + 33)
  end
  local joined = table.concat(shifted)
  local line = format("%05d|%-14s|%6.2f|%x", round, joined, round / 7, round)
  local number = tonumber(sub(line, 1, 5))
  checksum = (checksum * 7 + #line + number + byte(line, 9) + #tostring(round)) % 1000000007
end
print(checksum)
