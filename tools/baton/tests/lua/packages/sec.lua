-- LuaSec: TLS between two tasks with non-blocking connections, and a certificate made here.
local socket = require "socket"
local ssl = require "ssl"
local make_certificate = dofile((arg[0]:gsub("[^/]*$", "")) .. "certificate.lua")

local TEXT = ("all that is sent "):rep(20000)

-- Repeats a call on a connection while it returns "wantread" or "wantwrite".
local function patiently(t, call)
  while true do
    local value, why, part = call()
    if value then return value end
    if why ~= "wantread" and why ~= "wantwrite" and why ~= "timeout" then error(why) end
    if part and part ~= "" then return nil, part end
    t.pause()
  end
end

local function send(t, connection, text)
  local at = 1
  while at <= #text do
    local last, part = patiently(t, function() return connection:send(text, at) end)
    at = (last or part) + 1
  end
end

local function receive(t, connection, count)
  local parts, got = {}, 0
  while got < count do
    local whole, part = patiently(t, function() return connection:receive(count - got) end)
    parts[#parts + 1] = whole or part
    got = got + #parts[#parts]
  end
  return table.concat(parts)
end

local function connected()
  local listener = assert(socket.bind("127.0.0.1", 0))
  local host, port = listener:getsockname()
  local client = assert(socket.connect(host, port))
  local server = assert(listener:accept())
  listener:close()
  client:settimeout(0)
  server:settimeout(0)
  return client, server
end

local function talk(t, protocol, trusted)
  local client, server = connected()
  local files = { key = t.scratch .. "/key.pem", certificate = t.scratch .. "/certificate.pem" }
  local theirs =
    { mode = "server", protocol = protocol, key = files.key, certificate = files.certificate }
  local mine = {
    mode = "client",
    protocol = protocol,
    verify = "peer",
    cafile = trusted and files.certificate,
  }
  t.together(function()
    local connection = assert(ssl.wrap(server, theirs))
    connection:settimeout(0)
    local ok, why = pcall(patiently, t, function() return connection:dohandshake() end)
    if ok then
      send(t, connection, receive(t, connection, #TEXT):upper())
    else
      t.say("server", (why:gsub(".*: ", "")))
    end
    connection:close()
  end, function()
    local connection = assert(ssl.wrap(client, mine))
    connection:settimeout(0)
    local ok, why = pcall(patiently, t, function() return connection:dohandshake() end)
    if not ok then
      connection:close()
      t.refused = why
      return
    end
    send(t, connection, TEXT)
    local back = receive(t, connection, #TEXT)
    local peer = connection:getpeercertificate()
    t.answer = {
      back == TEXT:upper(),
      connection:info "protocol",
      peer:subject()[1].value,
      peer:validat(os.time()),
    }
    t.digest = peer:digest "sha256"
    connection:close()
  end)
end

return function(t)
  local certificate = make_certificate(t.scratch)
  talk(t, "tlsv1_2", true)
  t.say(table.unpack(t.answer))
  talk(t, "tlsv1_3", true)
  t.say(table.unpack(t.answer))
  local hex = certificate:digest("sha256", "x")
  t.say(t.digest == hex)
  talk(t, "tlsv1_2", false)
  t.say((t.refused:gsub(".*: ", "")))
  t.say(ssl.newcontext { mode = "server", protocol = "none of these" })
  t.say(ssl.loadcertificate "no certificate")
end
