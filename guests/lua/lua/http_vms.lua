-- http.serve with the option `vms`: a server in each of several VMs, seen as one. Each VM loads the
-- module with the handler, and has a listener of its own: on the same port, or a second one of the
-- same socket.
local core = ...
local process = require "baton.process"
local net = require "baton.net"

local PAUSE = 0.05 -- seconds between looks whether a VM has died without a word
local MARGIN = 5 -- seconds that a VM gets beside those for its requests

-- In the VM of a server
-- -------------------------------------------------------------------------------------------------

-- Is sent to the VM, so it has no values from outside. Serves until a time comes, and stops then.
local function run(listener, module, options, stop, news)
  local is_loaded, handler = pcall(require, module)
  if not is_loaded then
    news:send { why = handler }
    return
  end
  local is_right, server, why = pcall(require("baton.http").serve, listener, handler, options)
  if not is_right or not server then
    news:send { why = is_right and why or server }
    return
  end
  package.loaded["baton.http server"] = server -- for the figures
  news:send {}
  news:send { killed = server:stop(stop:receive()) }
end

local function figures() return package.loaded["baton.http server"]:stats() end

-- Its news
-- -------------------------------------------------------------------------------------------------

-- What the VM says next; nil if it has died, or after `timeout` seconds.
local function news_of(worker, timeout)
  local deadline = process.now() + timeout
  repeat
    local news = worker.news:receive(PAUSE)
    if news then return news end
    if worker.vm:status() == "dead" then return worker.news:receive(0) or nil end
  until process.now() > deadline
  return nil
end

-- The server
-- -------------------------------------------------------------------------------------------------

local Servers = {}
Servers.__index = Servers
Servers.__name = "baton.http server"
Servers.__close = function(servers) servers:stop(0) end

function Servers:address() return self.text end

local function add(sum, stats)
  for name, value in pairs(stats) do
    if type(value) == "table" then
      sum[name] = sum[name] or {}
      add(sum[name], value)
    else
      sum[name] = (sum[name] or 0) + value
    end
  end
end

-- The sums of all VMs that are alive.
function Servers:stats()
  local sum = {}
  for _, worker in ipairs(self.workers) do
    local stats = worker.vm:call(figures)
    if stats then add(sum, stats) end
  end
  return sum
end

-- Ends what the VM still does: a module may have started processes.
local function finish(worker)
  worker.vm:kill "the server was stopped"
  worker.vm:join()
end

function Servers:stop(grace)
  if grace ~= nil and not (type(grace) == "number" and grace >= 0) then
    error(("server:stop: number of seconds expected, got %s"):format(tostring(grace)), 2)
  end
  if self.is_stopped then return 0 end
  self.is_stopped = true
  local seconds, killed = grace or 10, 0
  for _, worker in ipairs(self.workers) do worker.stop:send(seconds, 0) end
  local deadline = process.now() + seconds + MARGIN
  for _, worker in ipairs(self.workers) do
    local news = news_of(worker, math.max(0, deadline - process.now()))
    killed = killed + (news and news.killed or 0)
  end
  for _, worker in ipairs(self.workers) do finish(worker) end
  return killed
end

-- Starting
-- -------------------------------------------------------------------------------------------------

-- Listeners for so many VMs; or nil and why.
local function listen(address, count, limit)
  local listeners, why = {}, nil
  local is_shared = type(address) == "userdata" or address:find "^unix:"
  for i = 1, count do
    local place = i == 1 and address or is_shared and listeners[1] or listeners[1]:address()
    local options = { limit = limit }
    if not is_shared then options.reuseport = true end
    if i == 1 and type(address) == "userdata" then
      listeners[1] = address
    else
      listeners[i], why = net.listen(place, options)
    end
    if not listeners[i] then
      for made = type(address) == "userdata" and 2 or 1, i - 1 do listeners[made]:close() end
      return nil, why
    end
  end
  return listeners
end

local function start(number, listener, module, options)
  local vm = require "baton.vm"
  local worker = { stop = vm.channel(1), news = vm.channel(2) }
  local settings = { name = ("%s %d"):format(options.name or "http", number), quiet = true }
  local why
  worker.vm, why = vm.spawn(
    settings, run, vm.move(listener), module, options, worker.stop, worker.news
  )
  if not worker.vm then return nil, why end
  return worker
end

-- What options the server in each VM gets.
local function options_for_each(given)
  local options = {}
  for name, value in pairs(given) do
    if name ~= "vms" and name ~= "reuseport" then options[name] = value end
  end
  return options
end

-- Ends what a start has begun, unless it is done: the program gets nothing to stop.
local function undoing(servers, listeners, address)
  local function undo(guard)
    if guard.is_done then return end
    for _, worker in ipairs(servers.workers) do finish(worker) end
    for i = #servers.workers + 1, #listeners do
      if listeners[i] ~= address then pcall(listeners[i].close, listeners[i]) end -- or it has moved
    end
  end
  return setmetatable({}, { __close = undo })
end

-- http.serve(address, module, options): the options are checked.
return function(address, module, given, checked)
  if type(module) ~= "string" then
    local text = "http.serve: with the option 'vms', the name of a module that returns the handler "
      .. "expected, got %s"
    error(text:format(type(module)), 3)
  end
  local options = options_for_each(given)
  if core.is_simulated then -- a socket of a simulated run does not move to another VM
    return require("baton.http").serve(address, require(module), options)
  end
  local listeners, why = listen(address, checked.vms, checked.max_connections)
  if not listeners then return nil, why end
  local servers = setmetatable({ workers = {}, text = listeners[1]:address() }, Servers)
  local guard <close> = undoing(servers, listeners, address)
  for i, listener in ipairs(listeners) do
    servers.workers[i], why = start(i, listener, module, options)
    if not servers.workers[i] then return nil, why end
  end
  for _, worker in ipairs(servers.workers) do
    local news = news_of(worker, math.huge)
    if not news or news.why then return nil, news and news.why or "the VM has died" end
  end
  guard.is_done = true
  return servers
end
