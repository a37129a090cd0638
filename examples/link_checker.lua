-- Checks the links of a web page, many at the same time, with plain LuaSocket: one process for each link.
--
--   baton examples/link_checker.lua [-t SECONDS] [-n CONNECTIONS] URL
--
-- Each process is written as if it were alone: it asks, waits, follows redirections, and returns what it found. There
-- are no callbacks and no event loop, and socket.http is the one that every Lua program uses. What this example shows
-- besides: a semaphore as a limit, a deadline for each link, results by join, and an error that ends one process only.
--
-- A function of a compiled module keeps all processes waiting until it returns. So no socket here ever blocks: it has a
-- timeout of zero, and a process that must wait sleeps for a moment and tries again. socket.http takes such a socket by
-- its parameter `create`. (Looking up a host's name is the one call that may still hold up the others.)

local process = require "baton.process"
local http = require "socket.http"
local ltn12 = require "ltn12"
local socket = require "socket"
local url = require "socket.url"

local USAGE = "usage: link_checker.lua [-t SECONDS] [-n CONNECTIONS] URL"
local MOST_REDIRECTIONS = 5
local SHORTEST_PAUSE, LONGEST_PAUSE = 0.001, 0.02

-- A socket for socket.http that never blocks in C, and gives up at its deadline.
local Patient = {}
Patient.__index = Patient

-- A constructor of such sockets, as the parameter `create` wants one.
local function patient_until(deadline)
  return function()
    local tcp, why = socket.tcp()
    if not tcp then return nil, why end
    tcp:settimeout(0)
    return setmetatable({ tcp = tcp, deadline = deadline, pause = SHORTEST_PAUSE }, Patient)
  end
end

-- Lets the others run for a moment; false when the time is up.
function Patient:wait()
  local left = self.deadline - process.now()
  if left <= 0 then return false end
  process.sleep(math.min(self.pause, left))
  self.pause = math.min(self.pause * 2, LONGEST_PAUSE)
  return true
end

function Patient:settimeout() return 1 end -- the deadline is what counts

function Patient:connect(host, port)
  local connected, why = self.tcp:connect(host, port)
  while not connected and (why == "timeout" or why == "Operation already in progress") do
    if not self:wait() then return nil, "timeout" end
    connected, why = self.tcp:connect(host, port)
  end
  if not connected and why ~= "already connected" then return nil, why end
  self.pause = SHORTEST_PAUSE
  return 1
end

function Patient:receive(pattern, part)
  local data, why
  repeat
    local had = part and #part or 0
    data, why, part = self.tcp:receive(pattern, part)
    if data then return data end
    if #part > had then self.pause = SHORTEST_PAUSE end
  until why ~= "timeout" or not self:wait()
  return nil, why, part
end

function Patient:send(data, first, last)
  local sent, why, done
  repeat
    sent, why, done = self.tcp:send(data, first, last)
    if sent then return sent end
    if done then first = done + 1 end
  until why ~= "timeout" or not self:wait()
  return nil, why, done
end

function Patient:close() return self.tcp:close() end
function Patient:getfd() return self.tcp:getfd() end
function Patient:dirty() return self.tcp:dirty() end

-- Where a page leads to, each place once, in the page's order.
local function links_of(html, base)
  local links, seen = {}, {}
  for href in html:gmatch("<[aA]%s[^>]-[hH][rR][eE][fF]%s*=%s*[\"']([^\"'#]+)") do
    local target = url.absolute(base, href)
    if not seen[target] then
      seen[target] = true
      links[#links + 1] = target
    end
  end
  return links
end

-- "ok", "dead" or "skipped", and why.
local function check(target, seconds)
  local create = patient_until(process.now() + seconds)
  for _ = 0, MOST_REDIRECTIONS do
    local scheme = url.parse(target).scheme
    if scheme ~= "http" then return "skipped", ("no %s here"):format(scheme) end
    local answered, status, headers = http.request { url = target, method = "HEAD", redirect = false, create = create }
    if not answered then return "dead", status end
    local leads_to = status >= 300 and status < 400 and headers.location
    if not leads_to then return status < 400 and "ok" or "dead", ("status %d"):format(status) end
    target = url.absolute(target, leads_to)
  end
  return "dead", "too many redirections"
end

local function read_options(arguments)
  local options = { seconds = 10, connections = 16 }
  local names = { ["-t"] = "seconds", ["-n"] = "connections" }
  local i = 1
  while names[arguments[i]] do
    options[names[arguments[i]]] = tonumber(arguments[i + 1])
    i = i + 2
  end
  options.page = arguments[i]
  local complete = options.page and not arguments[i + 1] and options.seconds
  if not complete or math.type(options.connections) ~= "integer" or options.connections < 1 then
    io.stderr:write(USAGE, "\n")
    os.exit(2)
  end
  return options
end

local options = read_options(arg)
local started = process.now()

local html = {}
local fetched, status = http.request {
  url = options.page,
  sink = ltn12.sink.table(html),
  create = patient_until(started + options.seconds),
}
if not fetched or status ~= 200 then
  io.stderr:write(("link_checker: %s: %s\n"):format(options.page, status))
  os.exit(1)
end

-- All processes exist at once; the semaphore lets only so many of them have a connection.
local connections = process.semaphore(options.connections)
local checks = {}
for i, target in ipairs(links_of(table.concat(html), options.page)) do
  local checker = process.spawn({ name = target, quiet = true }, function()
    connections:wait()
    local slot <close> = setmetatable({}, { __close = function() connections:signal() end })
    return check(target, options.seconds)
  end)
  checks[i] = { target = target, process = checker }
end

local counts = { ok = 0, dead = 0, skipped = 0 }
for _, link in ipairs(checks) do
  local ended_well, verdict, why = link.process:join()
  if not ended_well then verdict, why = "dead", tostring(verdict) end
  counts[verdict] = counts[verdict] + 1
  print(("%-8s %s (%s)"):format(verdict, link.target, why))
end
print(("%d links: %d ok, %d dead, %d skipped; %.1f s"):format(
  #checks, counts.ok, counts.dead, counts.skipped, process.now() - started))
os.exit(counts.dead == 0)
