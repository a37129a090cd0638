-- c:table and c:lease: tables with revisions, and what one machine has at a time.

local core = ...
local engine, process, methods = core.engine, core.process, core.methods
local rules, refuse = core.rules, core.refuse

local OPEN, GET, PUT, WATCH = 11, 12, 13, 14
local OPEN_PATIENCE = 10 -- seconds
local KEY = "^[%w_/=.-]+$"

local Table = { __name = "cluster table" }
Table.__index = {}
local table_of = setmetatable({}, { __mode = "k" })

local function opened(self, call)
  return table_of[self] or refuse(3, 0, call, "cluster table expected, got %s", type(self))
end

local function check_key(call, key)
  local is_key = type(key) == "string"
    and #key <= 500
    and key:find(KEY)
    and not ("." .. key .. "."):find("..", 1, true)
  if not is_key then
    refuse(
      3,
      1,
      call,
      "key of letters, digits and _ / = . - expected, with no dot at either end, got %s",
      type(key) == "string" and ("'%s'"):format(key) or type(key)
    )
  end
end

local function check_revision(number, call, revision)
  if math.type(revision) ~= "integer" or revision < 0 then
    refuse(3, number, call, "revision expected, got %s", tostring(revision))
  end
end

local TABLE_OPTIONS = { replicas = rules.count }

function methods:table(name, options)
  local state = core.state_for(self, "table")
  core.check_name(2, 1, "table", name)
  options = core.check_options(2, 2, "table", options, TABLE_OPTIONS)
  local answer, why =
    core.ask(state, OPEN_PATIENCE, nil, OPEN, name, nil, nil, options.replicas or 1)
  if not answer then return nil, why end
  local opened_table = setmetatable({ name = name }, Table)
  table_of[opened_table] = { state = state, name = name }
  return opened_table
end

-- Returns a value and its revision; nil and 0 if there is none; nil and why if that is not known.
function Table.__index:get(key)
  local t = opened(self, "get")
  check_key("get", key)
  local answer, why = core.ask(t.state, nil, nil, GET, t.name, key)
  if not answer then return nil, why end
  if answer.payload == nil then return nil, 0 end
  local is_read, value = engine.unpack(answer.payload)
  if not is_read then return nil, value end
  return value, answer.first
end

local function put(t, key, bytes, revision)
  local answer, why = core.ask(t.state, nil, nil, PUT, t.name, key, bytes, revision)
  if not answer then return nil, why end
  return answer.first
end

local function packed(t, call, number, value)
  if value == nil then refuse(3, number, call, "a value expected, got nil") end
  return core.pack(3, t.state, "value", value)
end

-- Writes a value, and returns its revision.
function Table.__index:put(key, value)
  local t = opened(self, "put")
  check_key("put", key)
  return put(t, key, packed(t, "put", 2, value), -1)
end

-- The same, if the revision is still this one; 0: if there is none. Else returns nil, "changed".
function Table.__index:compare(key, revision, value)
  local t = opened(self, "compare")
  check_key("compare", key)
  check_revision(2, "compare", revision)
  return put(t, key, packed(t, "compare", 3, value), revision)
end

function Table.__index:delete(key, revision)
  local t = opened(self, "delete")
  check_key("delete", key)
  if revision ~= nil then check_revision(2, "delete", revision) end
  local done, why = put(t, key, nil, revision or -1)
  if not done then return nil, why end
  return true
end

-- Watching
-- -------------------------------------------------------------------------------------------------

local Watch = { __name = "watch" }

function Watch.take(watch, key, _, payload, revision)
  local entry, is_read = { key = key, revision = revision }, true
  if payload then
    is_read, entry.value = engine.unpack(payload)
    if not is_read then entry.value, entry.error = nil, entry.value end
  end
  watch.entries[#watch.entries + 1] = entry
  watch.ready:set()
end

function Watch.ended(watch)
  watch.is_over = true
  watch.ready:set()
end

-- The next entries are taken from a second list, so that neither end of one moves.
function Watch.__call(watch)
  while true do
    watch.at = watch.at + 1
    local entry = watch.taken[watch.at]
    if entry then return entry end
    watch.ready:clear()
    watch.taken, watch.entries, watch.at = watch.entries, {}, 0
    if #watch.taken == 0 then
      if watch.is_over then return nil end
      watch.ready:wait()
    end
  end
end

Watch.__close = function(watch)
  core.stop_listening(watch.state, watch.ticket)
  Watch.ended(watch)
end

-- for entry in t:watch(prefix): first all entries, then each change. A deleted one has no value.
function Table.__index:watch(prefix)
  local t = opened(self, "watch")
  if prefix ~= nil and type(prefix) ~= "string" then
    refuse(2, 1, "watch", "string expected, got %s", type(prefix))
  end
  local state, ticket = t.state, engine.ticket()
  local watch = setmetatable({
    state = state, ticket = ticket, entries = {}, taken = {}, at = 0, ready = process.event(),
    take = Watch.take,
    ended = Watch.ended,
  }, Watch)
  state.listeners[ticket] = watch
  local known, why = core.listen(state, WATCH, ticket, t.name, prefix or "")
  if not known then error("cannot watch: " .. why, 2) end
  return watch, nil, nil, watch
end

-- Leases
-- -------------------------------------------------------------------------------------------------
-- A lease is an entry of a table that its holder writes again and again. One who wants it waits
-- until the entry has stood still for `ttl` by his own clock, and then writes it by its revision.
-- The holder gives it up `ttl` after it began to write for the last time with success, so before
-- any other can have it. No two clocks are compared. The token is the revision of the first write.

local LEASES = "leases"
local Lease = { __name = "lease" }
Lease.__index = {}

local function lose(lease)
  lease.is_over = true
  lease.event:set()
end

-- However the process that extends a lease ends, the lease is lost then.
local Keeping = { __close = function(keeping) lose(keeping.lease) end }

local function keep(lease)
  local _ <close> = setmetatable({ lease = lease }, Keeping)
  local pause = lease.ttl / 3
  while not lease.is_over do
    local began = process.now()
    if began >= lease.until_time then break end
    if lease.over:wait(math.min(pause, lease.until_time - began)) then break end
    began = process.now()
    local left = lease.until_time - began
    if left <= 0 then break end
    local in_time, revision, why = process.timeout(left, function()
      return lease.table:compare(lease.name, lease.revision, lease.holder)
    end)
    if not in_time then break end
    if revision then
      lease.revision, lease.until_time = revision, began + lease.ttl
    elseif why == "changed" or why == "closed" then
      break
    end
  end
end

-- `taken` has the lease before anything extends it: a kill may come when the process is spawned.
local function acquired(leases, name, ttl, holder, began, revision, taken)
  local lease = setmetatable({
    token = revision, name = name, table = leases, ttl = ttl, holder = holder, revision = revision,
    until_time = began + ttl, event = process.event(), over = process.event(),
  }, Lease)
  taken.lease = lease
  process.spawn({ daemon = true, name = "lease " .. name }, keep, lease)
  return lease
end

-- Waits until the entry may be taken, and takes it.
local function acquire(leases, name, ttl, holder, deadline, place)
  local seen, since
  while true do
    local value, revision = leases:get(name)
    local now = process.now()
    if revision == "closed" then return nil, "closed" end
    if math.type(revision) == "integer" then
      if revision ~= seen then seen, since = revision, now end
      local their_ttl = type(value) == "table" and tonumber(value.ttl) or 0
      if value == nil or value.is_free or now - since >= their_ttl then
        local taken, why = leases:compare(name, revision, holder)
        if taken then return acquired(leases, name, ttl, holder, now, taken, place) end
        if why == "closed" then return nil, why end
      end
    end
    if deadline and process.now() >= deadline then return nil, "timeout" end
    local pause = math.min(ttl / 10, 1)
    process.sleep(deadline and math.min(pause, math.max(deadline - process.now(), 0)) or pause)
  end
end

-- Waits for a lease, and puts it into `place` before it returns it.
local function lease_into(place, self, name, ttl, timeout)
  local state = core.state_for(self, "lease")
  core.check_name(2, 1, "lease", name)
  if not rules.span[1](ttl) then
    refuse(2, 2, "lease", "%s expected, got %s", rules.span[2], tostring(ttl))
  end
  timeout = core.check_timeout(2, 3, "lease", timeout)
  local leases, why = self:table(LEASES)
  if not leases then return nil, why end
  local holder = { ttl = ttl, holder = state.name }
  return acquire(leases, name, ttl, holder, timeout and process.now() + timeout, place)
end

function methods:lease(name, ttl, timeout) return lease_into({}, self, name, ttl, timeout) end

-- The event that is set when it is lost or released.
function Lease.__index:lost() return self.event end

function Lease.__index:release()
  if self.is_over then return end
  lose(self)
  self.over:set()
  self.table:compare(self.name, self.revision, { ttl = self.ttl, is_free = true })
end

Lease.__close = function(lease) lease:release() end

-- Has the lease in `lease` once it is acquired.
local Taken = { __close = function(taken) if taken.lease then taken.lease:release() end end }

-- Ends the process that runs while a lease is held.
local Leased = {
  __close = function(leased)
    if not leased[1] then return end
    engine.end_process(leased[1], "the lease is lost")
    leased[1]:join()
  end,
}

-- A kill comes before or after, and not between.
local function begin(leased, ...)
  leased[1] = process.spawn(...)
  return leased[1]
end

-- For `lease` of a supervisor's child: a function that calls f(lease, ...) while it has the lease.
-- If the lease is lost, f's process is killed, and it is called again with the next lease.
function methods:leasing(name, ttl)
  core.state_for(self, "leasing")
  core.check_name(2, 1, "leasing", name)
  return function(f, ...)
    while true do
      local taken <close> = setmetatable({}, Taken)
      local lease = assert(lease_into(taken, self, name, ttl))
      local leased <close> = setmetatable({}, Leased)
      local p = process.shield(begin, leased, { name = name, quiet = true }, f, lease, ...)
      if process.select { p, lease:lost() } == 1 then
        local is_done, failure = p:join()
        if is_done then return end
        error(failure, 0)
      end
    end
  end
end
