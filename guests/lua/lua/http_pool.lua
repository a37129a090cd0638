-- Pools of the client of baton.http: idle connections, by origin.
--
-- What changes a pool is called by process.critical, so no other process sees it half done.
local process = require "baton.process"
local critical = process.critical

local pools = {}

local Pool = {}
Pool.__index = Pool
Pool.__name = "baton.http pool"

-- Takes the connection at `at` of an origin out; or nil.
local function take_out(pool, key, at)
  local list = pool.idle[key]
  if not list then return nil end
  local entry = table.remove(list, at)
  pool.count = pool.count - 1
  if #list == 0 then pool.idle[key] = nil end
  return entry.conn, entry.since
end

local function take_last(pool, key)
  local list = pool.idle[key]
  if list then return take_out(pool, key, #list) end
end

-- Takes a connection out that is idle since that time or longer.
local function take_old(pool, time)
  for key, list in pairs(pool.idle) do
    if list[1].since <= time then return (take_out(pool, key, 1)) end
  end
end

local function end_if_empty(pool)
  if pool.count == 0 then pool.sweeper = nil end
  return pool.count == 0
end

local function sweep(pool)
  repeat
    process.sleep(pool.idle_timeout)
    local time = process.now() - pool.idle_timeout
    repeat
      local conn = critical(take_old, pool, time)
      if conn then conn:close() end
    until not conn
  until critical(end_if_empty, pool)
end

-- Adds a connection. Returns one that has to be closed; or nil.
local function add(pool, key, conn)
  if pool.is_closed or pool.size == 0 then return conn end
  local list, other = pool.idle[key], nil
  if list and #list >= pool.per_host then
    other = take_out(pool, key, 1)
  elseif pool.count >= pool.size then
    other = take_out(pool, (next(pool.idle)), 1)
  end
  list = pool.idle[key] or {}
  pool.idle[key] = list
  list[#list + 1] = { conn = conn, since = process.now() }
  pool.count = pool.count + 1
  if not pool.sweeper then
    pool.sweeper = process.spawn({ daemon = true, quiet = true, name = "http pool" }, sweep, pool)
  end
  return other
end

-- The connection that was used last and is still open; or nil.
function pools.take(pool, key)
  if not pool then return nil end
  while true do
    local conn, since = critical(take_last, pool, key)
    if not conn then return nil end
    if process.now() - since < pool.idle_timeout then
      local _, why = conn:read("some", 0)
      if why == "timeout" then return conn end -- nothing came, not even the end
    end
    conn:close()
  end
end

-- Keeps a connection, or closes it. `pool` may be false.
function pools.give(pool, key, conn)
  local other = conn
  if pool then other = critical(add, pool, key, conn) end
  if other then other:close() end
end

-- Closes its idle connections. Connections that are in use are closed when their replies end.
function Pool:close()
  self.is_closed = true
  repeat
    local conn = critical(take_old, self, math.huge)
    if conn then conn:close() end
  until not conn
  if self.sweeper then self.sweeper:kill() end
  self.sweeper = nil
end
Pool.__close = Pool.close

-- How many connections are idle.
function Pool:__len() return self.count end

function pools.is_pool(value) return getmetatable(value) == Pool end

function pools.new(options)
  options = options or {}
  return setmetatable({
    size = options.size or 64,
    per_host = options.per_host or 8,
    idle_timeout = options.idle_timeout or 30,
    idle = {}, -- by origin: the connections, the one used last at the end
    count = 0,
  }, Pool)
end

return pools
