-- A service with routes, JSON, SQLite, a queue of jobs, events and metrics, as one would deploy it.
--
--   baton examples/orders_service.lua [PORT] [FILE]
--
--   POST /orders      {"item": "tea", "count": 2}: 201, and the order with its number
--   GET /orders       all orders          GET /orders/7     one of them
--   GET /events       server-sent events: each order that was packed
--   GET /metrics      figures for Prometheus
--
-- At SIGTERM or Ctrl-C it answers open requests, packs what was ordered, and ends with status 0.
-- Needs luasql.sqlite3 (Debian: lua-sql-sqlite3).
local http = require "baton.http"
local inspect = require "baton.inspect"
local json = require "baton.json"
local log = require "baton.log"
local process = require "baton.process"
local driver = require "luasql.sqlite3"

-- The database: four connections, each used by one process at a time.
local environment = driver.sqlite3()
local connections = process.pool {
  size = 4,
  make = function()
    local connection, why = environment:connect(arg[2] or "orders.db")
    if connection then connection:execute("PRAGMA busy_timeout = 5000"):close() end
    return connection, why
  end,
  close = function(connection) connection:close() end,
}

-- Puts escaped values into a statement. Returns its rows, or the number of an inserted row.
local function execute(text, ...)
  local values = { ... }
  local function run(connection)
    for i, value in ipairs(values) do values[i] = connection:escape(tostring(value)) end
    local cursor = assert(connection:execute(text:format(table.unpack(values))))
    if type(cursor) == "number" then return math.tointeger(connection:getlastautoid()) end
    local rows = setmetatable({}, json.array_mt)
    for row in function() return cursor:fetch({}, "a") end do
      row.id, row.count = math.tointeger(row.id), math.tointeger(row.count)
      rows[#rows + 1] = row
    end
    cursor:close()
    return rows
  end
  return assert(connections:with(run, 5))
end

-- Orders are packed one after the other, and those who listen are told.
local jobs = process.channel(1000) -- when it is full, clients wait
local listeners = {}
local Listener = { __close = function(listener) listeners[listener] = nil end }
local packed = inspect.counter("orders_packed", "Orders that were packed.")

local function pack(id)
  process.sleep(0.01) -- the work
  execute("UPDATE orders SET state = 'packed' WHERE id = '%s'", id)
  packed:add(1)
  log.info("packed", { order = id })
  local all = {} -- listeners come and go meanwhile
  process.critical(function() for one in pairs(listeners) do all[one] = true end end)
  for one in pairs(all) do
    if not one.news:send(id, 0) then one.news:close() end -- it is too slow
  end
end

local function try_to_pack(id)
  local done, why = pcall(pack, id)
  if not done then log.error("cannot pack", { order = id, why = tostring(why) }) end
  return done
end

local function pack_all()
  for id in jobs:values() do
    while not try_to_pack(id) do process.sleep(1) end
  end
end

local r = http.router()
local INSERT = "INSERT INTO orders (item, count, state) VALUES ('%s', '%s', 'new')"

r:post("/orders", function(req)
  local order, why = req:json()
  order = type(order) == "table" and order or {}
  local item, count = order.item, type(order.count) == "number" and math.tointeger(order.count)
  if not count or type(item) ~= "string" or item:find "%z" then
    return req:json(400, { error = why or "an item and a whole count expected" })
  end
  local id = execute(INSERT, item, count)
  jobs:send(id)
  return req:json(201, { id = id, item = item, count = count, state = "new" })
end)

r:get("/orders", function(req) return req:json(execute "SELECT * FROM orders ORDER BY id") end)

r:get("/orders/:id", function(req)
  local order = execute("SELECT * FROM orders WHERE id = '%s'", req.params.id)[1]
  if not order then return req:json(404, { error = "no such order" }) end
  return req:json(order)
end)

r:get("/events", function(req)
  local events <close> = req:events()
  local listener <close> = setmetatable({ news = process.channel(100) }, Listener)
  listeners[listener] = true
  for id in listener.news:values() do
    if not events:send { event = "packed", data = id } then break end
  end
end)

local plain = { ["Content-Type"] = "text/plain; version=0.0.4" }
r:get("/metrics", function() return 200, inspect.metrics "text", plain end)

local columns = "id INTEGER PRIMARY KEY, item TEXT, count INTEGER, state TEXT"
execute("CREATE TABLE IF NOT EXISTS orders (" .. columns .. ")")
local packer = process.spawn({ name = "packer" }, pack_all)
for _, order in ipairs(execute "SELECT * FROM orders WHERE state = 'new'") do
  jobs:send(order.id)
end
local ends = process.signals("TERM", "INT")
local server = assert(http.serve("127.0.0.1:" .. (arg[1] or 8080), r, { access_log = true }))
print("port " .. server:address():match ":(%d+)$")
io.stdout:flush()

ends:receive()
process.critical(function() for one in pairs(listeners) do one.news:close() end end)
local cut_off = server:stop(10)
jobs:close()
packer:join()
connections:close()
print(cut_off == 0 and "all requests answered" or cut_off .. " requests cut off")
