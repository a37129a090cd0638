-- A small HTTP service that keeps notes in PostgreSQL and speaks JSON. lua-sql-postgres is
-- unmodified.
--
--   baton examples/notes_service.lua [-p PORT] [-c CONNECTIONS] 'host=... dbname=... user=...'
--
--   POST /notes {"text": "..."}    201, the note with its id      GET /notes       all notes
--   GET /notes/ID                  the note, or 404               DELETE /notes/ID 204, or 404
--
-- It prints its port, and ends at SIGTERM or Ctrl-C. Then it accepts no more clients, and finishes
-- the requests that it has begun, for five seconds at most. A second signal ends it at once.
--
-- A request borrows a connection to the database from a pool. While the database works, only that
-- request's process waits. A connection is made when it is first needed, and again after a failure.
-- While the database cannot be reached, the answer is 503. notes_service_luasocket.lua is the same
-- service without baton.http.

local http = require "baton.http"
local json = require "baton.json"
local process = require "baton.process"
local driver = require "luasql.postgres"

local GRACE = 5 -- seconds for requests at the end

-- {======================================================
-- The database
-- ======================================================

-- The error if the database cannot be reached.
local Unreachable = { __tostring = function(failure) return tostring(failure.why) end }

-- Connections for `size` requests at once. After an error or a kill the state of a connection is
-- unknown: the pool closes it, and the next request connects again.
local function open_pool(source, size)
  local environment = assert(driver.postgres())
  return process.pool {
    size = size,
    make = function()
      local connection, why = environment:connect(source)
      return connection or error(setmetatable({ why = why }, Unreachable))
    end,
    close = function(connection) connection:close() end,
  }
end

-- Runs a statement. Returns its rows, or how many it has changed.
local function execute(pool, statement, text)
  return pool:with(function(connection)
    if text then statement = statement:format(connection:escape(text)) end
    local cursor, why = connection:execute(statement)
    if type(cursor) ~= "userdata" then return cursor or error(why, 0) end
    local rows = setmetatable({}, json.array_mt)
    for row in function() return cursor:fetch({}, "a") end do
      rows[#rows + 1] = { id = math.tointeger(tonumber(row.id)), text = row.text }
    end
    cursor:close()
    return rows
  end)
end

-- }======================================================

-- {======================================================
-- What the service does
-- ======================================================

-- The first argument of a handler as a statement's argument: only digits name a note.
local function id_of(req) return tonumber(req.params.id:match "^%d+$") end

local function no_such_note(req) return req:json(404, { error = "no such note" }) end

local function routes(pool)
  local r = http.router()

  r:use(function(req, _, next)
    local results = table.pack(pcall(next))
    if results[1] then return table.unpack(results, 2, results.n) end
    local failure = results[2]
    io.stderr:write("notes_service: ", tostring(failure), "\n")
    local status = getmetatable(failure) == Unreachable and 503 or 500
    return req:json(status, { error = "the database does not answer" })
  end)

  r:get("/notes", function(req)
    return req:json(execute(pool, "SELECT id, text FROM notes ORDER BY id"))
  end)

  r:post("/notes", function(req)
    local note = req:json()
    if type(note) ~= "table" or type(note.text) ~= "string" then
      return req:json(400, { error = 'an object with a "text" expected' })
    end
    local insert = "INSERT INTO notes (text) VALUES ('%s') RETURNING id, text"
    return req:json(201, execute(pool, insert, note.text)[1])
  end)

  r:get("/notes/:id", function(req)
    local id = id_of(req)
    local select = "SELECT id, text FROM notes WHERE id = '%s'"
    local note = id and execute(pool, select, ("%d"):format(id))[1]
    if not note then return no_such_note(req) end
    return req:json(note)
  end)

  r:delete("/notes/:id", function(req)
    local id = id_of(req)
    local count = id and execute(pool, "DELETE FROM notes WHERE id = '%s'", ("%d"):format(id))
    if count ~= 1 then return no_such_note(req) end
    return 204
  end)

  return r
end

-- }======================================================

local function run(port, size, source)
  local pool = open_pool(source, size)
  execute(pool, "CREATE TABLE IF NOT EXISTS notes (id serial PRIMARY KEY, text text NOT NULL)")
  local ends = process.signals("TERM", "INT")
  local server = assert(http.serve("127.0.0.1:" .. port, routes(pool), { name = "notes" }))
  print("port " .. server:address():match ":(%d+)$")
  io.stdout:flush()
  ends:receive()
  ends:close() -- a second signal ends the program at once
  server:stop(GRACE)
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
    "usage: notes_service.lua [-p PORT] [-c CONNECTIONS] ",
    "'host=... dbname=... user=...'\n"
  )
  os.exit(2)
end
run(options["-p"], options["-c"], source)
