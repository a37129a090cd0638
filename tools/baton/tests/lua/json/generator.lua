-- Texts and values by a seed, for comparisons with another JSON library. The numbers are our own,
-- so that each Lua makes the same ones.
local generator = {}

function generator.new(seed)
  local state = seed * 2654435761 % 4294967296
  local self = {}

  -- A number from 1 to n.
  function self.to(n)
    state = (state * 1664525 + 1013904223) % 4294967296
    return state // 65536 % n + 1
  end

  function self.of(list) return list[self.to(#list)] end

  return self
end

-- Texts
-- -------------------------------------------------------------------------------------------------

local NUMBERS = {
  "0", "-0", "1", "-1", "12", "1.5", "-2.25", "1e3", "1E-2", "2e+4", "0.1", "123456789", "1e400",
  "9007199254740993", "-9223372036854775808", "9223372036854775807", "3.141592653589793", "1e-320",
  "01", "-", "1.", ".5", "+1", "0x1f", "1e", "nan", "-inf", "Infinity", "12345678901234567.5",
  "0.30000000000000004", "1e22", "1e23", "-.5", "00", "1.7976931348623157e308", "4.9e-324",
}
local STRINGS = {
  '""', '"a"', '"name"', '"a b"', '"\\n\\t\\"\\\\\\/\\b\\f\\r"', '"\\u0041"', '"\\u00e9\\u20ac"',
  '"\\ud83d\\ude00"', '"\\ud83d"', '"\\udc00"', '"\\u12"', '"\\x"', '"\1"', '"\127"', '"\195\164"',
  '"long enough to be no short string of Lua, and a little longer"', '"unfinished', '"/"',
  '"long enough to be no short string, with \\u00e9 and \\ud83d\\ude00 in its middle"',
}
local WORDS = { "true", "false", "null", "nul", "truE", "nulll" }
local SPACES = { "", "", "", " ", "\n", "\t ", "\r\n", "  " }

local function text_of(g, depth)
  local space = g.of(SPACES)
  local kind = g.to(depth > 0 and 8 or 5)
  if kind <= 2 then return space .. NUMBERS[g.to(g.to(3) == 1 and #NUMBERS or 17)] end
  if kind <= 4 then return space .. STRINGS[g.to(g.to(3) == 1 and #STRINGS or 8)] end
  if kind == 5 then return space .. WORDS[g.to(g.to(6) == 1 and #WORDS or 3)] end
  local parts = {}
  for i = 1, g.to(5) - 1 do
    local value = text_of(g, depth - 1)
    if kind >= 7 then value = STRINGS[g.to(4)] .. g.of(SPACES) .. ":" .. value end
    parts[i] = value
  end
  local inner = table.concat(parts, g.of(SPACES) .. ",")
  if kind >= 7 then return space .. "{" .. inner .. g.of(SPACES) .. "}" end
  return space .. "[" .. inner .. g.of(SPACES) .. "]"
end

local MARKS = { "{", "}", "[", "]", ",", ":", '"', "\\", "x", "1", "-", "/", " ", "e", "." }

-- Changes a character, takes it out, or puts one in.
local function damaged(g, text)
  local at = g.to(#text + 1)
  local kind = g.to(3)
  if kind == 1 then return text:sub(1, at - 1) .. g.of(MARKS) .. text:sub(at + 1) end
  if kind == 2 then return text:sub(1, at - 1) .. text:sub(at + 1) end
  return text:sub(1, at - 1) .. g.of(MARKS) .. text:sub(at)
end

function generator.text(g)
  local text = text_of(g, 3)
  if g.to(2) == 1 then text = damaged(g, text) end
  -- lua-cjson makes an integer that does not fit the largest one
  if text:find(("%d"):rep(19)) then return "9223372036854775807" end
  return text
end

-- Values
-- -------------------------------------------------------------------------------------------------

local FLOATS = {
  0.5, -1.25, 0.1, 1 / 3, 100.0, 1e14, 1e15, -0.0, 123456.789, 1e-5, 2.5e-7, 1e300, 3.0, 0.1 + 0.2,
  99999999999999.0, 12345678.12345678, 1e21, 5e-324, 0.0001, 0.00012345, 4.35, 1e16 / 7,
}
local INTEGERS = { 0, 1, -1, 42, 1000000, math.maxinteger, math.mininteger, 255 }
local TEXTS = {
  "", "a", "name", 'quote " backslash \\ slash / ', "\0\1\31\127\128\255", "\n\r\t\b\f",
  "long enough to be no short string of Lua, and a little longer", "\195\164",
}

local function value_of(g, depth, json)
  local kind = g.to(depth > 0 and 9 or 5)
  if kind == 1 then return g.of(FLOATS) end
  if kind == 2 then return g.of(INTEGERS) end
  if kind <= 4 then return g.of(TEXTS) end
  if kind == 5 then
    local value = g.to(5)
    if value == 1 then return json.null end
    if value == 2 then return json.empty_array end
    return value == 3
  end
  local list, has_holes = {}, false
  if kind == 9 then -- one key: the order of several is not known
    list[g.of { "key", "a b", 2.5, -3, 0, 40 }] = value_of(g, depth - 1, json)
  else
    local last = 0
    for _ = 1, g.to(5) - 1 do
      if g.to(6) == 1 then
        last = last + g.to(3)
        has_holes = true
      end
      last = last + 1
      list[last] = value_of(g, depth - 1, json)
    end
  end
  local mark = g.to(12)
  if has_holes then return list end -- its length is not the same in all versions of Lua
  if mark == 1 then return setmetatable(list, json.array_mt) end
  if mark == 2 then return setmetatable(list, json.empty_array_mt) end
  return list
end

function generator.value(g, json) return value_of(g, 4, json) end

-- Settings, and a function that sets them back.
function generator.settle(g, json)
  json.decode_invalid_numbers(g.to(3) > 1)
  json.decode_max_depth(g.to(4) == 1 and 2 or 1000)
  json.decode_array_with_array_mt(g.to(4) == 1)
  json.encode_max_depth(g.to(6) == 1 and 2 or 1000)
  json.encode_sparse_array(g.to(3) == 1, g.to(4) - 1, g.to(5))
  json.encode_number_precision(g.to(16))
  json.encode_empty_table_as_object(g.to(2) == 1)
  json.encode_escape_forward_slash(g.to(2) == 1)
end

-- What comes of it
-- -------------------------------------------------------------------------------------------------

-- A string in printable characters.
local function quoted(text)
  local escaped = text:gsub("[^ -~]", function(c) return ("\\%03d"):format(c:byte()) end)
  return '"' .. escaped .. '"'
end

local function number_text(value)
  if value ~= value then return "nan" end
  return ("f%.17g"):format(value)
end

-- A text that is the same for equal values.
local function show(value, json)
  if value == json.null then return "null" end
  local kind = math.type(value) or type(value)
  if kind == "float" then return number_text(value) end
  if kind == "integer" then return "i" .. value end
  if kind == "string" then return quoted(value) end
  if kind ~= "table" then return tostring(value) end
  local keys, parts = {}, {}
  for key in pairs(value) do keys[#keys + 1] = key end
  table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
  for i, key in ipairs(keys) do
    parts[i] = show(key, json) .. "=" .. show(value[key], json)
  end
  local mark = getmetatable(value) == json.array_mt and "A" or ""
  return mark .. "{" .. table.concat(parts, ",") .. "}"
end
generator.show = show

-- One line for each seed: of even seeds what a text is decoded to, of odd ones what a value is
-- encoded to; or the message.
function generator.line(seed, json)
  local g = generator.new(seed)
  generator.settle(g, json)
  local ok, result
  if seed % 2 == 0 then
    ok, result = pcall(json.decode, generator.text(g))
    if ok then result = show(result, json) end
  else
    ok, result = pcall(json.encode, generator.value(g, json))
    if ok then result = quoted(result) end
  end
  return (ok and "= " or "! ") .. result
end

return generator
