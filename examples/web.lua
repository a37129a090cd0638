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
-- keeps a listener of each, and gives each VM a second one, so a restart loses no connection.

local http = require "baton.http"
local net = require "baton.net"
local process = require "baton.process"
local vm = require "baton.vm"

local PATIENCE = 10 -- seconds for an answer
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

local function answer(req, cache)
  local seconds = req.target:match "^/slow%?(%d+%.?%d*)$"
  if seconds then process.sleep(tonumber(seconds)) end
  local n = math.tointeger(req.path:match "^/primes/(%d+)$")
  if not n then return "Hello from " .. vm.current().name, "none" end
  local known = cache:get(req.path)
  if known then return known, "hit" end
  local text = count_primes(n)
  cache:set(req.path, text, TTL)
  return text, "miss"
end

-- Serves until `stop` is closed, and then until all clients have their answers.
local function serve(listener, cache, stop)
  local server = assert(http.serve(listener, function(req)
    local text, cached = answer(req, cache)
    return 200, text .. "\n", { ["X-Cache"] = cached }
  end, { handler_timeout = PATIENCE }))
  stop:receive()
  server:stop(GRACE)
end

if vm.current().id > 1 then return serve end -- what `begin` loads

-- }======================================================

-- {======================================================
-- In the first VM
-- ======================================================

local function begin(file, ...) return dofile(file)(...) end

local port, count = tonumber(arg[1]) or 8080, math.tointeger(arg[2]) or vm.cores()
local cache = vm.dict { bytes = 64 << 20, evict = "lru" }
local signals = process.signals("TERM", "INT", "HUP")
local listeners, starts = {}, 0
for i = 1, count do
  listeners[i] =
    assert(net.listen("127.0.0.1:" .. port, { reuseport = true, backlog = 4096 }))
end

local function start_servers()
  local servers = { stop = vm.channel() }
  starts = starts + 1
  for i, listener in ipairs(listeners) do
    local name = ("server %d.%d"):format(starts, i)
    local second = vm.move(net.listen(listener))
    servers[i] = assert(vm.spawn({ name = name }, begin, arg[0], second, cache, servers.stop))
  end
  return servers
end

local function finish(servers)
  servers.stop:close()
  for _, server in ipairs(servers) do
    if server:join(GRACE + 1) == nil then server:kill "it took too long" end
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
