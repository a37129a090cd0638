-- require "baton.http": the server's loops, its end, its log, and the methods of requests that are
-- not called at each one. What is called at each one is in C (c/http).
local core = ...
local process = require "baton.process"
local net = require "baton.net"

local http = {}
local methods = core.methods
local new_session = core.session
local finish, fail = core.finish, core.fail
local traceback = debug and debug.traceback or function(message) return message end

-- Options
-- -------------------------------------------------------------------------------------------------

local function is_time(value) return type(value) == "number" and value >= 0 end
local function is_span(value) return type(value) == "number" and value > 0 end
local function is_count(value) return math.type(value) == "integer" and value > 0 end

local function is_callable(value)
  local meta = getmetatable(value)
  return type(value) == "function" or type(meta) == "table" and meta.__call ~= nil
end

local function is_log(value)
  return value == true or is_callable(value) or io and io.type(value) == "file"
end

-- How each option is checked, what is said of it, and its default.
local OPTIONS = {
  header_timeout = { is_span, "positive number of seconds", 10 },
  body_timeout = { is_span, "positive number of seconds", 30 },
  idle_timeout = { is_span, "positive number of seconds", 60 },
  handler_timeout = { is_span, "positive number of seconds" },
  max_header = {
    function(value) return is_count(value) and value >= 256 and value <= 1 << 20 end,
    "number of bytes from 256 to 1048576",
    16384,
  },
  max_body = {
    function(value) return math.type(value) == "integer" and value >= 0 end,
    "number of bytes, not negative,",
    1 << 20,
  },
  max_connections = { is_count, "positive integer", 10000 },
  max_handlers = { is_count, "positive integer" },
  max_streams = {
    function(value) return is_count(value) and value <= 10000 end,
    "integer from 1 to 10000",
    100,
  },
  http2 = { function(value) return type(value) == "boolean" end, "boolean" },
  on_error = { is_callable, "function" },
  access_log = { is_log, "function, file or true" },
  compress = { function(value) return type(value) == "boolean" end, "boolean" },
  reuseport = { function(value) return type(value) == "boolean" end, "boolean" },
  name = { function(value) return type(value) == "string" end, "string", "http" },
  vms = { is_count, "positive integer" },
  tls = { function(value) return type(value) == "table" end, "table of options or TLS context" },
}

local function check_options(given)
  local options = {}
  for name, rule in pairs(OPTIONS) do options[name] = rule[3] end
  for name, value in pairs(given or {}) do
    local rule = OPTIONS[name]
    if not rule then error(("http.serve: unknown option '%s'"):format(tostring(name)), 3) end
    if not rule[1](value) then
      local text = "http.serve: option '%s': %s expected, got %s"
      error(text:format(name, rule[2], tostring(value)), 3)
    end
    options[name] = value
  end
  return options
end

-- The access log
-- -------------------------------------------------------------------------------------------------

local last_second, last_date

local function date()
  local now = os.time()
  if now ~= last_second then
    last_second, last_date = now, os.date("!%d/%b/%Y:%H:%M:%S +0000", now)
  end
  return last_date
end

-- Nothing that a client sends ends a field or a line of the log.
local function quoted(text)
  if not text or text == "" then return '"-"' end
  local escape = function(byte) return ("\\x%02x"):format(byte:byte()) end
  return '"' .. text:gsub('[%c"\\\x7f-\xff]', escape) .. '"'
end

-- A line of the combined format, which other tools read.
local function combined(request)
  local status, sent = request:figures()
  local peer = (request.peer or "-"):gsub(":%d+$", ""):gsub("[%[%]]", "")
  local line = ("%s %s HTTP/%s"):format(request.method, request.target, request.version)
  return ("%s - - [%s] %s %d %s %s %s\n"):format(
    peer,
    date(),
    quoted(line),
    status,
    sent > 0 and sent or "-",
    quoted(request:header "referer"),
    quoted(request:header "user-agent")
  )
end

-- Lines of baton.log, which never wait for a slow reader.
local function lines_of_log()
  local write = require("baton.log").writer()
  return function(request)
    local status, sent, seconds = request:figures()
    write {
      method = request.method,
      target = request.target,
      peer = request.peer,
      status = status,
      sent = sent,
      microseconds = seconds * 1e6 // 1 | 0,
      referer = request:header "referer",
      agent = request:header "user-agent",
    }
  end
end

-- Returns the function that notes a request that has been answered.
local function make_log(wanted)
  if not wanted then return nil end
  if is_callable(wanted) then
    return function(request)
      local status, sent, seconds = request:figures()
      wanted(request, { status = status, sent = sent, seconds = seconds })
    end
  end
  if wanted == true then return lines_of_log() end
  return function(request)
    wanted:write(combined(request))
    wanted:flush()
  end
end

-- Failures
-- -------------------------------------------------------------------------------------------------

local function report_on_stderr(message, request)
  io.stderr:write(("baton.http: %s %s: %s\n"):format(request.method, request.path, message))
end

-- The message handler of calls of a handler.
local function with_trace(message)
  local kind = type(message)
  if kind ~= "string" and kind ~= "number" then
    local meta = getmetatable(message)
    if type(meta) ~= "table" or not meta.__tostring then
      message = ("(error object is a %s value)"):format(kind)
    end
  end
  return traceback(tostring(message), 2)
end

-- A handler has failed, or has not ended in time: the client is told, if it was not told anything,
-- by the function `fails`.
local function answer_failure(server, request, status, message, fails)
  local fault = request:fault()
  if message and not fault then
    server.core:count "failures"
    local is_done, why = pcall(server.on_error, message, request)
    if not is_done then report_on_stderr(("on_error: %s"):format(tostring(why)), request) end
  end
  if not request:progress() then pcall(fails, request, fault or status) end
  local socket = core.socket_of[request]
  if socket then socket:close(1011, "the handler has failed") end
end

-- A connection
-- -------------------------------------------------------------------------------------------------

local function answer(handler, request) return finish(request, handler(request, request)) end

local function answer_in_time(server, answers, request, fails)
  local timeout = server.options.handler_timeout
  local ended_well, done, why =
    xpcall(process.timeout, with_trace, timeout, answers, server.handler, request)
  if not ended_well then
    answer_failure(server, request, 500, done, fails)
  elseif done == nil and why == "timeout" then
    server.core:count "timeouts"
    answer_failure(server, request, 504, nil, fails)
  end
end

local function note(server, request)
  local is_done, why = pcall(server.log, request)
  if not is_done then report_on_stderr(("access_log: %s"):format(tostring(why)), request) end
end

-- Whether TLS has begun. The time for a head is also the time for the handshake.
local function secure(server, conn)
  local known = { server = true, timeout = server.options.header_timeout }
  if server.web.tls(conn, server.tls, known) then return true end
  server.core:count "handshakes"
  return false
end

-- Whether the client speaks HTTP/2: it was chosen with TLS, or the client has begun with it.
local function is_http2(server, session, conn)
  local facts = server.tls and server.web.facts(conn)
  if facts and facts.alpn == "h2" then return true end
  return server.options.http2 and session:has_preface()
end

local function run_connection(server, conn)
  local session <close> = new_session(conn, server.core)
  local sessions, handler, next_request = server.sessions, server.handler, session.next
  local is_timed = server.options.handler_timeout
  sessions[session] = process.current()
  if server.tls and not secure(server, conn) then return end
  if server.http2 and is_http2(server, session, conn) then
    sessions[session] = nil
    return server.http2.serve(server, conn)
  end
  local request, more = next_request(session)
  while request do
    if more then
      request:set("Retry-After", "1"):set("Connection", "close")
      fail(request, 503)
    elseif is_timed then
      answer_in_time(server, answer, request, fail)
    else
      local ended_well, why = xpcall(answer, with_trace, handler, request)
      if not ended_well then answer_failure(server, request, 500, why, fail) end
    end
    if server.log then note(server, request) end
    request, more = next_request(session)
  end
  if more then session:refuse(more) end
  session:linger()
  sessions[session] = nil
end

local function accept_connections(server)
  while true do
    local conn, why = server.listener:accept()
    if not conn then
      if why ~= "closed" then
        io.stderr:write(("baton.http: cannot accept connections: %s\n"):format(why))
      end
      return
    end
    process.spawn(server.spawn_options, run_connection, server, conn)
  end
end

-- The server
-- -------------------------------------------------------------------------------------------------

local Server = {}
Server.__index = Server
Server.__name = "baton.http server"
Server.__close = function(server) server:stop(0) end

function Server:address() return self.text end

function Server:stats() return self.core:stats() end

-- What a stopping server gives clients that have sent nothing yet: a request may be on its way.
local QUIET, NEW = 0.1, 0.5

local function close_idle(server, age)
  for session in pairs(server.sessions) do
    local is_idle, has_begun = session:is_idle()
    if is_idle and age >= (has_begun and QUIET or NEW) then session:close() end
  end
end

local function kill_rest(server)
  local killed, busy = 0, {}
  for session, owner in pairs(server.sessions) do
    if not session:is_idle() then killed = killed + 1 end
    busy[#busy + 1] = owner
    session:close()
    owner:kill "the server was stopped"
  end
  if server.http2 then killed = killed + server.http2.kill(server, busy) end
  for _, owner in ipairs(busy) do owner:join() end
  return killed
end

-- Stops to accept, lets open requests end within `grace` seconds, and kills the others. Returns how
-- many were killed.
function Server:stop(grace)
  if grace ~= nil and not is_time(grace) then
    error(("server:stop: number of seconds expected, got %s"):format(tostring(grace)), 2)
  end
  if self.is_stopped then return 0 end
  self.is_stopped = true
  self.acceptor:kill()
  self.acceptor:join()
  self.core:stop()
  repeat -- what has connected already
    local conn = self.listener:accept(0)
    if conn then process.spawn(self.spawn_options, run_connection, self, conn) end
  until not conn
  self.listener:close()
  local begun = process.now()
  local deadline = begun + (grace or 10)
  process.yield()
  local closers = {}
  while (core.close_sockets(self, closers) or self.core:open() > 0) and process.now() < deadline do
    close_idle(self, process.now() - begun)
    if self.http2 then self.http2.stop(self) end
    process.sleep(math.max(0, math.min(0.01, deadline - process.now())))
  end
  local killed = kill_rest(self)
  for socket, closer in pairs(closers) do
    closer:kill()
    socket.conn:close()
  end
  self.core:unlist()
  return killed
end

-- The options of TLS, with the protocols that a client may choose.
local function with_protocols(options, speaks_http2)
  if options.alpn or not speaks_http2 then return options end
  local with = { alpn = { "h2", "http/1.1" } }
  for name, value in pairs(options) do with[name] = value end
  return with
end

-- The module baton.web and the context, if TLS or HTTP/2 are wanted; or nil and why.
local function read_tls(options)
  local tls = options.tls
  if not tls and not options.http2 then return true end
  local web = require "baton.web"
  if not tls then return web end
  local context = getmetatable(tls) and tls
    or web.context(with_protocols(tls, options.http2 ~= false))
  local is_read, why = context:reload()
  if not is_read then return nil, why end
  return web, context
end

-- http.serve(address or listener, handler, options)
function http.serve(address, handler, given)
  local options = check_options(given)
  if options.vms then
    local servers, why = core.use_part "http_vms"(address, handler, given, options)
    return servers, why
  end
  if not is_callable(handler) then
    error(("http.serve: router or function as handler expected, got %s"):format(type(handler)), 2)
  end
  if options.compress then core.pack_with(core.use_part "http_packing") end
  local web, tls = read_tls(options)
  if not web then return nil, tls end
  local listener, why = address, nil
  if type(address) ~= "userdata" then
    listener, why = net.listen(address, {
      limit = options.max_connections,
      reuseport = options.reuseport,
    })
    if not listener then return nil, why end
  end
  local priority = process.current():priority()
  local text = listener:address()
  local server = setmetatable({
    connections = {}, -- of HTTP/2, and their processes
    core = core.server(options, text),
    handler = handler,
    http2 = web ~= true and options.http2 ~= false and web.http2(core) or nil,
    listener = listener,
    log = make_log(options.access_log),
    on_error = options.on_error or report_on_stderr,
    options = options,
    sessions = setmetatable({}, { __mode = "k" }),
    sockets = setmetatable({}, { __mode = "k" }),
    -- What computes sinks, so that others wait for one slice at most.
    spawn_options = { daemon = true, decay = true, name = options.name, priority = priority },
    text = text,
    tls = tls,
    web = web,
  }, Server)
  core.server_of[server.core] = server
  local acceptor = { name = options.name .. " accept", priority = math.min(priority + 1, 80) }
  server.acceptor = process.spawn(acceptor, accept_connections, server)
  return server
end

-- For connections of HTTP/2, which are in baton.web.
core.with_trace, core.answer_in_time = with_trace, answer_in_time
core.answer_failure, core.note = answer_failure, note

-- Methods of requests
-- -------------------------------------------------------------------------------------------------

-- The name under which a field of the reply was set before; or nil.
local function name_set(request, wanted)
  local fields = core.set_fields(request)
  if not fields then return nil end
  for name in pairs(fields) do
    if type(name) == "string" and name:lower() == wanted then return name end
  end
  return nil
end

core.name_set = name_set

local function json() return require "baton.json" end

-- req:json(): the value that the body has as JSON, or nil and why. res:json([status,] value,
-- fields): replies with the value. Both are methods of one object.
function methods:json(...)
  local count = select("#", ...)
  if count > 0 then
    local status, value, fields = ...
    if count == 1 then
      status, value = 200, status
    end
    if not name_set(self, "content-type") then self:set("Content-Type", "application/json") end
    return self:send(status, json().encode(value), fields)
  end
  local body, why = self:body()
  if not body then return nil, why end
  local is_valid, decoded = pcall(json().decode, body)
  if not is_valid then return nil, decoded end
  return decoded
end

local Events = {}
Events.__index = Events
Events.__close = function(events) events:close() end

local function field(name, value)
  value = tostring(value)
  if value:find "[\r\n%z]" then
    error(("field '%s' of an event: one line expected"):format(name), 4)
  end
  return ("%s: %s\n"):format(name, value)
end

-- Sends an event: its data, or a table with `data`, `event`, `id` and `retry`.
function Events:send(event)
  if type(event) ~= "table" then event = { data = event } end
  local text = {}
  for _, name in ipairs { "id", "event", "retry" } do
    if event[name] ~= nil then text[#text + 1] = field(name, event[name]) end
  end
  if event.data ~= nil then
    local data = tostring(event.data):gsub("\r\n?", "\n")
    text[#text + 1] = ("data: %s\n"):format(data:gsub("\n", "\ndata: "))
  end
  return self.request:write(table.concat(text), "\n")
end

function Events:close()
  if self.heart then self.heart:kill() end
  self.heart = nil
  return self.request:close()
end

-- Comments keep what is between from closing an idle connection, and find that a client is gone.
local function beat(request, seconds)
  repeat
    process.sleep(seconds)
  until request:progress() ~= "streams" or not request:write ":\n\n"
end

-- Server-sent events. The option `heartbeat`: seconds between comments, 15 by default, or false.
function methods:events(options)
  local heartbeat = 15
  for name, value in pairs(options or {}) do
    if name ~= "heartbeat" or value ~= false and not is_span(value) then
      local text = "res:events: option 'heartbeat' with seconds or false expected, got '%s'"
      error(text:format(name), 2)
    end
    heartbeat = value
  end
  local stream, why = self:stream(200, {
    ["Content-Type"] = "text/event-stream",
    ["Cache-Control"] = "no-cache",
    ["X-Accel-Buffering"] = "no",
  })
  if not stream then return nil, why end
  local events = { request = self, last_id = self:header "last-event-id" }
  if heartbeat then
    events.heart = process.spawn({ daemon = true, quiet = true }, beat, self, heartbeat)
  end
  return setmetatable(events, Events)
end

-- Parts that are loaded at their first use
-- -------------------------------------------------------------------------------------------------

local parts = {}

local function part(name)
  if not parts[name] then
    process.critical(function() parts[name] = parts[name] or core.part(name, core) end)
  end
  return parts[name]
end

core.use_part = part

-- The client.
for _, name in ipairs { "request", "get", "post", "pool" } do
  http[name] = function(...) return part "http_client"[name](...) end
end

-- A function that finds the handler of a request by its method and path.
function http.router() return part "http_router"() end

-- res:file(path, options): replies with a file.
function methods:file(path, options) return part("http_files").send(self, path, options) end

-- req:form(max), req:parts(options)
function methods:form(max) return part("http_forms").read(self, max) end
function methods:parts(options) return part "http_parts"(self, options) end

-- req:cookie(name): a cookie of the request. res:cookie(name, value, options): one of the reply.
function methods:cookie(name, ...)
  if select("#", ...) == 0 then return part("http_forms").cookie(self, name) end
  return part("http_forms").set_cookie(self, name, ...)
end

return http
