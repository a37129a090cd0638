-- require "baton.log": lines with a time, a level, a message and fields. A line is written in one
-- piece, and nobody waits for whoever reads it: what does not fit into a bounded buffer is dropped
-- and counted. `internal` has functions in C (c/io/log_files.c).

local internal = ...
local process = require "baton.process"
local json = require "baton.json.safe".new()
local open, reopen, post, date = internal.open, internal.reopen, internal.post, internal.date
local text_of_context, refuse = internal.context, internal.refuse
local context = process.context
local os_date, format, find, gsub = os.date, string.format, string.find, string.gsub
local concat, sort, type, tostring, next = table.concat, table.sort, type, tostring, next
local pcall, math_type, select = pcall, math.type, select
local encode = json.encode
json.encode_escape_forward_slash(false)
json.encode_invalid_numbers "null"
json.encode_number_precision(17)

local log = {}

local LEVELS = { debug = 1, info = 2, warn = 3, error = 4, off = 5 }
local BUFFER = 1 << 20 -- bytes of lines that wait to be written, by default
local STDERR = 0 -- the sink

-- `level` is a number, `sink` that of c/state/notices.c, `name` the path of the file that is open.
local settings = { to = "stderr", format = "logfmt", level = "info", buffer = BUFFER, hup = true }
local threshold = LEVELS.info
local sink, name = STDERR, nil
local dropped = 0

-- Texts
-- -------------------------------------------------------------------------------------------------

-- The time of a second, and the name that a file has in it. A new table for each, as processes
-- share it.
local second = { number = -1 }

local function this_second(number)
  local now = second
  if now.number ~= number then
    now = { number = number, time = os_date("!%Y-%m-%dT%H:%M:%S", number) }
    second = now
  end
  return now
end

local function json_of(value)
  if value == nil then return "null" end
  local kind = type(value)
  if kind == "string" then return encode(value) end
  return encode(value) or encode(tostring(value))
end

-- What needs no quotes stays as it is.
local function plain_of(value)
  local kind = type(value)
  local text
  if kind == "string" then
    text = value
  elseif kind == "table" then
    text = encode(value) or tostring(value)
  elseif math_type(value) == "float" then
    text = encode(value)
  else
    text = tostring(value)
  end
  if text == "" or find(text, '[%s%c"=\\]') then return encode(text) end
  return text
end

-- Names that each line has. A field of such a name gets another one.
local OWN = { time = true, level = true, msg = true }

local function key_of(key)
  key = tostring(key)
  return OWN[key] and key .. "_" or key
end

local function sorted_keys(fields)
  local keys, count = {}, 0
  for key in next, fields do
    count = count + 1
    keys[count] = key
  end
  if count > 1 then sort(keys, function(one, other) return tostring(one) < tostring(other) end) end
  return keys, count
end

-- For each format: a number that the texts of contexts are kept by; the text of fields, in the
-- order of their names; and a whole line.
local FORMATS = {
  logfmt = {
    kind = 1,
    fields = function(fields)
      local keys, count = sorted_keys(fields)
      for i = 1, count do
        local key = keys[i]
        keys[i] = format(" %s=%s", gsub(key_of(key), '[%s%c"=]', "_"), plain_of(fields[key]))
      end
      return concat(keys)
    end,
    line = function(time, milliseconds, level, message, fields)
      return format("time=%s.%03dZ level=%s msg=%s%s\n", time, milliseconds, level,
        plain_of(message), fields)
    end,
  },
  json = {
    kind = 2,
    fields = function(fields)
      local keys, count = sorted_keys(fields)
      for i = 1, count do
        local key = keys[i]
        keys[i] = format(",%s:%s", encode(key_of(key)), json_of(fields[key]))
      end
      return concat(keys)
    end,
    line = function(time, milliseconds, level, message, fields)
      return format('{"time":"%s.%03dZ","level":"%s","msg":%s%s}\n', time, milliseconds, level,
        encode(tostring(message)), fields)
    end,
  },
}
local chosen = FORMATS.logfmt

-- Whether two sources have a field of one name.
local function collide(fields, bound, of_context)
  if not fields then return false end
  for key in next, fields do
    if bound and bound[key] ~= nil then return true end
    if of_context and type(key) == "string" and context(key) ~= nil then return true end
  end
  return false
end

local function merge(...)
  local all = {}
  for i = 1, select("#", ...) do
    local fields = select(i, ...)
    if fields then
      for key, value in next, fields do all[key] = value end
    end
  end
  return all
end

-- The fields of the context, those of the logger, and those of the line. Of one name, the last one
-- counts.
local function text_of_fields(how, logger, fields)
  local of_context = text_of_context(how.kind, how.fields)
  local bound = logger.fields
  if collide(fields, bound, of_context) or (bound and collide(bound, nil, of_context)) then
    return how.fields(merge(context(), bound, fields))
  end
  local of_logger = ""
  if bound then
    of_logger = logger[how.kind]
    if not of_logger then
      of_logger = how.fields(bound)
      logger[how.kind] = of_logger
    end
  end
  return (of_context or "") .. of_logger .. (fields and how.fields(fields) or "")
end

-- Where lines go
-- -------------------------------------------------------------------------------------------------

-- A path with a conversion of os.date is another file when its name changes.
local function follow_name(now)
  if now.name == nil then now.name = os_date(settings.to, now.number) end
  if now.name == name then return end
  if reopen(sink, now.name) then name = now.name end -- else tried again in the next second
end

local function put(level, message, fields)
  local number, milliseconds = date()
  local now = this_second(number)
  if settings.by_name then follow_name(now) end
  return post(sink, chosen.line(now.time, milliseconds, level, message, fields), settings.buffer)
end

local function write(logger, level, message, fields)
  local missing = put(level, message, text_of_fields(chosen, logger, fields))
  if not missing then
    dropped = dropped + 1
  elseif missing > 0 then
    put("warn", "lines were dropped, as nobody read them", chosen.fields { count = missing })
  end
end

-- Opens the file of this path.
local function open_file(path)
  local opened = path
  if find(path, "%%") then opened = os_date(path, (date())) end
  local number, why = open(opened)
  if not number then return nil, why end
  return number, opened
end

function log.reopen()
  if sink == STDERR then return true end
  return reopen(sink, name)
end

local listens = false

-- A daemon that opens the file anew at SIGHUP. Other VMs than the first one, and programs that
-- embed Lua, get no signals.
local function listen()
  if listens then return end
  local could, signals = pcall(process.signals, "HUP")
  if not could then return end
  listens = true
  process.spawn({ name = "log", daemon = true, quiet = true }, function()
    process.set_context(nil)
    for _ in signals:values() do log.reopen() end
  end)
end

-- Settings
-- -------------------------------------------------------------------------------------------------

-- `depth` is how many functions lie between this one and the module's.
local function wrong(depth, number, of, expected, got)
  refuse(depth + 3, number, of, format("%s expected, got %s", expected, got))
end

local LEVEL = "a level 'debug', 'info', 'warn', 'error' or 'off'"

local function check_level(depth, of, level)
  if type(level) == "string" and LEVELS[level] then return end
  wrong(depth + 1, 1, of, LEVEL, "'" .. tostring(level) .. "'")
end

local TYPES =
  { to = "string", format = "string", level = "string", buffer = "number", hup = "boolean" }

local function check_options(options)
  if type(options) ~= "table" then wrong(1, 1, "setup", "table", type(options)) end
  for key, value in next, options do
    local wanted = TYPES[key]
    if not wanted then refuse(3, 1, "setup", format("unknown option '%s'", tostring(key))) end
    if type(value) ~= wanted then
      wrong(1, 1, "setup", format("option '%s': %s", key, wanted), type(value))
    end
  end
  if options.level then check_level(1, "setup", options.level) end
  if options.format and not FORMATS[options.format] then
    wrong(1, 1, "setup", "option 'format': 'logfmt' or 'json'", "'" .. options.format .. "'")
  end
  local buffer = options.buffer
  if buffer and (math_type(buffer) ~= "integer" or buffer < 1024 or buffer > 1 << 30) then
    local expected = "option 'buffer': an integer from 1024 to 1073741824"
    wrong(1, 1, "setup", expected, tostring(buffer))
  end
end

local function copy_of_settings()
  local copy = {}
  for _, key in next, { "to", "format", "level", "buffer", "hup" } do copy[key] = settings[key] end
  return copy
end

function log.setup(options)
  if options == nil then return copy_of_settings() end
  check_options(options)
  local changed = merge(settings, options)
  local to_sink, to_name = sink, name
  if options.to then
    if options.to == "stderr" then
      to_sink, to_name = STDERR, nil
    else
      local number, opened = open_file(options.to)
      if not number then return nil, opened end
      to_sink, to_name = number, opened
    end
    changed.by_name = to_sink ~= STDERR and find(options.to, "%%") ~= nil
    second = { number = -1 }
  end
  process.critical(function()
    settings, sink, name = changed, to_sink, to_name
    threshold, chosen = LEVELS[changed.level], FORMATS[changed.format]
  end)
  if to_sink ~= STDERR and changed.hup then listen() end
  return copy_of_settings()
end

function log.level(level)
  if level ~= nil then
    check_level(0, "level", level)
    settings.level, threshold = level, LEVELS[level]
  end
  return settings.level
end

function log.dropped() return dropped end

-- Loggers
-- -------------------------------------------------------------------------------------------------

-- Adds the functions of a logger to a table.
local function add_functions(to, logger)
  for _, level in next, { "debug", "info", "warn", "error" } do
    local number = LEVELS[level]
    to[level] = function(message, fields)
      if number < threshold then return end
      if fields ~= nil and type(fields) ~= "table" then
        wrong(0, 2, level, "table of fields", type(fields))
      end
      write(logger, level, message, fields)
    end
  end

  function to.with(fields)
    if type(fields) ~= "table" then wrong(0, 1, "with", "table of fields", type(fields)) end
    return add_functions({}, { fields = merge(logger.fields, fields) })
  end

  function to.enabled(level)
    check_level(0, "enabled", level)
    return level ~= "off" and LEVELS[level] >= threshold
  end

  -- A function for what reports by texts or tables, such as an access log.
  function to.writer(level)
    if level == nil then level = "info" end
    check_level(0, "writer", level)
    local put_line = to[level] or function() end
    return function(message, fields)
      if type(message) == "table" and fields == nil then
        put_line("request", message)
      else
        put_line(message, fields)
      end
    end
  end
  return to
end

return add_functions(log, {})
