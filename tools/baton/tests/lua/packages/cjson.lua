-- CJSON: both directions, limits, settings of an instance, and errors.
local cjson = require "cjson"
local safe = require "cjson.safe"

local function nested(depth) return ("["):rep(depth) .. ("]"):rep(depth) end

return function(t)
  local text =
    '{"list":[1,2.5,-3e2,true,false,null,"\\u00e9\\ud83d\\ude00\\n"],"empty":{},"zero":0}'
  local value = cjson.decode(text)
  t.say(#value.list, value.list[3], value.list[6] == cjson.null, value.list[7], value.zero)
  t.say(cjson.decode(cjson.encode(value)).list[7] == value.list[7])
  t.say(cjson.encode { 1, 2, { "x", cjson.null } }, cjson.encode { key = 'quote " and / \1' })
  local mine = cjson.new()
  mine.encode_sparse_array(true, 2, 3)
  mine.encode_number_precision(5)
  mine.decode_max_depth(5)
  t.say(mine.encode { [10] = 1 }, mine.encode(math.pi), pcall(mine.decode, nested(6)))
  t.say(#cjson.encode(cjson.decode(nested(900))), pcall(cjson.decode, nested(1001)))
  t.say(safe.decode '{"a":', safe.encode { print })
  t.say(pcall(cjson.encode, { [1] = 1, [1000] = 2 }))
  t.say(pcall(cjson.encode, 0 / 0))
  local rows = {}
  for i = 1, 2000 do rows[i] = { id = i, name = "row " .. i, tags = { "a", "b" } } end
  local back = cjson.decode(cjson.encode(rows))
  t.say(#back, back[2000].name, back[1999].tags[2])
end
