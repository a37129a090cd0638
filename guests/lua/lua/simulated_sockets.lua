-- LuaSocket in a simulated run: TCP over the network of baton.net, in memory. The objects have the
-- methods of LuaSocket's, and return the same, down to its numbers with a fraction. So a service
-- and its clients run in one program, unchanged, and the seed decides when things arrive.
--
-- Arguments:
--   core                              LuaSocket's module socket.core
--   net                               baton.net
--   await(readers, writers, timeout)  waits until one of these objects of baton.net is ready
--   is_ready(object, writes)          whether one is
local core, net, await, is_ready = ...

local original_select = core.select
local Socket = { class = "tcp{any}" }
local metatable = { __index = Socket }

-- The parts of an address of baton.net.
local function split(address)
  local host, port = address:match "^(.*):(%d+)$"
  return (host:gsub("[%[%]]", "")), tonumber(port)
end

local function join(host, port)
  if host == "*" then host = "0.0.0.0" end
  return (host:find(":", 1, true) and "[" .. host .. "]:" or host .. ":") .. port
end

local function family(host) return host:find(":", 1, true) and "inet6" or "inet" end

-- LuaSocket's words for a failure.
local function failure(why)
  if why:find "Connection refused" then return "connection refused" end
  if why:find "Address already in use" then return "address already in use" end
  return why
end

local function new(kind, object)
  return setmetatable({
    kind = kind,
    object = object,
    buffer = "", -- what has come and was not received
    options = {},
    received = 0.0,
    sent = 0.0,
    born = core.gettime(),
  }, metatable)
end

function metatable.__tostring(socket)
  return ("tcp{%s}: %p"):format(socket.kind, socket)
end

-- The timeout of a call in seconds; nil: none.
local function timeout_of(socket)
  local block, total = socket.block, socket.total
  if block and total then return math.min(block, total) end
  return block or total
end

local function check(socket, kind)
  if getmetatable(socket) ~= metatable or kind and socket.kind ~= kind then
    error(("calling a method on bad self (tcp{%s} expected)"):format(kind or "any"), 3)
  end
  return socket.object
end

-- {======================================================
-- Making connections
-- =======================================================

local function master() return new("master", nil) end

function Socket:bind(host, port)
  check(self, "master")
  local listener, why = net.listen(join(host, tonumber(port)), { backlog = 32 })
  if not listener then return nil, failure(why) end
  self.object = listener
  return 1.0
end

function Socket:listen()
  check(self, "master")
  self.kind = "server"
  return 1.0
end

function Socket:accept()
  local listener = check(self, "server")
  if not listener then return nil, "closed" end
  local conn, why = listener:accept(timeout_of(self))
  if not conn then return nil, why end
  return new("client", conn)
end

-- A connection takes a moment, so it is waited for even if the timeout is 0.
function Socket:connect(host, port)
  check(self, "master")
  local timeout = timeout_of(self)
  if timeout == 0 then timeout = nil end
  if self.object then self.object:close() end -- it was bound
  local conn, why = net.connect(join(host, tonumber(port)), { timeout = timeout })
  if not conn then return nil, failure(why) end
  self.object, self.kind = conn, "client"
  return 1.0
end

function core.tcp() return master() end
core.tcp4, core.tcp6 = core.tcp, core.tcp

function core.connect(host, port)
  local socket = master()
  local done, why = socket:connect(host, port)
  if not done then return nil, why end
  return socket
end

-- }======================================================

-- {======================================================
-- Receiving and sending
-- =======================================================

local function take(socket, count, last)
  local text = socket.buffer:sub(1, count)
  socket.buffer = socket.buffer:sub((last or count) + 1)
  socket.received = socket.received + (last or count)
  return text
end

-- Waits for more. Returns why nothing has come.
local function more(socket, deadline)
  local object = socket.object
  if not object then return "closed" end
  local left = deadline and math.max(deadline - core.gettime(), 0)
  local data, why = object:read("some", left)
  if not data then return why end
  socket.buffer = socket.buffer .. data
end

-- A pattern is a function: it returns what was asked for, once that is there.
local patterns = {}

function patterns.l(socket)
  local last = socket.buffer:find("\n", 1, true)
  return last and (take(socket, last - 1, last):gsub("\r", ""))
end

function patterns.a(_) return nil end

local function number(count)
  return function(socket)
    if #socket.buffer >= count then return take(socket, count) end
  end
end

local function pattern_of(pattern, prefix)
  local count = tonumber(pattern)
  if count then return number(math.max(count - #prefix, 0)) end
  return patterns[tostring(pattern or "*l"):match "^%*?([al])$"]
    or error("bad argument #1 to 'receive' (invalid receive pattern)", 3)
end

function Socket:receive(pattern, prefix)
  check(self, "client")
  prefix = prefix or ""
  local find = pattern_of(pattern, prefix)
  local timeout = timeout_of(self)
  local deadline = timeout and core.gettime() + timeout
  while true do
    local text = find(self)
    if text then return prefix .. text, nil, nil end
    local why = more(self, deadline)
    if why then
      local part = prefix .. take(self, #self.buffer)
      if find == patterns.a and why == "closed" and part ~= "" then return part, nil, nil end
      return nil, why, part
    end
  end
end

function Socket:send(data, first, last)
  local object = check(self, "client")
  data, first, last = tostring(data), first or 1, last or -1
  if first < 0 then first = #data + first + 1 end
  if last < 0 then last = #data + last + 1 end
  first, last = math.max(first, 1), math.min(last, #data)
  if not object then return nil, "closed", first - 1.0 end
  object:timeout(timeout_of(self))
  local done, why, written = object:write(data:sub(first, last))
  written = done and math.max(last - first + 1, 0) or written
  self.sent = self.sent + written
  if done then return first - 1.0 + written, nil, nil end
  return nil, why, first - 1.0 + written
end

-- }======================================================

-- {======================================================
-- The rest
-- =======================================================

function Socket:close()
  if self.object then self.object:close() end
  self.object = nil
  return 1.0
end

function Socket:shutdown(how)
  local object = check(self)
  if not object then return nil, "closed" end
  if self.kind == "client" and how ~= "receive" then object:shutdown() end
  return 1.0
end

local function name(socket, method)
  local object = check(socket)
  local address, why = nil, "closed"
  if object then address, why = object[method](object) end
  if not address then return nil, why end
  local host, port = split(address)
  return host, port, family(host)
end

function Socket:getsockname()
  if self.kind == "master" and not self.object then return "0.0.0.0", "0", "inet" end
  local host, port, of = name(self, "address")
  return host, port and tostring(port) or port, of
end

function Socket:getpeername() return name(self, "peer") end

-- The modes of LuaSocket: "b" bounds each wait, "t" the whole call. Here both bound the call.
function Socket:settimeout(seconds, mode)
  check(self)
  if seconds and seconds < 0 then seconds = nil end
  if mode == "t" or mode == "r" then self.total = seconds else self.block = seconds end
  return 1.0
end

function Socket:gettimeout() return self.block, self.total end

function Socket:setoption(option, value)
  self.options[option] = value == nil or value
  return 1.0
end

function Socket:getoption(option) return self.options[option] or false end

function Socket:getfamily() return "inet" end

function Socket:getstats() return self.received, self.sent, core.gettime() - self.born end

function Socket:setstats(received, sent, age)
  self.received, self.sent = received or self.received, sent or self.sent
  if age then self.born = core.gettime() - age end
  return 1.0
end

function Socket:dirty() return self.buffer ~= "" end

function Socket:getfd()
  error("a simulated run has no descriptors of sockets (wait by socket.select)", 2)
end
Socket.setfd = Socket.getfd

Socket.setpeername, Socket.setsockname = Socket.connect, Socket.bind

-- Names are not looked up: each stands for itself.
local function address_of(host) return host == "localhost" and "127.0.0.1" or host end
function core.dns.toip(host)
  local address = address_of(host)
  return address, { name = host, alias = {}, ip = { address } }
end
core.dns.tohostname = core.dns.toip
function core.dns.getaddrinfo(host)
  local address = address_of(host)
  return { { family = family(address), addr = address } }
end

-- }======================================================

-- {======================================================
-- select
-- =======================================================

-- The objects of a list whose sockets are all ours; nil if one is another's.
local function objects_of(list, is_waiting)
  local objects = {}
  for _, socket in ipairs(list or {}) do
    if getmetatable(socket) ~= metatable then return nil end
    if socket.buffer ~= "" or not socket.object then is_waiting = false end
    objects[#objects + 1] = socket.object
  end
  return objects, is_waiting
end

-- The sockets of a list that are ready, as select returns them.
local function ready_of(list, writes)
  local ready = {}
  for _, socket in ipairs(list or {}) do
    local has_data = not writes and socket.buffer ~= ""
    if has_data or not socket.object or is_ready(socket.object, writes) then
      ready[#ready + 1] = socket
      ready[socket] = #ready + 0.0
    end
  end
  return ready
end

function core.select(receivers, senders, timeout)
  local readers, waits = objects_of(receivers, true)
  local writers = objects_of(senders, true)
  if not readers or not writers then return original_select(receivers, senders, timeout) end
  if #readers + #writers == 0 and waits then return original_select(nil, nil, timeout) end
  if timeout and timeout < 0 then timeout = nil end
  await(readers, writers, waits and timeout or 0)
  local to_read, to_write = ready_of(receivers, false), ready_of(senders, true)
  if #to_read + #to_write == 0 then return to_read, to_write, "timeout" end
  return to_read, to_write
end

-- }======================================================
