-- require "baton.web": TLS, WebSocket and HTTP/2 over connections of baton.net.
--
-- `engine` has functions in C (c/tls.c, c/websocket.c, c/http2.c), which wait by baton.net.
-- web/websocket.lua has the upgrade from HTTP and the methods of sockets, web/http2.lua the
-- connections of HTTP/2.

local engine = ...

local DEFAULT_TIMEOUT = 10 -- seconds for a handshake
local MOST_CONTEXTS = 64 -- that are kept for tables of options

local web = {}
local core = { engine = engine, web = web }

-- Checking
-- -------------------------------------------------------------------------------------------------

local function is_string(value) return type(value) == "string" end
local function is_boolean(value) return type(value) == "boolean" end
local function is_count(value) return math.type(value) == "integer" and value >= 1 end
local function is_time(value) return type(value) == "number" and value >= 0 end

local function is_span(value) return type(value) == "number" and value > 0 and value < 1e9 end

local function is_list_of(check)
  return function(value)
    if type(value) ~= "table" then return false end
    for key, each in next, value do
      if math.type(key) ~= "integer" or not check(each) then return false end
    end
    return #value >= 1
  end
end

local function is_text(value) return is_string(value) and value ~= "" and not value:find "%z" end
local function is_protocol(value) return is_string(value) and #value >= 1 and #value <= 255 end

local function is_certificate(value)
  if type(value) ~= "table" then return false end
  for key in next, value do
    if key ~= "cert" and key ~= "key" then return false end
  end
  return is_text(value.cert) and is_text(value.key)
end

-- Rules for options: a check, and what it expects.
core.rules = {
  boolean = { is_boolean, "boolean" },
  string = { is_string, "string" },
  text = { is_text, "string" },
  time = { is_time, "number of seconds, not negative," },
  span = { is_span, "positive number of seconds" },
  count = { is_count, "positive integer" },
  pem = { is_text, "name of a file, or a text in PEM," },
  certificates = { is_list_of(is_certificate), "list of tables { cert =, key = }" },
  protocols = { is_list_of(is_protocol), "list of strings" },
  verify = {
    function(value) return is_boolean(value) or value == "optional" end,
    'boolean or "optional"',
  },
}
local rules = core.rules

function core.refuse(level, number, name, text, ...)
  engine.refuse(level + 1, number, name, text:format(...))
end
local refuse = core.refuse

function core.check_options(level, number, call, given, known)
  if type(given) ~= "table" then
    refuse(level + 1, number, call, "table expected, got %s", type(given))
  end
  for key, value in next, given do
    local rule = known[key]
    if not rule then refuse(level + 1, number, call, "unknown option '%s'", tostring(key)) end
    if not rule[1](value) then
      local came = type(value) == "table" and "table" or tostring(value)
      refuse(level + 1, number, call, "option '%s': %s expected, got %s", key, rule[2], came)
    end
  end
  return given
end

-- TLS
-- -------------------------------------------------------------------------------------------------

local KNOWN = {
  cert = rules.pem,
  key = rules.pem,
  certs = rules.certificates,
  ca = rules.pem,
  name = rules.string,
  alpn = rules.protocols,
  verify = rules.verify,
  server = rules.boolean,
  timeout = rules.time,
}
local VERIFY = { [false] = 0, optional = 1, [true] = 2 }

local methods = {}
local Context = { __name = "TLS context", __index = methods }

-- The context of what the engine has made. A copy of a context's fields is as good as the context:
-- net.connect adds a name to a copy.
local made = setmetatable({}, { __mode = "kv" })

local function all_certificates(options)
  local certs = { options.cert, options.key }
  for _, each in ipairs(options.certs or {}) do
    certs[#certs + 1] = each.cert
    certs[#certs + 1] = each.key
  end
  return certs
end

local function make_context(level, number, call, options)
  core.check_options(level + 1, number, call, options, KNOWN)
  if (options.cert == nil) ~= (options.key == nil) then
    refuse(level + 1, number, call, "options 'cert' and 'key' expected together")
  end
  local verify = options.verify
  if verify == nil then verify = true end
  local context = setmetatable({
    made = engine.context {
      certs = all_certificates(options),
      ca = options.ca,
      alpn = options.alpn,
      verify = VERIFY[verify],
    },
    server = options.server,
    name = options.name,
    timeout = options.timeout,
    has_certificate = options.cert ~= nil or options.certs ~= nil,
  }, Context)
  made[context.made] = context
  return context
end

-- Contexts of tables that were used, by what is in them. Connections with equal tables share what
-- was read for these, and resume each other's sessions.
local contexts, count = {}, 0

-- What of the options decides about a context, as one text.
local function text_of(options)
  local parts = all_certificates(options)
  parts[#parts + 1] = options.ca or ""
  parts[#parts + 1] = tostring(options.verify)
  for _, name in ipairs(options.alpn or {}) do
    parts[#parts + 1] = name
  end
  for i, part in ipairs(parts) do
    parts[i] = ("%d:%s"):format(#part, part)
  end
  return table.concat(parts)
end

local function context_of(level, call, options)
  if type(options) == "table" and made[rawget(options, "made") or false] then
    return made[options.made]
  end
  core.check_options(level + 1, 2, call, options, KNOWN)
  local text = text_of(options)
  local context = contexts[text]
  if not context then
    context = make_context(level + 1, 2, call, options)
    if count >= MOST_CONTEXTS then
      contexts, count = {}, 0
    end
    contexts[text], count = context, count + 1
  end
  return context
end

-- The options, read once, for any number of connections.
function web.context(options) return make_context(2, 1, "context", options) end

-- Reads all files again, for connections that begin from now on.
function methods:reload()
  if getmetatable(self) ~= Context then
    refuse(2, 0, ":reload", "TLS context expected, got %s", type(self))
  end
  return engine.reload(self.made)
end

-- Begins TLS on a connection. `known` is what the caller knows of it: `name`, `server`, `timeout`.
function web.tls(conn, options, known)
  if options == nil or options == true then options = {} end
  local context = context_of(2, "tls", options)
  known = known or {}
  local name, is_server = options.name or known.name, known.server
  if name == "" then name = nil end
  if is_server == nil then is_server = options.server end
  if is_server == nil then is_server = not name and context.has_certificate end
  if not is_server and not name then
    refuse(2, 2, "tls", "option 'name' expected for a client, or 'cert' and 'key' for a server")
  end
  local timeout = options.timeout or known.timeout or DEFAULT_TIMEOUT
  local is_ready, why = engine.prepare(context.made, is_server)
  if not is_ready then
    conn:close()
    return nil, why
  end
  return engine.begin(conn, context.made, is_server, name or "", timeout)
end

-- What is known of a connection's TLS.
function web.facts(conn) return engine.facts(conn) end

-- What serves connections of HTTP/2 for baton.http, whose parts use the table `http`. It is no part
-- of the module's interface, so it is not among its fields.
local http2

local function for_http(http)
  http2 = http2 or engine.source "web/http2"(engine, http)
  return http2
end

engine.source "web/websocket"(core)
return setmetatable(web, { __index = { http2 = for_http } })
