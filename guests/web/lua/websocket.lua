-- The second part of baton.web: WebSocket. The upgrade from HTTP, for both sides, and the methods
-- of sockets. The frames are in Rust.

local core = ...
local engine, web, rules = core.engine, core.web, core.rules
local refuse = core.refuse
local process = require "baton.process"

local MOST_MESSAGE = 1 << 20 -- bytes
local MOST_HEAD = 16 << 10 -- bytes
local CLOSE_PATIENCE = 5 -- seconds until a peer has answered a close
local CONNECT_TIMEOUT = 10 -- seconds
local TEXT, BINARY, PING = 1, 2, 3 -- kinds of messages
local FORBIDDEN = { [1004] = true, [1005] = true, [1006] = true, [1015] = true } -- RFC 6455, 7.4
local TOKEN = "^[%w!#$%%&'*+.^_`|~-]+$" -- RFC 9110, 5.6.2

local methods = {}
local Socket = { __name = "websocket", __index = methods }

-- What programs must not touch: the engine of each socket.
local engines = setmetatable({}, { __mode = "k" })

local function check_self(self, call)
  return engines[self] or refuse(3, 0, ":" .. call, "websocket expected, got %s", type(self))
end

local function check_timeout(number, call, value)
  if value ~= nil and (type(value) ~= "number" or value ~= value) then
    refuse(4, number, ":" .. call, "number of seconds expected, got %s", tostring(value))
  end
  return value
end

-- A socket over a connection whose upgrade is done.
local function new(conn, is_server, options, protocol)
  local message = options.max_message or MOST_MESSAGE
  local frame = math.min(options.max_frame or message, message)
  local socket = setmetatable({ conn = conn, protocol = protocol }, Socket)
  engines[socket] = engine.engine(is_server, message, frame, options.keepalive)
  return socket
end

-- Methods
-- -------------------------------------------------------------------------------------------------

-- Waits for the next message. Returns it, and "text" or "binary".
function methods:receive(timeout)
  local own = check_self(self, "receive")
  return engine.receive(own, self.conn, check_timeout(1, "receive", timeout))
end

-- for data, kind in ws:messages() do
function methods:messages()
  local own = check_self(self, "messages")
  return function() return engine.receive(own, self.conn) end
end

local function send(own, self, call, kind, data, timeout)
  if type(data) ~= "string" then
    refuse(3, 1, ":" .. call, "string expected, got %s", type(data))
  end
  if kind == PING and #data > 125 then
    refuse(3, 1, ":" .. call, "at most 125 bytes expected, got %d", #data)
  end
  check_timeout(2, call, timeout)
  local done, why = engine.send(own, self.conn, kind, data, timeout)
  if done then return true end
  if done == false then
    refuse(3, 1, ":" .. call, "UTF-8 expected; send_binary sends other bytes")
  end
  return nil, why
end

-- Results are not passed on by tail calls: the levels of errors count this function.
local function plain(...) return ... end

function methods:send(text, timeout)
  return plain(send(check_self(self, "send"), self, "send", TEXT, text, timeout))
end

function methods:send_binary(bytes, timeout)
  local own = check_self(self, "send_binary")
  return plain(send(own, self, "send_binary", BINARY, bytes, timeout))
end

function methods:ping(data, timeout)
  return plain(send(check_self(self, "ping"), self, "ping", PING, data or "", timeout))
end

-- Closes, and drops what comes. Returns whether the peer has closed, or why not.
local function close(own, conn, code, reason)
  local done, why = engine.shut(own, conn, code, reason)
  while done do
    done, why = engine.receive(own, conn)
  end
  return why == "closed", why
end

-- Closes, and waits some seconds until the peer has. Other processes may have the turn to send or
-- to receive meanwhile.
function methods:close(code, reason)
  local own = check_self(self, "close")
  code, reason = code or 1000, reason or ""
  if math.type(code) ~= "integer" or code < 1000 or code > 4999 or FORBIDDEN[code] then
    local came = tostring(code)
    refuse(2, 1, ":close", "a code from 1000 to 4999 that may be sent expected, got %s", came)
  end
  if type(reason) ~= "string" or #reason > 123 or not utf8.len(reason) then
    refuse(2, 2, ":close", "at most 123 bytes of UTF-8 expected")
  end
  local ended, done, why = process.timeout(CLOSE_PATIENCE, close, own, self.conn, code, reason)
  self.conn:close()
  if done == true then return true end
  return nil, ended and why or "timeout"
end

-- Leaves, without waiting for the peer.
function Socket:__close()
  engine.shut(engines[self], self.conn, 1001, "", 0)
  self.conn:close()
end

function Socket:__tostring() return ("websocket: %p"):format(self) end

-- The upgrade, at the server
-- -------------------------------------------------------------------------------------------------

local LIMITS = {
  protocols = rules.protocols,
  max_message = rules.count,
  max_frame = rules.count,
  keepalive = rules.span,
  timeout = rules.time,
}

-- Whether a field that is a list of words with commas has this one.
local function has_word(field, word)
  for each in (field or ""):gmatch "[^,]+" do
    if each:match("^%s*(.-)%s*$"):lower() == word then return true end
  end
  return false
end

-- The first of our protocols that the client names.
local function choose(offered, ours)
  for _, name in ipairs(ours or {}) do
    for each in (offered or ""):gmatch "[^,%s]+" do
      if each == name then return name end
    end
  end
end

-- What a server answers to a request: the fields of its head for the status 101; or nil, a status
-- and why. `headers` has the fields by names in small letters.
local function answer_to(method, headers, options)
  local key = headers["sec-websocket-key"]
  if method ~= "GET" then return nil, 405, "a WebSocket begins with GET" end
  if not has_word(headers.upgrade, "websocket") or not has_word(headers.connection, "upgrade") then
    return nil, 426, "this is a WebSocket: an upgrade is required"
  end
  if headers["sec-websocket-version"] ~= "13" then
    return nil, 426, "version 13 of WebSocket is required"
  end
  -- 16 bytes in base 64
  if not key or #key ~= 24 or not key:find "^[%w+/]+==$" then
    return nil, 400, "Sec-WebSocket-Key: 16 bytes in base 64 expected"
  end
  return {
    ["upgrade"] = "websocket",
    ["connection"] = "Upgrade",
    ["sec-websocket-accept"] = engine.accept(key),
    ["sec-websocket-protocol"] = choose(headers["sec-websocket-protocol"], options.protocols),
  }
end

-- For baton.http, and whoever else reads requests.
function web.upgrade(method, headers, options)
  options = core.check_options(2, 3, "upgrade", options or {}, LIMITS)
  return answer_to(method, headers, options)
end

-- The server's side of a connection, once the answer has been written.
function web.socket(conn, answer, options)
  options = core.check_options(2, 3, "socket", options or {}, LIMITS)
  return new(conn, true, options, answer["sec-websocket-protocol"])
end

-- The first line of a head, and its fields by names in small letters; or nil.
local function parse(head)
  local first, rest = head:match "^([^\r\n]*)\r\n(.*)$"
  local fields = {}
  if not first then return nil end
  for line in rest:gmatch "([^\r\n]*)\r\n" do
    if line == "" then return first, fields end
    local name, value = line:match "^([^:]*):[ \t]*(.-)[ \t]*$"
    if not name or not name:find(TOKEN) then return nil end
    name = name:lower()
    fields[name] = fields[name] and fields[name] .. ", " .. value or value
  end
end

local function lines_of(first, fields)
  local lines = { first }
  for name, value in pairs(fields) do
    lines[#lines + 1] = ("%s: %s"):format(name, value)
  end
  lines[#lines + 1] = "\r\n"
  return table.concat(lines, "\r\n")
end

local REASONS = { [400] = "Bad Request", [405] = "Method Not Allowed", [426] = "Upgrade Required" }

local function refuse_request(conn, status, why)
  local body = why .. "\n"
  conn:write(
    lines_of(("HTTP/1.1 %d %s"):format(status, REASONS[status]), {
      ["connection"] = "close",
      ["content-length"] = #body,
      ["content-type"] = "text/plain; charset=utf-8",
      ["sec-websocket-version"] = status == 426 and "13" or nil,
      ["upgrade"] = status == 426 and "websocket" or nil,
    }),
    body
  )
  conn:close()
  return nil, why
end

-- A server's side of a connection that speaks nothing but WebSocket. Reads the request.
function web.accept(conn, options)
  options = core.check_options(2, 2, "accept", options or {}, LIMITS)
  local head, why = engine.head(conn, MOST_HEAD, options.timeout or CONNECT_TIMEOUT)
  if not head then
    conn:close()
    return nil, why
  end
  local first, fields = parse(head)
  local method, path = (first or ""):match "^(%u+) (%S+) HTTP/1%.1$"
  if not method then return refuse_request(conn, 400, "a request of HTTP/1.1 expected") end
  local answer, status, refusal = answer_to(method, fields, options)
  if not answer then return refuse_request(conn, status, refusal) end
  local done
  done, why = conn:write(lines_of("HTTP/1.1 101 Switching Protocols", answer))
  if not done then return nil, why end
  local socket = new(conn, true, options, answer["sec-websocket-protocol"])
  socket.path, socket.headers = path, fields
  return socket
end

-- The upgrade, at the client
-- -------------------------------------------------------------------------------------------------

local CLIENT = {
  url = rules.text,
  headers = { function(value) return type(value) == "table" end, "table" },
  tls = {
    function(value) return value == true or type(value) == "table" end,
    "true or a table of options",
  },
}
for name, rule in pairs(LIMITS) do
  CLIENT[name] = rule
end

local OWN = { host = true, upgrade = true, connection = true }

local function add_headers(fields, headers)
  for name, value in pairs(headers or {}) do
    local is_ours = not tostring(name):find(TOKEN)
      or OWN[tostring(name):lower()]
      or tostring(name):lower():find "^sec%-websocket%-"
    if is_ours or tostring(value):find "%c" then
      refuse(3, 1, "connect", "option 'headers': the field '%s' cannot be sent", tostring(name))
    end
    fields[name] = tostring(value)
  end
end

-- Why the server's answer is no upgrade; or nil.
local function check_answer(first, answer, key, options)
  local status = (first or ""):match "^HTTP/1%.1 (%d%d%d)"
  if not status then return "the server's answer is no head of HTTP/1.1" end
  if status ~= "101" then return "the server refused the upgrade: " .. first, tonumber(status) end
  local protocol = answer["sec-websocket-protocol"]
  if
    not has_word(answer.upgrade, "websocket")
    or not has_word(answer.connection, "upgrade")
    or answer["sec-websocket-accept"] ~= engine.accept(key)
  then
    return "the server has not understood the upgrade"
  end
  if protocol and not choose(protocol, options.protocols) then
    return ("the server chose the protocol '%s', which was not offered"):format(protocol)
  end
  if answer["sec-websocket-extensions"] then
    return "the server uses an extension that was not offered"
  end
end

-- A client's side. Returns the socket; or nil, why, and the status if it was another one than 101.
function web.connect(options)
  if type(options) == "string" then options = { url = options } end
  core.check_options(2, 1, "connect", options, CLIENT)
  local scheme, host, path = (options.url or ""):match "^(wss?)://([^/?#]+)([^#]*)"
  if not scheme or host:find "[%c%s@]" or path:find "[%c%s]" then
    refuse(2, 1, "connect", "option 'url': ws://HOST/PATH or wss://HOST/PATH expected")
  end
  local timeout = options.timeout or CONNECT_TIMEOUT
  local is_secure = scheme == "wss"
  local key = engine.key()
  local fields = {
    ["host"] = host,
    ["upgrade"] = "websocket",
    ["connection"] = "Upgrade",
    ["sec-websocket-version"] = "13",
    ["sec-websocket-key"] = key,
    ["sec-websocket-protocol"] = options.protocols and table.concat(options.protocols, ", "),
  }
  add_headers(fields, options.headers)
  if not host:find ":%d+$" then host = host .. (is_secure and ":443" or ":80") end
  local tls = is_secure and (options.tls or true) or nil
  local conn, why = require "baton.net".connect(host, { timeout = timeout, tls = tls })
  if not conn then return nil, why end
  if path:sub(1, 1) ~= "/" then path = "/" .. path end
  local head, status, done
  done, why = conn:write(lines_of(("GET %s HTTP/1.1"):format(path), fields))
  if done then
    head, why = engine.head(conn, MOST_HEAD, timeout)
  end
  local first, answer = parse(head or "")
  if head then
    why, status = check_answer(first, answer, key, options)
  end
  if why then
    conn:close()
    return nil, why, status
  end
  local socket = new(conn, false, options, answer["sec-websocket-protocol"])
  socket.headers = answer
  return socket
end
