-- Files as replies: res:file, and the handlers of router:static. To open, to read and to choose a
-- part is in C (c/http/files.c).
local core = ...
local progress = core.methods.progress
local files = {}

-- Options
-- -------------------------------------------------------------------------------------------------

local function is_text(value) return type(value) == "string" end
local function is_boolean(value) return type(value) == "boolean" end
local function is_age(value) return math.type(value) == "integer" and value >= 0 end

-- How each option is checked, and what is said of it.
local MAX_AGE = { is_age, "number of seconds, an integer, not negative," }
local HIDDEN = { is_boolean, "boolean" }
local OF_FILE = {
  type = { is_text, "string" },
  download = { function(value) return value == true or is_text(value) end, "name or true" },
  max_age = MAX_AGE,
  root = { is_text, "directory" },
  hidden = HIDDEN,
}
local OF_STATIC = {
  index = {
    function(value) return value == false or is_text(value) and not value:find "[/%z]" end,
    "name of a file or false",
  },
  max_age = MAX_AGE,
  hidden = HIDDEN,
}

-- `level` is that of the program.
local function check_options(what, rules, given, level)
  if given ~= nil and type(given) ~= "table" then
    error(("%s: table of options expected, got %s"):format(what, type(given)), level)
  end
  for name, value in pairs(given or {}) do
    local rule = rules[name]
    if not rule then error(("%s: unknown option '%s'"):format(what, tostring(name)), level) end
    if not rule[1](value) then
      local text = "%s: option '%s': %s expected, got %s"
      error(text:format(what, name, rule[2], tostring(value)), level)
    end
  end
  return given or {}
end

-- Sending
-- -------------------------------------------------------------------------------------------------

-- A name that browsers propose: plain, and a second time with all its letters (RFC 6266).
local function disposition(name)
  local plain = name:gsub('[%c"\\\x7f-\xff]', "_")
  local text = ('attachment; filename="%s"'):format(plain)
  if plain == name then return text end
  local function code(byte) return ("%%%02X"):format(byte:byte()) end
  local coded = name:gsub("[^%w!#$&+.^_`|~-]", code)
  return text .. "; filename*=UTF-8''" .. coded
end

-- Sends what was chosen, piece by piece. What fails after the head has been sent cuts the reply
-- off, so that no client takes it for whole.
local function transfer(request, file, status, fields, length)
  if request.method ~= "HEAD" then
    local is_read, why = file:read()
    if not is_read then return nil, why end
  end
  local is_sent, why = core.begin_file(request, file, status, fields, length)
  while is_sent and progress(request) == "streams" do
    local is_read, fault = file:read()
    if not is_read then
      core.go_on(request)
      return nil, fault
    end
    is_sent, why = core.go_on(request, file)
  end
  return is_sent, why
end

-- The same in gzip, as a stream: its length is not known.
local function transfer_packed(request, file, fields)
  local packing, has_body = core.use_part "http_packing", request.method ~= "HEAD"
  local count, why = 0, nil
  if has_body then
    count, why = file:read()
    if not count then return nil, why end
  end
  local is_sent
  is_sent, why = packing.begin(request, 200, fields, has_body)
  while is_sent and count > 0 do
    is_sent, why = packing.write(request, file:text())
    if is_sent then
      count, why = file:read()
      if not count then
        core.go_on(request)
        return nil, why
      end
    end
  end
  if not is_sent then return nil, why end
  return request:close()
end

-- Replies with an open file, or with the part of it that the client wants.
function files.reply(request, file, path, options)
  local method = request.method
  local status, first, last, size
  if method == "GET" then
    status, first, last, size = file:choose(
      request:header "if-none-match",
      request:header "if-modified-since",
      request:header "range",
      request:header "if-range"
    )
  elseif method == "HEAD" then
    status, first, last, size =
      file:choose(request:header "if-none-match", request:header "if-modified-since")
  else
    status, first, last, size = file:choose()
  end
  if status == 416 then
    return request:send(416, "Range Not Satisfiable", { ["Content-Range"] = "bytes */" .. size })
  end
  local etag, date = file:marks()
  local fields = { ["ETag"] = etag, ["Last-Modified"] = date, ["Accept-Ranges"] = "bytes" }
  if options.max_age then fields["Cache-Control"] = "max-age=" .. options.max_age end
  local set_before = core.name_set(request, "content-type")
  if not set_before then
    fields["Content-Type"] = options.type or core.kind(path)
  elseif options.type then
    request:set(set_before, options.type)
  end
  if options.download then
    local name = options.download == true and path:match "[^/]*$" or options.download
    fields["Content-Disposition"] = disposition(name)
  end
  if status == 206 then
    fields["Content-Range"] = ("bytes %d-%d/%d"):format(first, last, size)
  end
  local is_packed = false
  local packing = core.compresses(request) and core.use_part "http_packing"
  if packing and size >= packing.least then
    fields, is_packed = packing.prepare(request, status, fields)
  end
  if status == 304 then
    fields["Content-Type"], fields["Content-Disposition"] = nil, nil
    return request:send(304, nil, fields)
  end
  if is_packed then return transfer_packed(request, file, fields) end
  return transfer(request, file, status, fields, last - first + 1)
end

-- What a program is told of a file that cannot be sent.
local WHY = {
  missing = "no such file",
  directory = "it is a directory",
  denied = "permission denied",
}

-- res:file(path, options): replies with a file; or nil and why, if nothing was sent.
function files.send(request, path, given)
  if type(path) ~= "string" then
    error(("res:file: path expected, got %s"):format(type(path)), 2)
  end
  local options = check_options("res:file", OF_FILE, given, 3)
  local name = path
  if options.root then
    local is_directory
    name, is_directory = core.below(path, false, options.hidden)
    if not name or is_directory then return nil, WHY.missing end
  end
  local file <close>, why = core.open(name, options.root)
  if not file then return nil, WHY[why] or why end
  return files.reply(request, file, name, options)
end

-- Directories
-- -------------------------------------------------------------------------------------------------

-- Sends the client to the directory, whose links are relative to the path with a slash. A path that
-- began with two slashes, or with a slash and a backslash, would lead to another host.
local function redirect(request)
  local query = request.query_string
  local path = request.path:gsub("^/+", "/"):gsub("\\", "%%5C")
  return 301, nil, { Location = path .. "/" .. (query ~= "" and "?" .. query or "") }
end

-- Returns a handler, f(request, path): the path is below the directory, as it came. `level` of
-- errors is that of the program.
function files.static(directory, given, level)
  if type(directory) ~= "string" then
    error(("router:static: directory expected, got %s"):format(type(directory)), level)
  end
  local options = check_options("router:static", OF_STATIC, given, level + 1)
  local _ <close>, what = core.open(directory)
  if what ~= "directory" then
    local why = what == nil and "it is no directory" or WHY[what] or what
    error(("router:static: directory '%s': %s"):format(directory, why), level)
  end
  local index = options.index
  if index == nil then index = "index.html" end
  return function(request, path)
    local name, is_directory = core.below(path, true, options.hidden)
    if not name or is_directory and not index then return 404, "Not Found" end
    if is_directory then name = name == "" and index or name .. "/" .. index end
    local file <close>, why = core.open(name, directory)
    if file then
      local of_protocol = type(request) == "table" and core.files_of_http2() or files
      local _, fault = of_protocol.reply(request, file, name, options)
      if fault and not request:progress() then error(("%s: %s"):format(name, fault)) end
      return
    end
    if why == "directory" and index and not is_directory then return redirect(request) end
    if why == "missing" or why == "directory" then return 404, "Not Found" end
    if why == "denied" then return 403, "Forbidden" end
    error(("%s/%s: %s"):format(directory, name, why))
  end,
    index and redirect
end

return files
