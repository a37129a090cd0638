-- A web server on all cores: a VM for each, with a listener of its own on the same port.
--
--   baton examples/web.lua [PORT] [VMS]
--
--   GET /primes/N        how many primes there are up to N; computed once, then cached
--   GET /slow?SECONDS    an answer that takes so long
--   GET /                which VM answers
--
--   SIGHUP               starts new VMs, which read this file again; the old ones finish
--   SIGTERM, SIGINT      answers the requests that have arrived, and ends
--
-- The cache is shared by all VMs, and it outlives them. So do the listening sockets: the first VM
-- opens them and lends each VM one, so a restart loses no connection. Needs LuaSocket.

local process = require "baton.process"
local socket = require "socket"
local vm = require "baton.vm"

local PATIENCE = 10 -- seconds for a request, and for its answer
local TTL = 60 -- seconds that an answer stays in the cache
local GRACE = 20 -- seconds for requests in progress at the end

-- {======================================================
-- In each VM of the server
-- ======================================================

local function count_primes(n)
  local count = 0
  for candidate = 2, n do
    local is_prime, d = true, 2
    while is_prime and d * d <= candidate do
      is_prime, d = candidate % d ~= 0, d + 1
    end
    if is_prime then count = count + 1 end
  end
  return count .. " primes up to " .. n
end

local function answer(path, cache)
  local seconds = path:match "^/slow%?(%d+%.?%d*)$"
  if seconds then process.sleep(tonumber(seconds)) end
  local n = math.tointeger(path:match "^/primes/(%d+)$")
  if not n then return "Hello from " .. vm.current().name, "none" end
  local known = cache:get(path)
  if known then return known, "hit" end
  local text = count_primes(n)
  cache:set(path, text, TTL)
  return text, "miss"
end

local function serve_client(client, cache)
  local _ <close> = setmetatable({}, { __close = function() client:close() end })
  client:settimeout(PATIENCE)
  local path = (client:receive() or ""):match "^%u+ (%S+)"
  repeat local line = client:receive() until not line or line == "" -- the rest of the head
  if not path then return end
  local in_time, body, cached = process.timeout(PATIENCE, answer, path, cache)
  local status = in_time and "200 OK" or "503 Too Slow"
  client:send(("HTTP/1.0 %s\r\nX-Cache: %s\r\n\r\n%s\n"):format(status, cached or "none", body))
end

-- Serves until `stop` is closed, and then until all clients have their answers.
local function serve(descriptor, cache, stop)
  local listener = socket.tcp()
  listener:setfd(descriptor)
  local _ <close> = setmetatable({}, { __close = function() listener:setfd(-1) end }) -- only lent
  assert(listener:listen(4096)) -- LuaSocket must know that it listens, even if it does already
  listener:settimeout(0)
  process.scope(function(clients)
    repeat
      local case = process.select { listener, stop }
      local client, why = listener:accept() -- all that wait, also at the end
      while client do
        clients:spawn({ quiet = true }, pcall, serve_client, client, cache)
        client, why = listener:accept()
      end
      if why ~= "timeout" then process.sleep(0.05) end -- too many clients
    until case == 2
  end)
end

if vm.current().id > 1 then return serve end -- what `begin` loads

-- }======================================================

-- {======================================================
-- In the first VM
-- ======================================================

local function begin(file, ...) return dofile(file)(...) end

local function open_listener(port)
  local listener = assert(socket.tcp4())
  assert(listener:setoption("reuseport", true))
  assert(listener:bind("127.0.0.1", port))
  assert(listener:listen(4096))
  return listener
end

local port, count = tonumber(arg[1]) or 8080, math.tointeger(arg[2]) or vm.cores()
local cache = vm.dict { bytes = 64 << 20, evict = "lru" }
local signals = process.signals("TERM", "INT", "HUP")
local listeners, starts = {}, 0
for i = 1, count do listeners[i] = open_listener(port) end

local function start_servers()
  local servers = { stop = vm.channel() }
  starts = starts + 1
  for i, listener in ipairs(listeners) do
    local name = ("server %d.%d"):format(starts, i)
    local descriptor = listener:getfd()
    servers[i] =
      assert(vm.spawn({ name = name }, begin, arg[0], descriptor, cache, servers.stop))
  end
  return servers
end

local function finish(servers)
  servers.stop:close()
  for _, server in ipairs(servers) do
    if server:join(GRACE) == nil then server:kill "it took too long" end
  end
end

local servers = start_servers()
print("port " .. port)
io.stdout:flush()
for signal in signals:values() do
  if signal ~= "HUP" then break end
  local old = servers
  servers = start_servers()
  process.spawn(function()
    finish(old)
    print "restarted"
    io.stdout:flush()
  end)
end
finish(servers)
print "all requests answered"
