-- The service of notes_service.lua, over unmodified LuaSocket, with lua-cjson: it reads HTTP by
-- itself. Take this style to move a program that has its own protocol, or its own reading of HTTP.
--
--   baton examples/notes_service_luasocket.lua [-p PORT] [-c CONNECTIONS] 'host=... dbname=... ...'
--
-- Each client has a process, which waits for its socket. The size of a head and of a body is
-- limited, and so is the time in which a client has to send a request.

local process = require "baton.process"
local socket = require "socket"
local driver = require "luasql.postgres"
local json = require "cjson"

local GRACE = 5 -- seconds for requests at the end
local BREAK = 0.05 -- seconds without an accept, when there are too many clients
local LARGEST = 1 << 20 -- bytes of a request's body
local LARGEST_HEAD = 16384 -- bytes of the lines before it
local LONGEST = 10 -- seconds that a client may take for a whole request

local REASONS = {
  [200] = "OK", [201] = "Created", [204] = "No Content", [400] = "Bad Request", [404] = "Not Found",
  [405] = "Method Not Allowed",
  [413] = "Content Too Large", [431] = "Request Header Fields Too Large",
  [500] = "Internal Server Error", [503] = "Service Unavailable",
}

local function complain(text) io.stderr:write("notes_service_luasocket: ", text, "\n") end

-- {======================================================
-- The database
-- ======================================================

-- The error if the database cannot be reached.
local Unreachable = { __tostring = function(failure) return tostring(failure.why) end }

-- Connections for `size` requests at once. After an error or a kill the state of a connection is
-- unknown: the pool closes it, and the next request connects again.
local function open_pool(environment, source, size)
  return process.pool {
    size = size,
    make = function()
      local connection, why = environment:connect(source)
      return connection or error(setmetatable({ why = why }, Unreachable))
    end,
    close = function(connection) connection:close() end,
  }
end

-- The rows of a query as tables.
local function rows(connection, query)
  local cursor, why = connection:execute(query)
  if not cursor then error(why, 0) end
  local list = {}
  if type(cursor) ~= "userdata" then return list, cursor end
  local row = cursor:fetch({}, "a")
  while row do
    list[#list + 1] = { id = math.tointeger(tonumber(row.id)), text = row.text }
    row = cursor:fetch({}, "a")
  end
  cursor:close()
  return list
end

-- }======================================================

-- {======================================================
-- What the service does: status, and the body as a value
-- ======================================================

local routes = {}
local EMPTY = "[]" -- cjson encodes an empty table as an object

routes["GET /notes"] = function(pool)
  local notes = pool:with(
    function(connection) return (rows(connection, "SELECT id, text FROM notes ORDER BY id")) end
  )
  return 200, notes[1] and notes or EMPTY
end

routes["POST /notes"] = function(pool, _, body)
  local ok, note = pcall(json.decode, body)
  if not ok or type(note) ~= "table" or type(note.text) ~= "string" then
    return 400, { error = 'an object with a "text" expected' }
  end
  return 201, pool:with(function(connection)
    return rows(
      connection,
      ("INSERT INTO notes (text) VALUES ('%s') RETURNING id, text"):format(
        connection:escape(note.text)
      )
    )[1]
  end)
end

routes["GET /notes/ID"] = function(pool, id)
  local note = pool:with(
    function(connection)
      return rows(connection, ("SELECT id, text FROM notes WHERE id = %d"):format(id))[1]
    end
  )
  if note then return 200, note end
  return 404, { error = "no such note" }
end

routes["DELETE /notes/ID"] = function(pool, id)
  local _, count = pool:with(
    function(connection) return rows(connection, ("DELETE FROM notes WHERE id = %d"):format(id)) end
  )
  if count == 1 then return 204 end
  return 404, { error = "no such note" }
end

local function answer(pool, method, path, body)
  local base, id = path:match "^(/notes)/?(%d*)$"
  if not base then return 404, { error = "no such page" } end
  local route = routes[method .. " " .. base .. (id ~= "" and "/ID" or "")]
  if not route then return 405, { error = "not that way" } end
  local ok, status, value = pcall(route, pool, math.tointeger(tonumber(id)), body)
  if ok then return status, value end
  local failure = status
  complain(tostring(failure))
  return getmetatable(failure) == Unreachable and 503 or 500,
    { error = "the database does not answer" }
end

-- }======================================================

-- {======================================================
-- HTTP
-- ======================================================

-- The lines of a head, without their ends; nil when the client ends, or, with `true`, when they are
-- too large. LuaSocket has no limit for a line, and keeps what has come in a buffer: a call for one
-- byte is cheap.
local function lines_of(client)
  local left = LARGEST_HEAD
  return function()
    local line = {}
    while left > 0 do
      local byte = client:receive(1)
      if not byte then return nil, false end
      left = left - 1
      if byte == "\n" then return (table.concat(line):gsub("\r$", "")) end
      line[#line + 1] = byte
    end
    return nil, true
  end
end

-- The next request of a client: its method and path, its body, whether the client stays, and the
-- status for a request that is refused and has no body here. Nil at the end of the client.
local function read_request(client)
  local next_line = lines_of(client)
  local line, is_too_large = next_line()
  if is_too_large then return "", "", nil, false, 431 end
  local method, path = (line or ""):match "^(%u+) ([^ ?]+)"
  if not method then return end
  local length, keep = 0, true
  while true do
    line, is_too_large = next_line()
    if is_too_large then return method, path, nil, false, 431 end
    if not line then return end
    if line == "" then
      if length < 0 then return method, path, nil, false, 400 end
      if length > LARGEST then return method, path, nil, false, 413 end
      if length == 0 then return method, path, "", keep end
      local body = client:receive(length)
      if not body then return end -- it ended in the middle
      return method, path, body, keep
    end
    local name, value = line:match "^([%w-]+):%s*(.-)%s*$"
    name = name and name:lower()
    if name == "content-length" then length = math.tointeger(tonumber(value)) or -1 end
    if name == "connection" and value:lower() == "close" then keep = false end
  end
end

local function in_time(is_in_time, ...)
  if is_in_time then return ... end
end

local function next_request(client)
  return in_time(process.timeout(LONGEST, read_request, client))
end

local function reply(client, status, value, keep)
  local body = value == nil and "" or (value == EMPTY and value or json.encode(value)) .. "\n"
  local head = "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\n"
    .. "Content-Length: %d\r\nConnection: %s\r\n\r\n"
  local connection = keep and "keep-alive" or "close"
  return client:send(head:format(status, REASONS[status], #body, connection) .. body)
end

local function serve(client, pool, state)
  local _ <close> = setmetatable({}, { __close = function() client:close() end })
  for method, path, body, keep, failure in next_request, client do
    state.is_busy = true
    keep = keep and not state.is_last
    local status, value = failure, { error = REASONS[failure] }
    if body then status, value = answer(pool, method, path, body) end
    if not reply(client, status, value, keep) or not keep then break end
    state.is_busy = false
  end
end

-- }======================================================

local has_complained = false

-- The next client; nil when the server is closed. If accept fails, there are probably no
-- descriptors left. Some come back when clients leave.
local function accept(server)
  while true do
    local client, why = server:accept()
    if client or server:getfd() < 0 then return client end
    if not has_complained then complain("cannot accept: " .. why) end
    has_complained = true
    process.sleep(BREAK)
  end
end

local function run(port, size, source)
  local environment = assert(driver.postgres())
  local pool = open_pool(environment, source, size)
  pool:with(function(connection)
    assert(connection:execute [[
      CREATE TABLE IF NOT EXISTS notes (id serial PRIMARY KEY, text text NOT NULL)
    ]])
  end)
  local ends = process.signals("TERM", "INT")
  local server = assert(socket.bind("127.0.0.1", port, 1024))
  print("port " .. select(2, server:getsockname()))
  io.stdout:flush()
  process.scope(function(scope)
    local clients = setmetatable({}, { __mode = "k" })
    local acceptor = scope:spawn({ name = "acceptor" }, function()
      for client in accept, server do
        local state = {}
        clients[scope:spawn({ name = "a client" }, serve, client, pool, state)] = state
      end
    end)
    ends:receive()
    ends:close() -- a second signal ends the program at once
    server:close()
    acceptor:join()
    for client, state in pairs(clients) do -- a client without a request is closed at once
      state.is_last = true
      if not state.is_busy then client:kill() end
    end
    local timer = process.after(GRACE, function()
      for client in pairs(clients) do client:kill() end
    end)
    for client in pairs(clients) do client:join() end
    timer:cancel()
  end)
end

local options, source = { ["-p"] = 8080, ["-c"] = 10 }, nil
local i = 1
while arg[i] do
  if options[arg[i]] then
    options[arg[i]], i = math.tointeger(tonumber(arg[i + 1])), i + 1
  else
    source = arg[i]
  end
  i = i + 1
end
if not source or not options["-p"] or not options["-c"] then
  io.stderr:write(
    "usage: notes_service_luasocket.lua [-p PORT] [-c CONNECTIONS] ",
    "'host=... dbname=... user=...'\n"
  )
  os.exit(2)
end
run(options["-p"], options["-c"], source)
