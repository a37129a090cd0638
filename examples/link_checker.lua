-- Checks the links of a web page, many at the same time, with plain LuaSocket: one process for each
-- link.
--
--   baton examples/link_checker.lua [-t SECONDS] [-n CONNECTIONS] URL
--
-- Each process is written as if it were alone: it sends a request, waits, follows redirections, and
-- returns the result. There are no callbacks and no event loop. socket.http is unmodified, and only
-- the process that calls it waits. The example also shows a pool as a limit, timeouts, results
-- by join, and an error that ends one process only.

local process = require "baton.process"
local http = require "socket.http"
local ltn12 = require "ltn12"
local url = require "socket.url"

local USAGE = "usage: link_checker.lua [-t SECONDS] [-n CONNECTIONS] URL"
local MOST_REDIRECTIONS = 5
local LARGEST = 1 << 20 -- bytes of the page whose links are checked

-- The targets of a page's links, each once, in the page's order.
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

-- LuaSocket's limit is that of one wait. A server that sends a byte now and then would keep a
-- process for ever.
local function request(details)
  local is_in_time, answered, status, headers =
    process.timeout(http.TIMEOUT, http.request, details)
  if not is_in_time then return nil, "timeout" end
  return answered, status, headers
end

-- A sink for at most so many bytes.
local function into(list, left)
  return function(chunk)
    left = left - #(chunk or "")
    if left < 0 then return nil, "too large" end
    list[#list + 1] = chunk
    return 1
  end
end

-- A server's answer about a page: true, the status and the headers; or nil and the reason. HEAD
-- requests only the headers. Servers without it answer with an error, or close the connection. Then
-- GET requests the first byte of the page.
local function ask(target)
  local answered, status, headers = request { url = target, method = "HEAD", redirect = false }
  local is_refused = not answered and status == "closed" or answered and status >= 400
  if not is_refused then return answered, status, headers end
  return request {
    url = target,
    redirect = false,
    headers = { range = "bytes=0-0" },
    sink = ltn12.sink.null(),
  }
end

-- "ok", "dead" or "skipped", and why.
local function check(target)
  for _ = 0, MOST_REDIRECTIONS do
    local scheme = url.parse(target).scheme
    if scheme ~= "http" then return "skipped", ("no %s here"):format(scheme) end
    local answered, status, headers = ask(target)
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
http.TIMEOUT = options.seconds -- of each request

local html = {}
local fetched, status = request { url = options.page, sink = into(html, LARGEST) }
if not fetched or status ~= 200 then
  io.stderr:write(("link_checker: %s: %s\n"):format(options.page, status))
  os.exit(1)
end

-- All processes exist at once. The pool limits how many of them have a connection: what it lends is
-- no more than the right to have one.
local connections = process.pool { size = options.connections, make = function() return true end }
local checks = {}
for i, target in ipairs(links_of(table.concat(html), options.page)) do
  local checker = process.spawn({ name = target, quiet = true }, function()
    return connections:with(function() return check(target) end)
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
