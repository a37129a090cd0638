-- The client of baton.http. Heads and bodies of replies are read in C (c/http/answers.c).
local core = ...
local process = require "baton.process"
local net = require "baton.net"

local client = {}
local read_answer = core.answer

local addresses, pools = core.part("http_addresses", core), core.part("http_pool", core)
local give, take = pools.give, pools.take
local shared = pools.new()

-- Options
-- -------------------------------------------------------------------------------------------------

local function is_count(value) return math.type(value) == "integer" and value >= 0 end
local function is_span(value) return type(value) == "number" and value > 0 end

local function check_options(what, given, rules)
  for name, value in pairs(given) do
    local rule = rules[name]
    if not rule then error(("%s: unknown option '%s'"):format(what, tostring(name)), 3) end
    if not rule[1](value) then
      local text = "%s: option '%s': %s expected, got %s"
      error(text:format(what, name, rule[2], tostring(value)), 3)
    end
  end
end

local POOL = {
  size = { is_count, "number of connections" },
  per_host = { function(value) return is_count(value) and value > 0 end, "positive integer" },
  idle_timeout = { is_span, "positive number of seconds" },
}

-- http.pool(options)
function client.pool(options)
  check_options("http.pool", options or {}, POOL)
  return pools.new(options)
end

-- Replies
-- -------------------------------------------------------------------------------------------------

local Response = {}
Response.__index = Response
Response.__name = "baton.http response"
Response.__close = function(response) response:close() end

-- Closes the connection of a process that is killed while it reads.
local Guard = {
  __close = function(guard)
    if guard.is_reading then guard.conn:close() end
  end,
}

-- Gives the connection back if the body has ended.
local function settle(response)
  local has_ended, is_reusable = response.answer:state()
  if not has_ended or response.is_done then return end
  response.is_done = true
  if is_reusable then
    give(response.pool, response.key, response.conn)
  else
    response.conn:close()
  end
end

-- Reads a part, and waits at most so many seconds.
local function read(response, size, seconds)
  if response.is_done then
    if response.answer:state() then return nil end
    return nil, "closed"
  end
  local guard <close> = response.guard
  guard.is_reading = true
  local part, why = response.answer:read(size, seconds)
  guard.is_reading = false
  if not part then
    if why and why ~= "timeout" then
      response:close()
    else
      settle(response)
    end
  end
  return part, why
end

-- res:read([size]): the next part of the body; nil at its end.
function Response:read(size) return read(self, size or 65536, self.timeout) end

-- res:body([max]): all of the body. A second call returns it again.
function Response:body(max)
  if self.text then return self.text end
  max = max or 64 << 20
  local deadline = process.now() + self.timeout
  local wholes, parts, all = {}, {}, 0
  if (self.answer:length() or 0) > max then
    self:close()
    return nil, "too large"
  end
  while true do
    local part, why = read(self, 1 << 20, math.max(0, deadline - process.now()))
    if why then
      self:close()
      return nil, why
    end
    if not part then break end
    all = all + #part
    if all > max then
      self:close()
      return nil, "too large"
    end
    parts[#parts + 1] = part
    if #parts == 1024 then -- a peer may send byte by byte
      wholes[#wholes + 1], parts = table.concat(parts), {}
    end
  end
  self.text = table.concat(wholes) .. table.concat(parts)
  return self.text
end

-- res:json([max]): the value that the body has as JSON.
function Response:json(max)
  local body, why = self:body(max)
  if not body then return nil, why end
  local is_valid, decoded = pcall(require("baton.json").decode, body)
  if not is_valid then return nil, decoded end
  return decoded
end

-- Ends the reply. What has not come of the body is not read: the connection is closed then.
function Response:close()
  if self.is_done then return end
  settle(self)
  if self.is_done then return end
  self.is_done = true
  self.conn:close()
end

-- Requests
-- -------------------------------------------------------------------------------------------------

local TOKEN = "^[%w!#$%%&'*+%-.^_`|~]+$"
local IDEMPOTENT = {
  GET = true, HEAD = true, PUT = true, DELETE = true, OPTIONS = true, TRACE = true,
}
local WITH_LENGTH = { POST = true, PUT = true, PATCH = true } -- also if the body is empty
local OWN = { ["content-length"] = true, ["transfer-encoding"] = true, expect = true }

local function is_file(value) return io and io.type(value) == "file" end

local function is_body(value)
  return type(value) == "string" or type(value) == "function" or is_file(value)
end

local function is_pool(value) return value == false or pools.is_pool(value) end
local function is_table(value) return type(value) == "table" end

local OPTIONS = {
  url = { function(value) return type(value) == "string" end, "string" },
  method = {
    function(value) return type(value) == "string" and value:find(TOKEN) ~= nil end,
    "name of a method",
  },
  headers = { is_table, "table" },
  body = { is_body, "string, function or open file" },
  timeout = { is_span, "positive number of seconds" },
  redirects = { is_count, "number of redirects" },
  retries = { is_count, "number of retries" },
  max_header = { function(value) return is_count(value) and value >= 256 end, "number of bytes" },
  pool = { is_pool, "pool of http.pool or false" },
  tls = { is_table, "table of options" },
}

local function add_field(lines, name, value)
  local is_text = type(value) == "string" or type(value) == "number"
  if not is_text or tostring(value):find "[%z\1-\8\10-\31\127]" then
    error(("http.request: field '%s': a line of text expected"):format(name), 4)
  end
  lines[#lines + 1] = name .. ": " .. value
end

-- The lines of the program's fields, and a set of their names.
local function fields_of(headers)
  local lines, names = {}, {}
  for name, value in pairs(headers or {}) do
    if type(name) ~= "string" or not name:find(TOKEN) then
      error(("http.request: '%s' cannot be the name of a field"):format(tostring(name)), 3)
    end
    local small = name:lower()
    if OWN[small] then
      error(("http.request: field '%s': the client sets it itself"):format(name), 3)
    end
    names[small] = true
    for _, one in ipairs(is_table(value) and value or { value }) do
      add_field(lines, name, one)
    end
  end
  return lines, names
end

-- Bytes of the body; nil if that is not known.
local function length_of(request)
  local body = request.body
  if type(body) == "string" then return #body end
  if body == nil then return WITH_LENGTH[request.method] and 0 or nil end
  if type(body) == "function" then return nil end
  request.start = request.start or body:seek "cur"
  local last = request.start and body:seek "end"
  if last then body:seek("set", request.start) end
  return last and math.max(0, last - request.start)
end

local function can_send_again(request)
  local body = request.body
  return body == nil or type(body) == "string" or is_file(body) and request.start ~= nil
end

local function head_of(request, place, length)
  local lines, names = fields_of(request.headers)
  table.insert(lines, 1, ("%s %s HTTP/1.1"):format(request.method, place.target))
  if not names.host then table.insert(lines, 2, "Host: " .. place.named) end
  if not names["user-agent"] then lines[#lines + 1] = "User-Agent: baton" end
  if length then
    lines[#lines + 1] = "Content-Length: " .. length
  elseif request.body then
    lines[#lines + 1] = "Transfer-Encoding: chunked"
  end
  lines[#lines + 1] = "\r\n"
  return table.concat(lines, "\r\n")
end

local PIECE = 256 * 1024

-- Sends a file of this length, or in chunks what `next_part` returns.
local function send_parts(conn, next_part, length)
  local left = length or math.huge
  while left > 0 do
    local part = next_part(math.min(PIECE, left))
    if part == nil then break end
    if type(part) ~= "string" then
      error(("http.request: body: string or nil expected, got %s"):format(type(part)), 0)
    end
    local done, why = true, nil
    if length then
      done, why = conn:write(part)
      left = left - #part
    elseif part ~= "" then
      done, why = conn:write(("%x\r\n"):format(#part), part, "\r\n")
    end
    if not done then return nil, why end
  end
  if length and left > 0 then error("http.request: body: the file became shorter", 0) end
  if not length then return conn:write "0\r\n\r\n" end
  return true
end

local function send(conn, request, place)
  local length, body = length_of(request), request.body
  local head = head_of(request, place, length)
  if body == nil then return conn:write(head) end
  if type(body) == "function" then
    local done, why = conn:write(head)
    if not done then return nil, why end
    return send_parts(conn, body)
  end
  if is_file(body) then
    local done, why = conn:write(head)
    if not done then return nil, why end
    return send_parts(conn, function(size) return body:read(size) end, length)
  end
  local done, why = conn:write(head, body:sub(1, PIECE))
  for at = PIECE + 1, done and #body or 0, PIECE do
    done, why = conn:write(body:sub(at, at + PIECE - 1))
    if not done then break end
  end
  return done, why
end

local function connect(request, place)
  local tls = place.scheme == "https" and (request.tls or true) or nil
  return net.connect(place.address, { timeout = request.timeout, tls = tls })
end

-- What a process that is killed meanwhile leaves is closed.
local Held = {
  __close = function(held)
    if held.conn then held.conn:close() end
  end,
}

-- Why there is no head, though something of a reply has come.
local HAS_BEGUN = { malformed = true, ["too large"] = true, ["cut off"] = true }

-- One try. Returns a response; or nil, why, and whether nothing of a reply has come.
local function try(request, place, conn)
  local held <close> = setmetatable({ conn = conn }, Held)
  if not conn then
    local why
    conn, why = connect(request, place)
    if not conn then return nil, why, true end
    held.conn = conn
  end
  conn:timeout(request.timeout)
  local sent, why = send(conn, request, place)
  if not sent and why == "timeout" then return nil, why end
  -- a server that refuses a long body may have said why
  local answer, status, headers, cookies, version =
    read_answer(conn, request.method == "HEAD", request.max_header, request.timeout)
  if not answer then
    why = sent and status or why
    return nil, why, not HAS_BEGUN[status]
  end
  held.conn = nil
  local response = setmetatable({
    status = status,
    headers = headers,
    set_cookies = cookies,
    version = version,
    url = place.origin .. place.target,
    answer = answer,
    conn = conn,
    guard = setmetatable({ conn = conn, is_reading = false }, Guard),
    key = place.key,
    pool = sent and request.pool, -- without the whole request, no other one can follow
    timeout = request.timeout,
  }, Response)
  settle(response)
  return response
end

-- Tries until there is a response, or trying again would not help.
local function exchange(request, place)
  local left = request.retries
  local pause = 0.1
  while true do
    local conn = take(request.pool, place.key)
    local response, why, is_harmless = try(request, place, conn)
    if response then return response end
    local may = is_harmless and why ~= "timeout" and IDEMPOTENT[request.method]
    if not may or not can_send_again(request) then return nil, why end
    if not conn then -- a stale connection is no fault of the server: it is not counted
      if left <= 0 then return nil, why end
      left = left - 1
      process.sleep(pause)
      pause = math.min(2 * pause, 2)
    end
    if request.start then request.body:seek("set", request.start) end
  end
end

-- Redirects
-- -------------------------------------------------------------------------------------------------

local REDIRECTS = { [301] = true, [302] = true, [303] = true, [307] = true, [308] = true }
local SECRET = { authorization = true, cookie = true, ["proxy-authorization"] = true, host = true }

local function without(headers, is_left_out)
  local kept = {}
  for name, value in pairs(headers or {}) do
    if not is_left_out(tostring(name):lower()) then kept[name] = value end
  end
  return kept
end

-- Changes the request to the one that the response asks for. Returns its place; or nil and why, or
-- nil if the response is the result.
local function redirected(request, place, response)
  local location = response.headers.location
  if not REDIRECTS[response.status] or not location then return nil end
  if request.redirects == 0 then return nil, request.follows and "too many redirects" or nil end
  local becomes_get = response.status == 303 and request.method ~= "HEAD"
    or response.status < 303 and request.method == "POST"
  if not becomes_get and not can_send_again(request) then return nil end
  local other, why = addresses.parse(addresses.resolve(place, location))
  if not other then return nil, "redirect to a wrong address: " .. why end
  if place.scheme == "https" and other.scheme == "http" then
    return nil, "redirect from https to http"
  end
  if becomes_get then
    request.method, request.body, request.start = "GET", nil, nil
    request.headers = without(request.headers, function(name) return name:find "^content%-" end)
  end
  if other.origin ~= place.origin then
    request.headers = without(request.headers, function(name) return SECRET[name] end)
  end
  if request.start then request.body:seek("set", request.start) end
  request.redirects = request.redirects - 1
  return other
end

-- http.request(options or url)
function client.request(options)
  if type(options) == "string" then options = { url = options } end
  if type(options) ~= "table" then
    error(("http.request: table or address expected, got %s"):format(type(options)), 2)
  end
  check_options("http.request", options, OPTIONS)
  local place, why = addresses.parse(options.url or "")
  if not place then error(("http.request: option 'url': %s"):format(why), 2) end
  fields_of(options.headers) -- raises what is wrong before anything is sent
  local request = {
    method = (options.method or options.body and "POST" or "GET"):upper(),
    headers = options.headers,
    body = options.body,
    timeout = options.timeout or 30,
    redirects = options.redirects or 10,
    follows = options.redirects ~= 0,
    retries = options.retries or 0,
    max_header = options.max_header or 65536,
    pool = options.pool == nil and shared or options.pool,
    tls = options.tls,
  }
  while true do
    -- connections with other options of TLS are others
    place.key = request.tls and ("%s %p"):format(place.origin, request.tls) or place.origin
    local response, next_place
    response, why = exchange(request, place)
    if not response then return nil, why end
    next_place, why = redirected(request, place, response)
    if not next_place then
      if not why then return response end
      response:close()
      return nil, why
    end
    if (response.answer:length() or math.huge) <= 4096 then response:body(4096) end
    response:close()
    place = next_place
  end
end

local function merged(options, more)
  for name, value in pairs(options or {}) do
    if more[name] == nil then more[name] = value end
  end
  return more
end

-- http.get(url, [options])
function client.get(url, options)
  return client.request(merged(options, { url = url, method = "GET" }))
end

-- http.post(url, body, [options])
function client.post(url, body, options)
  return client.request(merged(options, { url = url, method = "POST", body = body }))
end

return client
