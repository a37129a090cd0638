-- A recursive-descent reader and writer of JSON-like text: string.find with positions, tables, recursion.
local rounds = tonumber(arg[1]) or 220

local read_value

local function skip(text, at)
  return text:find("[^ \n]", at) or #text + 1
end

local function read_string(text, at)
  local close = text:find('"', at + 1, true)
  return text:sub(at + 1, close - 1), close + 1
end

local function read_list(text, at)
  local list = {}
  at = skip(text, at + 1)
  while text:byte(at) ~= 93 do
    list[#list + 1], at = read_value(text, at)
    at = skip(text, at)
    if text:byte(at) == 44 then
      at = skip(text, at + 1)
    end
  end
  return list, at + 1
end

local function read_record(text, at)
  local record, key = {}, nil
  at = skip(text, at + 1)
  while text:byte(at) ~= 125 do
    key, at = read_string(text, at)
    at = skip(text, text:find(":", at, true) + 1)
    record[key], at = read_value(text, at)
    at = skip(text, at)
    if text:byte(at) == 44 then
      at = skip(text, at + 1)
    end
  end
  return record, at + 1
end

function read_value(text, at)
  local c = text:byte(at)
  if c == 123 then
    return read_record(text, at)
  elseif c == 91 then
    return read_list(text, at)
  elseif c == 34 then
    return read_string(text, at)
  end
  local from, to = text:find("^-?[%d.]+", at)
  return tonumber(text:sub(from, to)), to + 1
end

local function write_value(value, out)
  if type(value) == "number" then
    out[#out + 1] = ("%g"):format(value)
  elseif type(value) == "string" then
    out[#out + 1] = '"' .. value .. '"'
  else
    local keys = {}
    for key in pairs(value) do
      keys[#keys + 1] = tostring(key)
    end
    table.sort(keys)
    for _, key in ipairs(keys) do
      out[#out + 1] = key .. ":"
      local item = value[key]
      if item == nil then
        item = value[tonumber(key)]
      end
      write_value(item, out)
    end
  end
end

local records = {}
for i = 1, 120 do
  records[i] = ('{"id": %d, "name": "item %d", "tags": ["a", "b%d", 3.25], "at": {"x": %d, "y": -%d.5}}')
    :format(i, i, i % 9, i * 3, i)
end
local text = "[" .. table.concat(records, ",\n") .. "]"
local size = 0
for _ = 1, rounds do
  local value = read_value(text, 1)
  local out = {}
  write_value(value, out)
  size = size + #table.concat(out)
end
print(size)
