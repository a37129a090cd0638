-- Visitors of examples/web_chat.lua: web_chat.lua PORT.
local check = require "check"
local process = require "baton.process"
local net = require "baton.net"
local http = require "baton.http"
local web = require "baton.web"

local address = "127.0.0.1:" .. arg[1]

local function enter(name)
  return web.connect { url = ("ws://%s/room?name=%s"):format(address, name), timeout = 20 }
end

local function hears(ws, ...)
  for _, wanted in ipairs { ... } do check.equal((ws:receive(20)), wanted) end
end

local function status_of(path)
  local res <close> = assert(http.get("http://" .. address .. path))
  return res.status, res:body(10000)
end

local status, page = status_of "/"
check.equal(status, 200)
check.matches(page, "new WebSocket%(")
check.equal(status_of "/room?name=a%20b", 400)
check.equal(status_of("/room?name=" .. ("a"):rep(21)), 400)
check.equal(status_of "/room?name=ann", 426)
check.equal(status_of "/room?name=ann", 426) -- the first has left

local ann = assert(enter "ann")
hears(ann, "* ann has joined")
local bob = assert(enter "bob")
hears(bob, "* bob has joined")
ann:send "hello <b>"
hears(bob, "ann: hello <b>")
hears(ann, "* bob has joined", "ann: hello <b>")
check.matches(select(2, enter "ann"), "409")
bob:close()
hears(ann, "* bob has left")

-- A message that is too large.
local eve = assert(enter "eve")
eve:send(("x"):rep(2001))
local why, code
repeat
  local data
  data, why, code = eve:receive(20)
until not data
check.equal(code, 1009, why)
hears(ann, "* eve has joined", "* eve has left")

-- One that does not read is thrown out, and the others hear everything meanwhile.
local slow = assert(net.connect(address, { timeout = 20 }))
slow:write(
  "GET /room?name=slow HTTP/1.1\r\nHost: here\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n",
  "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
hears(ann, "* slow has joined")
local sent, heard = 0, 0
repeat
  sent = sent + 1
  check.that(sent < 20000, "a visitor who does not read stays")
  ann:send(("y"):rep(1990))
  local text = ann:receive(20)
  heard = heard + (text:find "^ann: y" and 1 or 0)
until text == "* slow has left"
for _ = heard + 1, sent do check.matches(ann:receive(20), "^ann: y") end
slow:close()

-- The room is full with a hundred.
local crowd = {}
for i = 1, 99 do
  crowd[i] = assert(enter("visitor-" .. i))
  hears(ann, ("* visitor-%d has joined"):format(i))
end
check.matches(select(2, enter "late"), "503")
for _, ws in ipairs(crowd) do process.spawn(ws.close, ws) end
local gone = 0
repeat
  if ann:receive(20):find " has left$" then gone = gone + 1 end
until gone == 99
print "ready for the end"
repeat
  local data
  data, why, code = ann:receive(20)
until not data
check.equal(code, 1001, why)
print "done"
