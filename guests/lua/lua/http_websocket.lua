-- The part of baton.http with WebSockets: a request becomes one, and the end of a server closes it.
-- The protocol is in the module baton.web, which is loaded when it is used.
local core, http = ...
local process = require "baton.process"
local upgrade, progress = core.upgrade, core.methods.progress

-- The sockets that requests have become; and servers by what requests know of them.
core.socket_of = setmetatable({}, { __mode = "k" })
core.server_of = setmetatable({}, { __mode = "k" })

local UPGRADE = {
  ["Connection"] = "Upgrade",
  ["Upgrade"] = "websocket",
  ["Sec-WebSocket-Version"] = "13",
}

local function refuse_upgrade(request, status, why)
  request:send(status, why, status == 426 and UPGRADE or nil)
  return nil, why
end

-- http.websocket(req, res, options): the request becomes a WebSocket, which is the program's. A
-- client that asks for something else gets its answer here.
function http.websocket(request, response, options)
  if request ~= response then
    error("http.websocket: the request and its reply expected, as a handler gets them", 2)
  end
  local web = require "baton.web"
  local answer, status, why = web.upgrade(request.method, request.headers, options)
  if request.version == "1.0" then
    answer, status, why = nil, 426, "a WebSocket begins with HTTP/1.1"
  end
  if not answer then return refuse_upgrade(request, status, why) end
  local head = { "HTTP/1.1 101 Switching Protocols" }
  for name, value in pairs(answer) do head[#head + 1] = ("%s: %s"):format(name, value) end
  local conn, owner = upgrade(request, table.concat(head, "\r\n") .. "\r\n\r\n")
  if not conn then
    if progress(request) then return nil, owner end
    if request:header "content-length" or request:header "transfer-encoding" then
      return refuse_upgrade(request, 400, "a WebSocket begins without a body")
    end
    return refuse_upgrade(request, 503, "the server was stopped")
  end
  local socket = web.socket(conn, answer, options)
  core.socket_of[request] = socket
  core.server_of[owner].sockets[socket] = true
  return socket
end

-- Other processes add WebSockets meanwhile, which would confuse `next`.
local function sockets_without(server, closers)
  local sockets = {}
  process.critical(function()
    for socket in pairs(server.sockets) do
      if not closers[socket] then sockets[#sockets + 1] = socket end
    end
  end)
  return sockets
end

-- Tells the peers of WebSockets, each in a process of its own: a peer may be slow to answer.
-- `closers` has the processes by their sockets. Returns whether one of them is alive.
function core.close_sockets(server, closers)
  local options = { daemon = true, quiet = true, name = server.options.name .. " close" }
  for _, socket in ipairs(sockets_without(server, closers)) do
    closers[socket] = process.spawn(options, socket.close, socket, 1001, "the server was stopped")
  end
  for _, closer in pairs(closers) do
    if closer:status() ~= "dead" then return true end
  end
  return false
end
