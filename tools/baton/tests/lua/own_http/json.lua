-- JSON in the bodies of requests and replies.
local check = require "check"
local net = require "baton.net"
local http = require "baton.http"
local json = require "baton.json"
local case = {}

-- Sends a body. Returns the status and the body of the reply, and its head.
local function post(server, body)
  local conn <close> = assert(net.connect(server:address(), { timeout = 20 })):timeout(20)
  local head = "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
  assert(conn:write(head:format(#body), body))
  local first, text = conn:read("all"):match "^(.-)\r\n\r\n(.*)$"
  return tonumber(first:match "^HTTP/1.1 (%d+) "), text, first
end

local function serve(handler, options)
  return assert(http.serve("127.0.0.1:0", handler, options))
end

function case.json_comes_and_goes_as_values()
  local server <close> = serve(function(req, res)
    local value = assert(req:json())
    if value.plain then return res:json { got = value.plain } end
    return res:json(201, { list = value.list, nothing = json.null }, { ["X-A"] = "b" })
  end)
  local status, text, head = post(server, '{"list":[1,2.5,"x"]}')
  check.equal(status, 201)
  check.matches(head, "\r\nContent%-Type: application/json\r\n")
  check.matches(head, "\r\nX%-A: b\r\n")
  check.equal(json.encode(json.decode(text).list), '[1,2.5,"x"]')
  check.equal(json.decode(text).nothing, json.null)
  status, text = post(server, '{"plain":"caf\\u00e9"}')
  check.equal(status, 200)
  check.equal(text, '{"got":"café"}')
end

function case.what_is_no_json_is_told_with_its_place()
  local server <close> = serve(function(req)
    local value, why = req:json()
    if value == nil then return 400, why end
    return 200, type(value)
  end)
  local deep = ("["):rep(100000)
  local bad = { "", "{", "[1,]", "nul", '{"a":1}}', deep, "\0", '"\xff', '{"a" 1}', "'x'" }
  for _, body in ipairs(bad) do
    local status, why = post(server, body)
    check.equal(status, 400, body:sub(1, 20))
    check.matches(why, "character %d+", body:sub(1, 20))
    check.that(not why:find "%.lua:", "no place in a file: " .. why)
  end
  for body, kind in pairs { ["false"] = "boolean", null = type(json.null) } do
    local status, text = post(server, body)
    check.equal(status, 200)
    check.equal(text, kind)
  end
end

function case.a_large_value_comes_and_goes_whole_and_a_larger_one_gives_413()
  local server <close> = serve(
    function(req, res) return res:json(assert(req:json())) end,
    { max_body = 1 << 20, on_error = function() end }
  )
  local list = {}
  for i = 1, 100000 do list[i] = i end
  local text = json.encode(list)
  local status, back = post(server, text)
  check.equal(status, 200)
  check.that(back == text)
  status = post(server, text .. (" "):rep((1 << 20) - #text))
  check.equal(status, 200)
  status = post(server, text .. (" "):rep((1 << 20) - #text + 1))
  check.equal(status, 413)
end

function case.a_value_that_json_does_not_have_gives_500()
  local message
  local server <close> = serve(
    function(_, res) return res:json { f = print } end,
    { on_error = function(text) message = text end }
  )
  local status, text = post(server, "")
  check.equal(status, 500)
  check.equal(text, "Internal Server Error")
  check.matches(message, "type not supported")
end

check.run(case)
