-- req:parts(): a body of the type multipart/form-data (RFC 7578), part by part. No more of it is in
-- memory than what one read brings.
--
-- The body is the parts, with a delimiter before each and after the last one. The buffer begins
-- with a line end, so that the first delimiter is like all others. What cannot be part of a
-- delimiter is data as soon as it has come.
local core = ...
local type_of = core.use_part("http_forms").type_of
local blame = core.blame

local MOST_PARTS, MOST_HEAD, MOST_FIELDS = 1000, 8192, 32
local PIECE = 65536

-- Reading
-- -------------------------------------------------------------------------------------------------

local Reader = {}
Reader.__index = Reader

-- The request is answered with the status if the handler lets the error through. `why` of a body
-- that could not be read has its status already.
local function fail(reader, why, status)
  blame(reader.request, status or 400)
  reader.fault = why
  error("req:parts: " .. why, 0)
end

-- Adds what has come to the buffer, whose first bytes up to `at` are no longer needed.
local function fetch(reader)
  local piece, why = reader.request:read(PIECE)
  if not piece then fail(reader, why or "the body ends within a part") end
  reader.buffer = reader.buffer:sub(reader.at) .. piece
  reader.at = 1
end

-- Finds what of the buffer is data: up to `stop`. `is_delimited`: a delimiter follows.
local function scan(reader)
  local found = reader.buffer:find(reader.delimiter, reader.at, true)
  reader.is_delimited = found ~= nil
  reader.stop = (found or #reader.buffer - #reader.delimiter + 2) - 1
end

-- The next data of the part, at most `most` bytes; nil at its end.
local function read(reader, most)
  while reader.at > reader.stop do
    if reader.is_delimited then return nil end
    fetch(reader)
    scan(reader)
  end
  local last = math.min(reader.stop, reader.at + most - 1)
  local data = reader.buffer:sub(reader.at, last)
  reader.at = last + 1
  return data
end

-- Waits until the pattern, a plain text, is in the buffer behind `at`. Returns where it begins.
local function await(reader, text, most, what)
  local from = reader.at
  while true do
    local found = reader.buffer:find(text, from, true)
    if found and found - reader.at <= most then return found end
    if found or #reader.buffer - reader.at > most then fail(reader, what, 400) end
    local seen = math.max(#reader.buffer - reader.at - #text + 2, 0)
    fetch(reader)
    from = reader.at + seen
  end
end

-- Heads of parts
-- -------------------------------------------------------------------------------------------------

-- The parameters of a field: `; name="a"; filename=b`. Nil if they cannot be read.
local function parameters(text)
  local found, at = {}, 1
  while text:find("^[ \t]*;", at) do
    local name, next_at = text:match("^[ \t]*;[ \t]*([%w!#$&+.^_`|~*-]+)=()", at)
    if not name then
      return text:find("^[ \t]*;[ \t]*$", at) and found or nil
    end
    local value
    if text:sub(next_at, next_at) == '"' then
      -- A backslash protects a quote or another one; elsewhere it is of a path of Windows.
      local stop = next_at + 1
      while text:find('^[^"]', stop) do
        stop = stop + (text:find('^\\[\\"]', stop) and 2 or 1)
      end
      if text:sub(stop, stop) ~= '"' then return nil end
      value = text:sub(next_at + 1, stop - 1):gsub('\\([\\"])', "%1")
      at = stop + 1
    else
      value, at = text:match("^([^;%s\"]*)()", next_at)
    end
    name = name:lower()
    if found[name] then return nil end
    found[name] = value
  end
  return text:find("^[ \t]*$", at) and found or nil
end

-- The fields of a head, whose lines all begin with "\r\n"; names are in lower case.
local function fields_of(reader, head)
  local fields, count = {}, 0
  for line in (head:sub(3) .. "\r\n"):gmatch "(.-)\r\n" do
    if line ~= "" then
      local name, value = line:match "^([%w!#$%%&'*+.^_`|~-]+):[ \t]*(.-)[ \t]*$"
      count = count + 1
      if not name or value:find "[\0-\8\10-\31\127]" then
        fail(reader, "the head of a part is wrong")
      end
      if count > MOST_FIELDS then fail(reader, "a part has too many fields") end
      name = name:lower()
      fields[name] = fields[name] and fields[name] .. ", " .. value or value
    end
  end
  return fields
end

-- Skips the line end between a head and its data. It may as well begin the next delimiter: a part
-- without data.
local function skip_empty_line(reader)
  local delimiter = reader.delimiter
  while true do
    local come = reader.buffer:sub(reader.at, reader.at + #delimiter - 1)
    if come == delimiter then return end
    if come ~= delimiter:sub(1, #come) then break end
    fetch(reader)
  end
  reader.at = reader.at + 2
end

local Part = {}
Part.__index = Part
Part.__name = "baton.http part"

-- Begins the part behind the delimiter. Returns nil at the end of all.
local function next_part(reader)
  while read(reader, PIECE) do -- what nobody has read
  end
  reader.at = reader.stop + 1 + #reader.delimiter
  while #reader.buffer - reader.at < 1 do fetch(reader) end
  if reader.buffer:find("^%-%-", reader.at) then return nil end
  local line_end = await(reader, "\r\n", 256, "a delimiter is wrong")
  if reader.buffer:sub(reader.at, line_end - 1):find "[^ \t]" then
    fail(reader, "a delimiter is wrong")
  end
  reader.count = reader.count + 1
  if reader.count > reader.max_parts then
    fail(reader, ("more than %d parts"):format(reader.max_parts), 413)
  end
  reader.at = line_end
  local stop = await(reader, "\r\n\r\n", MOST_HEAD, "the head of a part is too large")
  local fields = fields_of(reader, reader.buffer:sub(reader.at, stop - 1))
  reader.at = stop + 2
  skip_empty_line(reader)
  scan(reader)
  local disposition = fields["content-disposition"] or ""
  local known = parameters(disposition:match "^[Ff][Oo][Rr][Mm]%-[Dd][Aa][Tt][Aa](.*)$" or "-")
  if not known or not known.name then
    fail(reader, "a part has no Content-Disposition with form-data and a name")
  end
  return setmetatable({
    name = known.name,
    filename = known.filename,
    type = fields["content-type"],
    headers = fields,
    reader = reader,
  }, Part)
end

-- The reader of a part that the loop has not left.
local function reader_of(part)
  local reader = part.reader
  if reader.part ~= part then error("the part has ended: the loop has gone on", 3) end
  if reader.fault then error("req:parts: " .. reader.fault, 0) end
  return reader
end

-- part:read(size): the next data; nil at the end of the part.
function Part:read(size)
  if size ~= nil and (math.type(size) ~= "integer" or size < 1) then
    error(("part:read: number of bytes, at least 1, expected, got %s"):format(tostring(size)), 2)
  end
  return read(reader_of(self), size or PIECE)
end

-- part:body(max): all data of the part; or nil and "too large".
function Part:body(max)
  local reader = reader_of(self)
  local pieces, size = {}, 0
  local piece = read(reader, PIECE)
  while piece do
    size = size + #piece
    if max and size > max then
      blame(reader.request, 413)
      reader.fault = "too large"
      return nil, "too large"
    end
    pieces[#pieces + 1] = piece
    piece = read(reader, PIECE)
  end
  return table.concat(pieces)
end

-- The iterator
-- -------------------------------------------------------------------------------------------------

local function check_options(given)
  for name, value in pairs(given or {}) do
    if name ~= "max_parts" then
      error(("req:parts: unknown option '%s'"):format(tostring(name)), 3)
    end
    if math.type(value) ~= "integer" or value < 1 then
      local text = "req:parts: option 'max_parts': positive integer expected, got %s"
      error(text:format(tostring(value)), 3)
    end
  end
  return given or {}
end

-- req:parts(options): for part in req:parts() do ... end
return function(request, given)
  local options = check_options(given)
  local reader = { request = request, count = 0, max_parts = options.max_parts or MOST_PARTS }
  local type = type_of(request)
  if type ~= "multipart/form-data" then
    local text = "a body of the type multipart/form-data was expected, and %s came"
    fail(reader, text:format(type ~= "" and type or "one without type"), 415)
  end
  local known = parameters(request:header("content-type"):match "^%s*[^;%s]*(.*)$")
  local boundary = known and known.boundary or ""
  if #boundary > 70 or not boundary:find "^[%w'()+_,./:=? -]*[%w'()+_,./:=?-]$" then
    fail(reader, "its Content-Type has no boundary of 1 to 70 plain characters")
  end
  reader.delimiter = "\r\n--" .. boundary
  reader.buffer, reader.at = "\r\n", 1
  scan(reader)
  return function()
    if reader.has_ended then return nil end
    if reader.fault then error("req:parts: " .. reader.fault, 0) end
    reader.part = nil
    reader.part = next_part(reader)
    reader.has_ended = reader.part == nil
    return reader.part
  end
end
