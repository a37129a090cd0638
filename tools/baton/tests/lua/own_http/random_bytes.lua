-- Random and mutated bytes for the server and the client of baton.http, in a simulated run: nobody
-- fails, nobody hangs, and the server still answers what is right.
--
--   random_bytes.lua make FIRST LAST FILE   makes the inputs of these numbers, and tries each. FILE
--                                           has the input that is being tried
--   random_bytes.lua try FILE               tries the input of a file
--
-- A file has the kind of the input on its first line, `request` or `reply`, and then its bytes.
-- `cargo xtask fuzz http` runs this.
local http = require "baton.http"
local net = require "baton.net"
local process = require "baton.process"
local random, char = math.random, string.char

-- Making inputs
-- -------------------------------------------------------------------------------------------------

local LINE = "\r\n"
local function lines(...) return table.concat({ ... }, LINE) .. LINE end

local TEXTS = {
  request = {
    lines("GET /a/b%20c?d=e&f HTTP/1.1", "Host: a.example:80", "X: y", "Accept: */*", ""),
    lines("POST / HTTP/1.1", "Host: a", "Content-Length: 5", "Expect: 100-continue", "", "hello"),
    lines("PUT /x HTTP/1.1", "Host: a", "Transfer-Encoding: chunked", "", "5", "hello", "0", ""),
    lines("POST /json HTTP/1.1", "Host: a", "Content-Length: 16", "", '{"a": [1, null]}'),
    lines("HEAD http://b.example/?q HTTP/1.1", "Host: [::1]", "Connection: close", ""),
    lines("GET / HTTP/1.0", "Connection: keep-alive", "") .. lines("GET /2 HTTP/1.0", ""),
    lines("OPTIONS * HTTP/1.1", "Host: a", "X: " .. ("z"):rep(300), ""),
  },
  reply = {
    lines("HTTP/1.1 200 OK", "Content-Length: 5", "Set-Cookie: a=b", "", "hello"),
    lines("HTTP/1.1 200 OK", "Transfer-Encoding: chunked", "", "5;x=y", "hello", "0", "T: u", ""),
    lines("HTTP/1.1 301 Moved", "Location: /other?a#b", "Content-Length: 0", ""),
    lines("HTTP/1.0 302 Found", "Location: //127.0.0.1:81/..", ""),
    lines("HTTP/1.1 100 Continue", "") .. lines("HTTP/1.1 204 No Content", ""),
    lines("HTTP/1.0 404 Not Found", "") .. "until the end",
    lines("HTTP/1.1 200 OK", "Content-Length: 7", "", '{"a":1}'),
  },
}

local WORDS = {
  request = {
    "GET ", "POST ", "HEAD ", "/", "?", "%", "%41", "a", "=", "&", " HTTP/1.1\r\n", "\r\n", "\n",
    "Host: a\r\n", "Content-Length: ", "1", "0", "-", "Transfer-Encoding: chunked\r\n", ": ",
    "Connection: close\r\n", "Expect: 100-continue\r\n", "\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: a\r\n",
  },
  reply = {
    "HTTP/1.1 ", "HTTP/1.0 ", "200", "204", "301", "99", " OK\r\n", "\r\n", "\n", ": ", "1", "0",
    ";",
    "Content-Length: ", "Transfer-Encoding: chunked\r\n", "Location: ", "http://", "//", "/", "?",
    "#", "[", "127.0.0.1", ":", "Connection: keep-alive\r\n", "Set-Cookie: ", "\r\n\r\n",
  },
}

local function one_of(list) return list[random(#list)] end

local function from_words(words)
  local parts = {}
  for i = 1, random(0, 30) do
    parts[i] = random(20) == 1 and char(random(0, 255)) or one_of(words)
  end
  return table.concat(parts)
end

-- A valid text with a few changes.
local function mutated(texts)
  local text = one_of(texts)
  for _ = 1, random(4) do
    local at = random(0, #text)
    local last = math.min(at + random(0, 8), #text)
    local before, part, rest = text:sub(1, at), text:sub(at + 1, last), text:sub(last + 1)
    local how = random(5)
    if how == 1 then
      part = ""
    elseif how == 2 then
      part = char(random(0, 255)) .. part
    elseif how == 3 and part ~= "" then
      part = char(part:byte() ~ (1 << random(0, 7))) .. part:sub(2)
    elseif how == 4 then
      part = part:rep(random(3))
    else
      local other = one_of(texts)
      local from = random(#other)
      part = part .. other:sub(from, from + random(0, 20))
    end
    text = before .. part .. rest
  end
  return text
end

-- The kind and the bytes of the input of a number, which are always the same.
local function input_of(number)
  math.randomseed(number, 7)
  local kind = one_of { "request", "reply" }
  local make = random(3) == 1 and from_words or mutated
  return kind, make(make == mutated and TEXTS[kind] or WORDS[kind])
end

-- The server
-- -------------------------------------------------------------------------------------------------

local failures = {}

-- What handlers do, by the bytes of the target.
local handlers = {
  function(req) return 200, (req:body()) or "none" end,
  function(req)
    local value, why = req:json()
    return 200, type(value) .. tostring(why)
  end,
  function(req, res)
    local stream = res:stream(200)
    repeat
      local part = req:read(3)
    until not part or not stream or not stream:write(part)
  end,
  function(req) return 200, req.path, { ["X-Echo"] = req:header "x" or "none" } end,
  function(req, res)
    for name, value in pairs(req.query) do assert(#name >= 0 and #value >= 0) end
    for name, value in pairs(req.headers) do assert(name == name:lower() and #value >= 0) end
    res:set("X-Host", req.host)
    return res:json { req.method, req.version }
  end,
  function() return 200, ("x"):rep(100000) end,
  function() return 204 end,
}

local function sum_of(text)
  local sum = 0
  for place = 1, #text do sum = sum + text:byte(place) end
  return sum
end

local function handle(req, res)
  for name, value in pairs(req.params) do assert(#name > 0 and #value > 0) end
  return handlers[sum_of(req.target) % #handlers + 1](req, res)
end

local router = http.router()
router:get("/right", function() return 200, "right" end)
for _, pattern in ipairs { "/", "/:one", "/a/*rest", "/:one/:two" } do
  router:any(pattern, handle)
end

local server = assert(http.serve("127.0.0.1:80", router, {
  on_error = function(message) failures[#failures + 1] = message end,
}))

-- Trying inputs
-- -------------------------------------------------------------------------------------------------

local LIMIT = 300 -- virtual seconds: more than all limits of server and client together

local try = {}

function try.request(bytes)
  local conn <close> = assert(net.connect "127.0.0.1:80")
  conn:timeout(LIMIT)
  local writer = process.spawn({ quiet = true }, function()
    conn:write(bytes)
    if #bytes % 2 == 0 then conn:shutdown() end
  end)
  local replies, why = conn:read("all", LIMIT)
  assert(why ~= "timeout", "the server does not end the connection")
  writer:join()
  if replies and replies ~= "" then
    local status = replies:match "^HTTP/1%.1 (%d%d%d) [^\r\n]*\r\n"
    assert(status and status ~= "500", "a wrong reply: " .. replies:sub(1, 200))
  end
  assert(#failures == 0, failures[1])
end

-- Sends these bytes to whoever asks.
local function answer_with(listener, bytes)
  for conn in function() return listener:accept() end do
    process.spawn({ daemon = true, quiet = true }, function()
      local _ <close> = conn
      repeat
        local line = conn:read("line", LIMIT)
      until not line or line == ""
      conn:write(bytes)
      if #bytes % 3 > 0 then conn:read("all", LIMIT) end
    end)
  end
end

function try.reply(bytes)
  local listener <close> = assert(net.listen "127.0.0.1:81")
  local answering = process.spawn({ quiet = true }, answer_with, listener, bytes)
  local began = process.now()
  local res, why = http.request {
    url = "http://127.0.0.1:81/a",
    method = #bytes % 5 == 0 and "HEAD" or "GET",
    timeout = 5,
    redirects = 3,
    pool = false,
  }
  if res then
    local _ <close> = res
    assert(res.status >= 100 and res.status <= 999)
    for name, value in pairs(res.headers) do assert(name == name:lower() and #value >= 0) end
    local body, why_not = res:body(10000)
    assert(body or type(why_not) == "string")
  else
    assert(type(why) == "string")
  end
  assert(process.now() - began < LIMIT, "the client does not give up")
  listener:close()
  answering:join()
end

local function is_answered()
  local res = assert(http.get("http://127.0.0.1:80/right", { pool = false }))
  assert(res:body() == "right")
end

local function try_one(kind, bytes)
  net.simulated { delay = 0.001, piece = 1 + #bytes % 11 }
  local is_right, why = xpcall(try[kind], debug.traceback, bytes)
  -- The module for TLS is a file of its own, and may not be there.
  if not is_right and not tostring(why):find("baton.web", 1, true) then error(why, 0) end
  is_answered()
end

local function read(path)
  local file <close> = assert(io.open(path, "rb"))
  local kind, bytes = file:read("a"):match "^(%a+)\n(.*)$"
  assert(try[kind], "the file begins with no kind of input")
  return kind, bytes
end

local function write(path, kind, bytes)
  local file <close> = assert(io.open(path, "wb"))
  file:write(kind, "\n", bytes)
end

if arg[1] == "try" then
  try_one(read(arg[2]))
else
  for number = assert(math.tointeger(arg[2])), assert(math.tointeger(arg[3])) do
    local kind, bytes = input_of(number)
    write(arg[4], kind, bytes)
    try_one(kind, bytes)
  end
end
process.sleep(LIMIT)
local stats = server:stats()
assert(stats.connections == 0 and stats.handlers == 0, "connections are left over")
assert(server:stop(0) == 0)
