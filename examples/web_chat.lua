-- A chat in the browser, by WebSocket: one room, a message is a line. Arguments: [port].
--
--   baton examples/web_chat.lua 8080        and open http://127.0.0.1:8080/
--
-- It prints its port, and ends at SIGTERM or Ctrl-C: the browsers are told, and get five seconds.
--
-- Each visitor has two processes: the request's own receives, and puts each message into all
-- outboxes; the other takes from its visitor's outbox, and sends. Everything is bounded: the
-- visitors, the bytes of a name and of a message, and what waits for a slow reader. Who does not
-- read is thrown out, and delays nobody else.

local http = require "baton.http"
local process = require "baton.process"

local MOST = 100 -- visitors
local LONGEST = 2000 -- bytes of a message
local LONGEST_NAME = 20
local OUTBOX = 100 -- messages that may wait for one visitor
local PATIENCE = 10 -- seconds in which a visitor must take a message
local GRACE = 5 -- seconds at the end

local PAGE = [[
<!doctype html>
<meta charset="utf-8">
<title>Chat</title>
<form id="form"><input id="text" placeholder="your name" autocomplete="off" autofocus></form>
<div id="room"></div>
<script>
  let socket
  const show = text => {
    const line = document.createElement("p")
    line.textContent = text
    document.getElementById("room").prepend(line)
  }
  document.getElementById("form").onsubmit = event => {
    event.preventDefault()
    const input = document.getElementById("text")
    if (socket) {
      socket.send(input.value)
    } else {
      const scheme = location.protocol == "https:" ? "wss:" : "ws:"
      const query = "?name=" + encodeURIComponent(input.value)
      socket = new WebSocket(scheme + "//" + location.host + "/room" + query)
      socket.onopen = () => { input.placeholder = "your message" }
      socket.onmessage = event => show(event.data)
      socket.onclose = event => {
        socket = null
        input.placeholder = "your name"
        show("* you are not in the room " + (event.reason || "(" + event.code + ")"))
      }
    }
    input.value = ""
  }
</script>
]]

local visitors, number = {}, 0 -- name -> visitor, and how many
local room = process.mutex() -- guards both

-- Enters with a visitor's name. Returns the status and the text for one who cannot.
local function enter(visitor)
  return room:with(function()
    if visitors[visitor.name] then return 409, "somebody has that name\n" end
    if number >= MOST then return 503, "the room is full\n" end
    visitors[visitor.name], number = visitor, number + 1
  end)
end

-- Removes a visitor. Returns whether it had entered.
local function leave(visitor)
  return room:with(function()
    if visitors[visitor.name] ~= visitor then return false end
    visitors[visitor.name], number = nil, number - 1
    return true
  end)
end

local function throw_out(visitor)
  visitor.reader:kill "a visitor who does not read"
end

local function tell_all(text)
  local everybody = room:with(function()
    local list = {}
    for _, visitor in pairs(visitors) do list[#list + 1] = visitor end
    return list
  end)
  for _, visitor in ipairs(everybody) do
    local _, why = visitor.outbox:send(text, 0)
    if why == "timeout" then throw_out(visitor) end
  end
end

local function write(visitor, ws)
  for text in visitor.outbox:values() do
    local _, why = ws:send(text, PATIENCE)
    if why == "timeout" then throw_out(visitor) end
    if why then return end
  end
end

local function visit(req, res)
  local name = req.query.name or ""
  if #name > LONGEST_NAME or not name:find "^[%w_-]+$" then
    return 400, ("a name has 1 to %d letters, digits, - and _\n"):format(LONGEST_NAME)
  end
  local visitor = {
    name = name,
    outbox = process.channel(OUTBOX),
    reader = process.current(),
  }
  -- The variable comes first: a kill after `enter` finds it.
  local _ <close> = setmetatable({}, { __close = function()
    if leave(visitor) then tell_all("* " .. name .. " has left") end
  end })
  local status, why = enter(visitor)
  if status then return status, why end
  local ws <close> = http.websocket(req, res, { max_message = LONGEST, keepalive = 30 })
  if not ws then return end -- the client has its answer
  process.scope(function(scope)
    scope:spawn({ name = "writer of " .. name }, write, visitor, ws)
    tell_all("* " .. name .. " has joined")
    for text, kind in ws:messages() do
      if kind == "text" then tell_all(name .. ": " .. text) end
    end
    visitor.outbox:close()
  end)
end

local routes = http.router()
routes:get("/", function() return 200, PAGE, { ["Content-Type"] = "text/html; charset=utf-8" } end)
routes:get("/room", visit)

local ends = process.signals("TERM", "INT")
local server = assert(http.serve("127.0.0.1:" .. (arg[1] or 8080), routes, {
  max_connections = 2 * MOST,
}))
print("port " .. server:address():match "%d+$")
io.stdout:flush()
ends:receive()
ends:close() -- a second signal ends the program at once
server:stop(GRACE)
