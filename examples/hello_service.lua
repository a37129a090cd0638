-- A small HTTP service as a service manager runs one. hello_service.service and
-- hello_service.socket beside this file are its units for systemd.
--
--   baton examples/hello_service.lua [PORT]
--
--   GET /any/path        200, and a greeting      GET /slow?SECONDS        the same, later
--
-- It takes its socket from the manager, or opens one itself and prints the port. It reports to the
-- manager when it is ready. If the manager has a watchdog, it also reports that it still runs.
--
--   SIGTERM, SIGINT      accepts no more connections, answers all requests that have arrived, and
--                        ends with status 0
--   SIGHUP               reads its greeting again, from the variable GREETING_FILE
--
-- Each client has a process. A handler may be slow, or even loop for ever: it delays no other
-- client, and its request ends at a deadline. What a client sends is bounded.

local http = require "baton.http"
local net = require "baton.net"
local process = require "baton.process"

local GRACE = 20 -- seconds for requests at the end
local DEADLINE = 30 -- seconds for an answer
local BACKLOG = 4096 -- connections that wait to be accepted

local greeting = "hello"

local function read_greeting()
  local file <close> = os.getenv "GREETING_FILE" and io.open(os.getenv "GREETING_FILE")
  greeting = file and file:read "l" or greeting
end

local function handle(req)
  local seconds = req.target:match "^/slow%?([%d.]+)$"
  if seconds then process.sleep(tonumber(seconds) or 0) end
  return 200, ("%s from %s\n"):format(greeting, req.target)
end

local function keep_the_watchdog_quiet()
  local interval = tonumber(os.getenv "WATCHDOG_USEC")
  if interval then process.every(interval / 2e6, process.notify, "WATCHDOG=1") end
end

local signals = process.signals("TERM", "INT", "HUP")
read_greeting()
local passed = process.listen_fds()[1] -- the manager's socket
local address = passed or "127.0.0.1:" .. (tonumber(arg[1]) or 8080)
local server = http.serve(assert(net.listen(address, { backlog = BACKLOG })), handle, {
  handler_timeout = DEADLINE,
})
if not passed then print("port " .. server:address():match ":(%d+)$") end
io.stdout:flush()
keep_the_watchdog_quiet()
process.notify "READY=1"

for signal in signals:values() do
  if signal ~= "HUP" then break end
  read_greeting()
end

process.notify "STOPPING=1"
local cut_off = server:stop(GRACE)
print(cut_off == 0 and "all requests answered" or cut_off .. " requests cut off")
os.exit(0, true)
