-- BitOp: the semantics of 32 bits, and a checksum over them.
local bit = require "bit"

-- CRC-32 (ISO 3309) by single bits.
local function crc32(text)
  local crc = bit.bnot(0)
  for i = 1, #text do
    crc = bit.bxor(crc, text:byte(i))
    for _ = 1, 8 do
      crc = bit.bxor(bit.rshift(crc, 1), bit.band(0xEDB88320, -bit.band(crc, 1)))
    end
  end
  return bit.bnot(crc)
end

return function(t)
  t.say(
    bit.tobit(0xffffffff),
    bit.tobit(2 ^ 40 + 5),
    bit.tohex(-1),
    bit.tohex(255, 4),
    bit.tohex(255, -4)
  )
  t.say(bit.band(0x12345678, 0xff), bit.bor(1, 2, 4, 8), bit.bxor(0xa5, 0xff), bit.bnot(0))
  t.say(
    bit.lshift(1, 31),
    bit.lshift(1, 32),
    bit.rshift(-256, 8),
    bit.arshift(-256, 8),
    bit.bswap(0x12345678)
  )
  t.say(bit.rol(0x12345678, 12), bit.ror(0x12345678, 12))
  t.say(bit.tohex(crc32 "123456789"), bit.tohex(crc32(("text"):rep(1000))))
  t.say(pcall(bit.band, "x"))
  t.say(pcall(bit.bor))
end
