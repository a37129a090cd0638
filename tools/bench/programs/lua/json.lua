-- Decodes JSON and encodes it again: string.find with positions, gsub with tables, recursion,
-- string building.
local rounds = tonumber(arg[1]) or 75

local null = {}

-- Decoding. Each reader takes the text and a position. It returns a value and the position after
-- it.
local read_value
local unescapes = { b = "\b", f = "\f", n = "\n", r = "\r", t = "\t" }

local function fail(text, at, expected)
  error(("expected %s at byte %d, near '%s'"):format(expected, at, text:sub(at, at + 10)), 0)
end

local function skip(text, at)
  return text:find("[^ \t\r\n]", at) or #text + 1
end

local function unescape(text)
  text = text:gsub("\\u(%x%x%x%x)", function(hex)
    return utf8.char(tonumber(hex, 16))
  end)
  return (text:gsub("\\(.)", function(letter)
    return unescapes[letter] or letter
  end))
end

local function read_string(text, at)
  local start, escaped = at + 1, false
  local stop = text:find('["\\]', start)
  while stop and text:byte(stop) == 92 do
    escaped = true
    stop = text:find('["\\]', stop + 2)
  end
  if not stop then
    fail(text, at, "a string's end")
  end
  local found = text:sub(start, stop - 1)
  return escaped and unescape(found) or found, stop + 1
end

local function read_number(text, at)
  local from, to = text:find("^-?%d+%.?%d*[eE]?[+-]?%d*", at)
  if not from then
    fail(text, at, "a value")
  end
  return tonumber(text:sub(from, to)), to + 1
end

local function read_word(text, at)
  for word, value in pairs { ["true"] = true, ["false"] = false, null = null } do
    if text:sub(at, at + #word - 1) == word then
      return value, at + #word
    end
  end
  return read_number(text, at)
end

local function read_array(text, at)
  local list, count = {}, 0
  at = skip(text, at + 1)
  if text:byte(at) == 93 then
    return list, at + 1
  end
  while true do
    count = count + 1
    list[count], at = read_value(text, at)
    at = skip(text, at)
    local c = text:byte(at)
    if c == 93 then
      return list, at + 1
    elseif c ~= 44 then
      fail(text, at, "',' or ']'")
    end
    at = skip(text, at + 1)
  end
end

local function read_object(text, at)
  local object, key = {}, nil
  at = skip(text, at + 1)
  if text:byte(at) == 125 then
    return object, at + 1
  end
  while true do
    key, at = read_string(text, at)
    at = skip(text, at)
    if text:byte(at) ~= 58 then
      fail(text, at, "':'")
    end
    object[key], at = read_value(text, skip(text, at + 1))
    at = skip(text, at)
    local c = text:byte(at)
    if c == 125 then
      return object, at + 1
    elseif c ~= 44 then
      fail(text, at, "',' or '}'")
    end
    at = skip(text, at + 1)
  end
end

local readers = { [34] = read_string, [91] = read_array, [123] = read_object }
for _, letter in ipairs { "t", "f", "n" } do
  readers[letter:byte()] = read_word
end

function read_value(text, at)
  return (readers[text:byte(at)] or read_number)(text, at)
end

-- Encoding. All pieces are appended to one list. Keys are sorted, so that equal values give equal
-- texts.
local write_value
local escapes = { ['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t" }

local function quoted(text)
  return '"' .. text:gsub('[%c"\\]', escapes) .. '"'
end

local function write_array(list, out)
  out[#out + 1] = "["
  for i = 1, #list do
    if i > 1 then
      out[#out + 1] = ","
    end
    write_value(list[i], out)
  end
  out[#out + 1] = "]"
end

local function write_object(object, out)
  local keys = {}
  for key in pairs(object) do
    keys[#keys + 1] = key
  end
  table.sort(keys)
  out[#out + 1] = "{"
  for i, key in ipairs(keys) do
    out[#out + 1] = (i > 1 and "," or "") .. quoted(key) .. ":"
    write_value(object[key], out)
  end
  out[#out + 1] = "}"
end

function write_value(value, out)
  local kind = type(value)
  if value == null then
    out[#out + 1] = "null"
  elseif kind == "string" then
    out[#out + 1] = quoted(value)
  elseif kind == "number" then
    out[#out + 1] = math.type(value) == "integer" and ("%d"):format(value)
      or ("%.14g"):format(value)
  elseif kind == "boolean" then
    out[#out + 1] = tostring(value)
  elseif #value > 0 then
    write_array(value, out)
  else
    write_object(value, out)
  end
end

local function encode(value)
  local out = {}
  write_value(value, out)
  return table.concat(out)
end

local records = {}
for i = 1, 120 do
  records[i] = ([[{"id": %d, "name": "item \"%d\"\n", "tags": ["a", "b%d", 3.25, null], "live": %s,
    "at": {"x": %d, "y": -%d.5, "z": 1e%d}, "note": "caf\u00e9 %d"}]]):format(
    i,
    i,
    i % 9,
    i % 3 == 0,
    i * 3,
    i,
    i % 5,
    i
  )
end
local text = "[" .. table.concat(records, ",\n") .. "]"
local checksum, first = 0, nil
for _ = 1, rounds do
  local encoded = encode((read_value(text, 1)))
  first = first or encoded
  assert(encode((read_value(encoded, 1))) == first, "decoding and encoding changed the value")
  checksum = (checksum * 31 + #encoded) % 1000000007
end
print(checksum, #first, pcall(read_value, '{"a": [1, 2 3]}', 1))
