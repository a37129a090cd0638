-- A request of HTTP/2 with its reply, as handlers of baton.http see it: one object with the fields
-- and methods of the one in C that a request of HTTP/1.1 is (reference-http.md).
--
-- `engine` has the functions of c/http2.c, `http` what baton.http gives to its parts.
local engine, http, source = ...
local process = require "baton.process"
local heads = source "web/http2_heads"()
local fields_of, has_no_body, read_reply = heads.fields_of, heads.has_no_body, heads.read_reply

local PIECE = 256 << 10 -- bytes of a reply for which a slow client has the time of a body each
local MOST_PARAMETERS = 1000
local INTERNAL_ERROR, CANCEL = 2, 8 -- RFC 9113, 7
local REASONS_OF_FAULTS = { [400] = "closed", [408] = "timeout", [413] = "too large" }

-- The key of what programs must not touch.
local OWN = {}

local methods = { json = http.methods.json, events = http.methods.events }

-- Fields
-- -------------------------------------------------------------------------------------------------

local made = {} -- what is made when it is first read

function made.query(request)
  local query, count = {}, 0
  for pair in request.query_string:gmatch "[^&]+" do
    count = count + 1
    if count > MOST_PARAMETERS then break end
    local name, value = pair:match "^([^=]*)=?(.*)$"
    name = http.decode(name, true)
    if query[name] == nil then query[name] = http.decode(value, true) end
  end
  return query
end

function made.peer(request) return request[OWN].connection.conn:peer() end

local Request = { __name = "baton.http.request*" }

function Request.__index(request, key)
  local method = methods[key]
  if method then return method end
  local make = made[key]
  if not make then return nil end
  local value = make(request)
  rawset(request, key, value)
  return value
end

function Request.__tostring(request)
  return ("baton.http request: %s %s"):format(request.method, request.target)
end

local function new(connection, id, method, target, host, headers, has_body)
  if not headers.host and host ~= "" then headers.host = host end
  local path, query = target:match "^([^?]*)%??(.*)$"
  local own = {
    connection = connection,
    id = id,
    begun = process.now(),
    headers = headers,
    length = tonumber(headers["content-length"]),
    is_head = method == "HEAD",
    has_ended = not has_body,
    received = 0,
    status = 0,
    sent = 0,
  }
  local request = setmetatable({
    method = method,
    target = target,
    path = path,
    query_string = query,
    host = host,
    headers = headers,
    version = "2.0",
    [OWN] = own,
  }, Request)
  return request, own
end

-- Returns what programs must not touch.
local function check(request)
  local own = type(request) == "table" and rawget(request, OWN)
  if not own then error(("request expected, got %s"):format(type(request)), 3) end
  return own
end

local function check_open(request)
  local own = type(request) == "table" and rawget(request, OWN)
  if not own then error(("request expected, got %s"):format(type(request)), 3) end
  if own.is_closed then
    error("the request has ended: its handler has returned, or its connection was closed", 3)
  end
  return own
end

function methods:header(name) return check(self).headers[name:lower()] end

function methods:figures()
  local own = check(self)
  return own.status, own.sent, process.now() - own.begun
end

function methods:progress() return check(self).progress end

function methods:fault() return check(self).fault end

-- Waits
-- -------------------------------------------------------------------------------------------------

-- Waits until the stream has moved, by the bell that is in the field. Returns nil when the time is
-- over. The first call only hangs up the bell: the caller tries once more.
local function await(own, name, deadline)
  local bell = own[name]
  if not bell then
    own[name] = process.semaphore(0)
    return true
  end
  local left = deadline - process.now()
  if left >= 1e9 then return bell:wait() end
  return left > 0 and bell:wait(left)
end

local function ring(bell)
  if bell and bell:count() == 0 then bell:signal() end
end

-- Called when the stream has moved.
local function moved(own)
  ring(own.may_read)
  ring(own.may_write)
end

-- The body
-- -------------------------------------------------------------------------------------------------

local function refuse_body(own, status)
  own.fault = status
  return nil, REASONS_OF_FAULTS[status]
end

-- Waits for a part of the body. Returns it, nil at the end, or nil and why.
local function read_part(own, most)
  if own.fault then return nil, REASONS_OF_FAULTS[own.fault] or "closed" end
  if own.has_ended then return nil end
  local connection = own.connection
  local server = connection.server
  if not own.deadline then
    own.deadline = process.now() + server.options.body_timeout
    if own.headers.expect and not own.progress then
      engine.go_on(connection.handle, own.id)
      connection:settle()
    end
  end
  while true do
    local part, why = engine.read(connection.handle, own.id, most)
    if part then
      own.received = own.received + #part
      connection:settle()
      if own.received > server.options.max_body then return refuse_body(own, 413) end
      return part
    end
    if why then return refuse_body(own, 400) end
    if part == nil then
      own.has_ended = true
      return nil
    end
    if not await(own, "may_read", own.deadline) then
      server.core:count "timeouts"
      return refuse_body(own, 408)
    end
  end
end

-- req:read([size])
function methods:read(size)
  local own = check_open(self)
  size = size or 65536
  if math.type(size) ~= "integer" or size < 1 then
    error(("req:read: number of bytes, at least 1, expected, got %s"):format(tostring(size)), 2)
  end
  return read_part(own, size)
end

-- req:body([max])
function methods:body(max)
  local own = check(self)
  if own.body then return own.body end
  check_open(self)
  max = max or math.maxinteger
  if type(max) ~= "number" then
    error(("req:body: number of bytes expected, got %s"):format(type(max)), 2)
  end
  if own.length and own.length > max then return refuse_body(own, 413) end
  local parts, size = {}, 0
  while true do
    local part, why = read_part(own, PIECE)
    if why then return nil, why end
    if not part then break end
    size = size + #part
    if size > max then return refuse_body(own, 413) end
    parts[#parts + 1] = part
  end
  own.body = table.concat(parts)
  return own.body
end

local function check_silent(own)
  if own.progress then error("the reply has begun already: a request has one reply", 3) end
end

-- Begins the reply. Returns how many bytes of the data were taken; or nil and why.
local function begin_reply(own, status, list, data, is_last)
  local connection = own.connection
  local core = connection.server.core
  local taken, why = engine.respond(connection.handle, own.id, status, list, data, is_last)
  if taken == false then
    error(("fields of a reply: '%s' cannot be sent"):format(why), 3)
  end
  own.status = status
  own.sent = #data
  core:note(status, #data)
  if list.is_last then connection:shut_down() end
  connection:settle()
  return taken, why
end

-- Replies
-- -------------------------------------------------------------------------------------------------

-- Sends what is behind the first `from` bytes. A client that takes too long for a piece loses the
-- rest.
local function send_rest(own, data, from, is_last)
  local connection = own.connection
  local timeout = connection.server.options.body_timeout
  local deadline, piece = process.now() + timeout, from + PIECE
  while from < #data do
    local taken, why = engine.send(connection.handle, own.id, data, from, is_last)
    if not taken then return nil, why end
    from = from + taken
    if taken > 0 then
      connection:settle()
      if from >= piece then
        deadline, piece = process.now() + timeout, from + PIECE
      end
    elseif not await(own, "may_write", deadline) then
      engine.reset(connection.handle, own.id, CANCEL)
      connection:settle()
      return nil, "timeout"
    end
  end
  return true
end

local raw = {} -- methods that do not pack
local parts -- those of baton.http that work on these requests

function raw.send(request, status, body, fields)
  local own = check_open(request)
  check_silent(own)
  local list = fields_of(own, status, fields, #body)
  own.progress = "replied"
  if own.is_head or has_no_body(status) then body = "" end
  local taken, why = begin_reply(own, status, list, body, true)
  if not taken then return nil, why end
  return send_rest(own, body, taken, true)
end

-- res:send([status,] body, fields)
function methods:send(status, body, fields)
  local own = check_open(self)
  check_silent(own)
  status, body, fields = read_reply(status, body, fields)
  local packs = own.connection.server.options.compress
  local send = packs and parts.use "http_packing".send or raw.send
  return send(self, status, body, fields)
end

-- res:set(name, value)
function methods:set(name, value)
  local own = check_open(self)
  check_silent(own)
  if type(name) ~= "string" then
    error(("res:set: name of a field expected, got %s"):format(type(name)), 2)
  end
  own.fields = own.fields or {}
  own.fields[name] = value
  return self
end

function raw.stream(request, status, fields)
  local own = check_open(request)
  check_silent(own)
  local list = fields_of(own, status, fields, nil)
  own.progress = "streams"
  own.turn = process.mutex { name = "a stream of baton.http" }
  own.has_no_body = own.is_head or has_no_body(status)
  local taken, why = begin_reply(own, status, list, "", own.has_no_body)
  if not taken then return nil, why end
  return request
end

-- res:stream([status], [fields])
function methods:stream(status, fields)
  local own = check_open(self)
  check_silent(own)
  status, _, fields = read_reply(status == nil and 200 or status, nil, fields)
  local packs = own.connection.server.options.compress
  local stream = packs and parts.use "http_packing".stream or raw.stream
  return stream(self, status, fields)
end

-- Sends a part of a stream, whole, also if several processes do. A process that was killed has left
-- its turn.
local function send_part(own, data, is_last)
  own.turn:lock()
  local done, why = true, nil
  if data == "" then
    local connection = own.connection
    done, why = engine.send(connection.handle, own.id, "", 0, is_last)
    connection:settle()
  else
    done, why = send_rest(own, data, 0, is_last)
  end
  own.turn:unlock()
  if done then return true end
  return nil, why
end

function raw.write(request, ...)
  local own = check_open(request)
  local data = table.concat { ... }
  if data == "" or own.has_no_body then return true end
  own.sent = own.sent + #data
  own.connection.server.core:note(0, #data)
  return send_part(own, data, false)
end

-- stream:write(s, ...)
function methods:write(...)
  local own = check_open(self)
  if own.is_file then error("the reply is a file", 2) end
  if own.progress ~= "streams" then
    if own.progress then error("the stream was closed", 2) end
    error("res:stream() comes before the first write", 2)
  end
  for i = 1, select("#", ...) do
    local part = select(i, ...)
    if type(part) ~= "string" and type(part) ~= "number" then
      error(("stream:write: string expected, got %s"):format(type(part)), 2)
    end
  end
  local write = own.is_packed and parts.use "http_packing".write or raw.write
  return write(self, ...)
end

-- Whether the stream can be ended as if it were whole.
local function may_end(own)
  return own.progress == "streams" and not (own.is_closed or own.is_file or own.is_cut)
end

function raw.close(request)
  local own = check(request)
  if not may_end(own) then return true end
  own.progress = "replied"
  if own.has_no_body then return true end
  return send_part(own, "", true)
end

-- stream:close()
function methods:close()
  local own = check(self)
  if not may_end(own) then return true end
  local close = own.is_packed and parts.use "http_packing".close or raw.close
  return close(self)
end

-- What an error or a kill has cut off does not end as if it were whole.
function Request.__close(request, failure)
  if failure == nil then methods.close(request) end
end

-- Files
-- -------------------------------------------------------------------------------------------------

-- Begins a reply with what was read of the file: `length` bytes in all.
local function begin_file(request, file, status, fields, length)
  local own = check_open(request)
  check_silent(own)
  local list, data = fields_of(own, status, fields, length), own.is_head and "" or file:text()
  local is_last = own.is_head or #data == length
  own.is_file, own.unsent, own.progress = true, length - #data, "streams"
  local taken, why = begin_reply(own, status, list, data, is_last)
  if not taken then return nil, why end
  if is_last then own.progress = "replied" end
  return send_rest(own, data, taken, is_last)
end

-- Sends what was read since. Without a file, the reply is cut off.
local function go_on(request, file)
  local own = check_open(request)
  if not file then
    own.is_cut = true
    engine.reset(own.connection.handle, own.id, INTERNAL_ERROR)
    own.connection:settle()
    return
  end
  local data = file:text()
  own.unsent = own.unsent - #data
  own.sent = own.sent + #data
  own.connection.server.core:note(0, #data)
  local is_last = own.unsent == 0
  if is_last then own.progress = "replied" end
  return send_rest(own, data, 0, is_last)
end

parts = source "web/http2_parts"(http, methods, check, {
  begin_file = begin_file,
  go_on = go_on,
  raw = raw,
})

-- After a handler has returned these.
local function finish(request, status, body, fields)
  local own = request[OWN]
  if own.progress == "streams" then return methods.close(request) end
  if own.progress or own.is_closed then return end
  if status == nil then error("the handler has neither sent a reply nor returned a status", 0) end
  return methods.send(request, status, body, fields)
end

-- The status and its words.
local function fail(request, status)
  return methods.send(request, status, http.reason(status))
end

-- Answers a request that no handler gets.
local function refuse(request, status)
  local own = request[OWN]
  local server, text = own.connection.server, http.reason(status)
  local list = fields_of(own, status, nil, #text)
  if own.is_head then text = "" end
  server.core:count "refused"
  server.core:note(status, #text)
  engine.respond(own.connection.handle, own.id, status, list, text, true)
end

return { new = new, finish = finish, fail = fail, refuse = refuse, moved = moved, ring = ring }
