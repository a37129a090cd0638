-- The third part of baton.web: connections of HTTP/2 for the servers of baton.http. The protocol is
-- in Rust (src/http2), and never waits. These processes do:
--
--   the connection's own   reads, and takes in what has come
--   one for each request   calls the handler
--   one that writes        while there is something to send
--
-- What changes the state of the engine calls `settle` afterwards: it may have made events, and
-- bytes to send.
local functions, http = ...
local engine = functions.http2
local process = require "baton.process"
local requests = functions.source "web/http2_request"(engine, http, functions.source)

local LINGER = 1 -- seconds that a client has to read the last bytes
local QUIET = 0.5 -- seconds that an idle client has to answer that the server stops
-- Codes of RFC 9113, section 7.
local NO_ERROR, PROTOCOL_ERROR, INTERNAL_ERROR, REFUSED_STREAM = 0, 1, 2, 7

local Connection = {}
Connection.__index = Connection

-- Requests
-- -------------------------------------------------------------------------------------------------

local METHODS = {
  GET = true,
  HEAD = true,
  POST = true,
  PUT = true,
  PATCH = true,
  DELETE = true,
  OPTIONS = true,
  TRACE = true,
}

local function leave_stream(own)
  local connection = own.connection
  own.is_closed = true
  connection.server.core:leave()
  if own.progress ~= "replied" then
    engine.reset(connection.handle, own.id, INTERNAL_ERROR)
  end
  engine.forget(connection.handle, own.id)
  connection.streams[own.id] = nil
  connection.quiet_since = process.now()
end

-- The process of a request ends, or was killed before it has begun.
local function end_stream(own)
  if own.is_closed then return end
  process.critical(leave_stream, own)
  own.connection:settle()
end

local Own = { __close = end_stream }

local function answer(handler, request)
  return requests.finish(request, handler(request, request))
end

local function run_stream(server, request, own, is_one_too_many)
  local _ <close> = setmetatable(own, Own)
  if is_one_too_many then
    request:set("Retry-After", "1")
    requests.fail(request, 503)
  elseif server.options.handler_timeout then
    http.answer_in_time(server, answer, request, requests.fail)
  else
    local ended_well, why = xpcall(answer, http.with_trace, server.handler, request)
    if not ended_well then http.answer_failure(server, request, 500, why, requests.fail) end
  end
  if server.log then http.note(server, request) end
end

-- The status for a request that no handler gets; or nil.
local function refusal(connection, method, target, headers)
  if not METHODS[method] then return 501 end
  if target:byte() ~= 47 and not (target == "*" and method == "OPTIONS") then return 400 end
  if headers.expect and headers.expect:lower() ~= "100-continue" then return 417 end
  local length = tonumber(headers["content-length"] or 0)
  if length and length > connection.server.options.max_body then return 413 end
end

local function begin_stream(connection, id, method, target, host, headers, has_body)
  local server, handle = connection.server, connection.handle
  local _, open = engine.state(handle)
  if open > server.options.max_streams then
    -- Handlers of requests that the client has reset still run.
    server.core:count "refused"
    engine.reset(handle, id, REFUSED_STREAM)
    return engine.forget(handle, id)
  end
  local status = refusal(connection, method, target, headers)
  local request, own = requests.new(connection, id, method, target, host, headers, has_body)
  if status then
    requests.refuse(request, status)
    return engine.forget(handle, id)
  end
  connection.streams[id] = own
  local is_one_too_many = server.core:enter()
  local is_spawned, handler =
    pcall(process.spawn, server.spawn_options, run_stream, server, request, own, is_one_too_many)
  if not is_spawned then return leave_stream(own) end -- memory is out
  own.process = handler
  handler:on_exit(function() end_stream(own) end)
end

-- Events
-- -------------------------------------------------------------------------------------------------

-- Called in a critical section: the process may be killed, and the event may be of another request.
local function take_all_events(connection)
  while true do
    local kind, id, method, target, host, headers, has_body = engine.next(connection.handle)
    if not kind then return end
    if kind == "request" then
      begin_stream(connection, id, method, target, host, headers, has_body)
    elseif kind == "over" then
      connection.is_over = true
    else
      local own = connection.streams[id]
      if own then requests.moved(own) end
    end
  end
end

-- Takes in what has happened.
local function take_events(connection)
  local _, has_events = engine.pending(connection.handle)
  if has_events then process.critical(take_all_events, connection) end
end

-- Says goodbye. If the connection were closed at once, the system might reset it before the client
-- has read the last bytes.
local function part(connection)
  if connection.has_parted then return end
  connection.has_parted = true
  connection.conn:shutdown()
  if not connection.has_ended:wait(LINGER) then connection.conn:close() end
end

local function write_all(connection)
  local handle, conn = connection.handle, connection.conn
  local timeout = connection.server.options.body_timeout
  repeat
    local is_done = engine.flush(handle, conn, timeout)
    take_events(connection)
    if not is_done then
      connection.is_broken = true
      conn:close()
    end
    requests.ring(connection.has_written)
    if not is_done then return end
    connection.writer = nil -- from now on, who has something to send starts another one
  until engine.pending(handle) == 0
  if connection.is_over then part(connection) end
end

function Connection:settle()
  take_events(self)
  local is_parting = self.is_over and not self.has_parted
  if not is_parting and engine.pending(self.handle) == 0 then return end
  local writer = self.writer
  if writer and writer:status() ~= "dead" then return end
  self.writer = process.spawn(self.write_options, write_all, self)
end

function Connection:shut_down()
  engine.shut_down(self.handle)
  self.has_shut_down = self.has_shut_down or process.now()
end

-- A connection
-- -------------------------------------------------------------------------------------------------

-- How long the client may be silent now: for the rest of a head, or for a request. nil: for ever.
local function patience(connection, open, age)
  local options = connection.server.options
  if connection.is_over then return nil end -- who writes ends the connection
  if age then return options.header_timeout - age end
  if open > 0 then return nil end
  local timeout = connection.has_shut_down and LINGER or options.idle_timeout
  return connection.quiet_since + timeout - process.now()
end

local function end_silence(connection, age)
  if age then
    connection.server.core:count "timeouts"
    engine.abort(connection.handle, PROTOCOL_ERROR, "a head has not come in time")
  elseif connection.has_shut_down then
    engine.abort(connection.handle, NO_ERROR, "")
  else
    connection:shut_down()
    connection.quiet_since = process.now()
  end
end

local function read_all(connection)
  local handle, conn = connection.handle, connection.conn
  while true do
    local has_room, open, age = engine.state(handle)
    if not has_room and not connection.is_over and not connection.is_broken then
      -- The client does not read what answers it. Who writes gives up after a time.
      connection:settle()
      connection.has_written:wait(LINGER)
    else
      local left = patience(connection, open, age)
      local is_done, why = engine.take(handle, conn, left and math.max(0, math.min(left, 1e9)))
      if not is_done and why ~= "timeout" then break end
      if not is_done then
        local _, still_open, still_age = engine.state(handle)
        if still_age or still_open == 0 then end_silence(connection, still_age) end
      end
      connection:settle()
    end
  end
  connection:settle()
  connection.has_ended:signal()
end

-- The handlers that run.
local function handlers_of(connection)
  local handlers = {}
  process.critical(function()
    for _, own in pairs(connection.streams) do handlers[#handlers + 1] = own.process end
  end)
  return handlers
end

local function leave(connection) connection.server.connections[connection] = nil end
Connection.__close = leave

-- Serves a connection until it has ended, and its handlers have.
local function serve(server, conn)
  local options = server.options
  local connection <close> = setmetatable({
    server = server,
    conn = conn,
    handle = engine.new(options.max_streams, options.max_header),
    streams = {},
    quiet_since = process.now(),
    has_written = process.semaphore(0),
    has_ended = process.semaphore(0),
    write_options = {
      daemon = true,
      quiet = true,
      name = options.name .. " write",
      priority = server.spawn_options.priority,
    },
  }, Connection)
  server.connections[connection] = process.current()
  connection:settle()
  read_all(connection)
  for _, handler in ipairs(handlers_of(connection)) do handler:join() end
end

-- The end of a server
-- -------------------------------------------------------------------------------------------------

local function connections_of(server)
  local connections = {}
  process.critical(function()
    for connection in pairs(server.connections) do connections[#connections + 1] = connection end
  end)
  return connections
end

-- Tells all clients that the server stops, and ends idle connections whose clients do not answer.
local function stop(server)
  for _, connection in ipairs(connections_of(server)) do
    local since = connection.has_shut_down
    local _, open = engine.state(connection.handle)
    if not since then
      connection:shut_down()
      connection:settle()
    elseif open == 0 and not connection.is_over and process.now() - since >= QUIET then
      engine.abort(connection.handle, NO_ERROR, "")
      connection:settle()
    end
  end
end

-- Ends all. Adds the processes to the list, and returns how many requests were killed.
local function kill(server, processes)
  local killed = 0
  for _, connection in ipairs(connections_of(server)) do
    local owner = server.connections[connection]
    for _, handler in ipairs(handlers_of(connection)) do
      killed = killed + 1
      handler:kill "the server was stopped"
      processes[#processes + 1] = handler
    end
    connection.conn:close()
    if owner then
      owner:kill "the server was stopped"
      processes[#processes + 1] = owner
    end
  end
  return killed
end

return { serve = serve, stop = stop, kill = kill }
