-- lua-zlib: streams in one piece and in many, checksums, and broken data.
local zlib = require "zlib"

return function(t)
  local text = {}
  for i = 1, 20000 do text[i] = "line " .. i * 7919 % 1000 .. "\n" end
  text = table.concat(text)
  local packed, at_end, bytes_in, bytes_out = zlib.deflate(9)(text, "finish")
  t.say(at_end, bytes_in == #text, bytes_out == #packed, #packed < #text / 3)
  t.say((zlib.inflate()(packed)) == text)
  local stream, parts = zlib.deflate(), {}
  for at = 1, #text, 1000 do
    parts[#parts + 1] = stream(text:sub(at, at + 999), at % 3000 == 1 and "sync" or "none")
  end
  parts[#parts + 1] = stream "" .. stream("", "finish")
  local inflate, back = zlib.inflate(), {}
  for piece in table.concat(parts):gmatch(("."):rep(100, "?") .. "?") do
    if #piece > 0 then back[#back + 1] = inflate(piece) end
  end
  t.say(table.concat(back) == text)
  local gzip = zlib.deflate(6, 31)(text, "finish")
  t.say(gzip:byte(1, 3), (zlib.inflate(47)(gzip)) == text)
  local crc = zlib.crc32()
  crc(text:sub(1, 100))
  t.say(crc(text:sub(101)) == zlib.crc32()(text), zlib.adler32()(text))
  t.say(pcall(zlib.inflate(), "no compressed data"))
  t.say(pcall(zlib.deflate, 77))
end
