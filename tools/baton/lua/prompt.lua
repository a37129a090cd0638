-- The texts of the prompt on a terminal: the contents of tables, and what still runs after the end
-- of the input. The program may replace any global function and any field of a library, so this
-- file keeps those that it needs.
local has_rest = ... -- whether processes or timers keep the program from ending
local concat, move, sort = table.concat, table.move, table.sort
local find, format, gsub, rep, sub = string.find, string.format, string.gsub, string.rep, string.sub
local getmetatable = debug.getmetatable
local ipairs, loaded, math_type, next = ipairs, package.loaded, math.type, next
local rawget, rawlen, select, tostring, type = rawget, rawlen, select, tostring, type
local utf8_length = utf8.len

local WIDTH <const> = 78 -- columns of a line
local DEEPEST <const> = 4 -- tables in tables
local MOST_ENTRIES <const> = 200 -- in one result, in all of its tables
local MOST_SORTED <const> = 10000 -- keys of one table
local LONGEST_STRING <const> = 500 -- bytes
local MOST_NAMED <const> = 10 -- processes

local KEYWORDS <const> = {}
local WORDS <const> = "and break do else elseif end false for function goto if in local nil not or "
  .. "repeat return then true until while"
for word in WORDS:gmatch "%a+" do
  KEYWORDS[word] = true
end

-- Returns whether print would show the value as a table's address.
local function is_plain(value)
  if type(value) ~= "table" then return false end
  local meta = getmetatable(value)
  return not meta or (rawget(meta, "__tostring") == nil and rawget(meta, "__name") == nil)
end

local ESCAPES <const> =
  { ["\n"] = "\\n", ["\t"] = "\\t", ["\r"] = "\\r", ['"'] = '\\"', ["\\"] = "\\\\" }
local function escape(byte) return ESCAPES[byte] or format("\\%03d", byte:byte()) end

local function quoted(text)
  local short = sub(text, 1, LONGEST_STRING)
  -- The cut may be in the middle of a character, and its bytes are no valid text. Then all bytes
  -- beyond ASCII are escaped.
  local unsafe = utf8_length(short) and '[%c"\\]' or '[%c"\\\128-\255]'
  local shown = '"' .. gsub(short, unsafe, escape) .. '"'
  if #text > #short then shown = shown .. "... (" .. #text .. " bytes)" end
  return shown
end

local function leaf(value)
  if type(value) == "string" then return quoted(value) end
  return tostring(value)
end

local function key_name(key)
  if type(key) == "string" and find(key, "^[%a_][%w_]*$") and not KEYWORDS[key] then return key end
  return "[" .. leaf(key) .. "]"
end

-- Sorts numbers first, then strings, then other keys by type.
local function comes_before(a, b)
  local kind, other = type(a), type(b)
  if kind ~= other then
    if kind == "number" or other == "number" then return kind == "number" end
    if kind == "string" or other == "string" then return kind == "string" end
    return kind < other
  end
  if kind == "number" or kind == "string" then return a < b end
  return false
end

-- Returns the keys outside of the list part, sorted unless there are very many.
local function keys_beside(value, length)
  local keys = {}
  for key in next, value do
    if not (math_type(key) == "integer" and key >= 1 and key <= length) then
      keys[#keys + 1] = key
    end
  end
  if #keys <= MOST_SORTED then sort(keys, comes_before) end
  return keys
end

-- Puts as many pieces into each line as fit.
local function lines_of(pieces, margin)
  local lines, line = {}, ""
  for index, piece in ipairs(pieces) do
    local text = piece .. (index < #pieces and "," or "")
    if
      line ~= ""
      and (
        find(piece, "\n", 1, true)
        or find(line, "\n", 1, true)
        or #margin + #line + 1 + #text > WIDTH
      )
    then
      lines[#lines + 1], line = line, ""
    end
    line = line == "" and text or line .. " " .. text
  end
  lines[#lines + 1] = line
  return lines
end

local function render(value, depth, above, budget)
  if not is_plain(value) then return leaf(value) end
  if above[value] then return tostring(value) end -- it contains itself
  if next(value) == nil then return "{}" end
  if depth > DEEPEST then return "{...}" end
  above[value] = true
  local pieces, length = {}, 0
  while length < rawlen(value) and rawget(value, length + 1) ~= nil do length = length + 1 end
  local keys = keys_beside(value, length)
  local count, shown = length + #keys, 0
  while shown < count and budget.left > 0 do
    shown = shown + 1
    budget.left = budget.left - 1
    local key = shown <= length and shown or keys[shown - length]
    local text = render(rawget(value, key), depth + 1, above, budget)
    pieces[shown] = shown <= length and text or key_name(key) .. " = " .. text
  end
  above[value] = nil
  if shown < count then pieces[#pieces + 1] = "... (" .. count - shown .. " more)" end
  local line = "{" .. concat(pieces, ", ") .. "}"
  if #line + 2 * depth <= WIDTH and not find(line, "\n", 1, true) then return line end
  local margin = rep("  ", depth + 1)
  -- A list fills lines; a record has one line per field.
  local lines = length > 0 and #keys == 0 and lines_of(pieces, margin) or nil
  if not lines then
    lines = pieces
    for index = 1, #lines - 1 do lines[index] = lines[index] .. "," end
  end
  return "{\n" .. margin .. concat(lines, "\n" .. margin) .. "\n" .. rep("  ", depth) .. "}"
end

-- Returns its arguments, with each table replaced by a text of its contents.
local function show(...)
  local count = select("#", ...)
  if count == 0 then return end
  local first = ...
  if is_plain(first) then first = render(first, 0, {}, { left = MOST_ENTRIES }) end
  return first, show(select(2, ...))
end

-- Returns the text to print when no more input comes; nothing if the program ends.
local function farewell()
  if not has_rest() then return nil end
  local names, process = {}, loaded["baton.process"]
  for _, other in ipairs(type(process) == "table" and process.list() or {}) do
    if other ~= process.main and not other.daemon then names[#names + 1] = tostring(other) end
  end
  if #names < 2 then
    return format(
      "The program goes on until %s has ended. Ctrl-C ends it now.",
      names[1] or "a timer"
    )
  end
  local count = #names
  if count > MOST_NAMED then
    names = move(names, 1, MOST_NAMED, 1, { [MOST_NAMED + 1] = "others" })
  end
  return format(
    "The program goes on until %d processes have ended: %s. Ctrl-C ends it now.",
    count,
    concat(names, ", ")
  )
end

return show, farewell
