-- A server of baton.http whose handlers compute.
local check = require "check"
local process = require "baton.process"
local net = require "baton.net"
local http = require "baton.http"
local case = {}

local GET = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
local TRIES = 20

-- The time of ten requests.
local function time_of_requests(server)
  local conn <close> = assert(net.connect(server:address(), { timeout = 20 })):timeout(20)
  local begun = process.now()
  for _ = 1, 10 do
    conn:write(GET)
    check.matches(conn:read "line", " 200 ")
    repeat local line = conn:read "line" until line == ""
    check.equal(conn:read(4), "fine")
  end
  return process.now() - begun
end

-- Beside processes of equal priority that compute, each wait costs two slices. Beside handlers it
-- does not. A busy machine may hold up either, so the test tries again.
function case.handlers_that_compute_hold_up_no_request()
  local stop, spinning = false, 0
  local function spin()
    spinning = spinning + 1
    while not stop do end
    spinning = spinning - 1
  end
  local server <close> = http.serve("127.0.0.1:0", function(req)
    if req.path == "/spin" then spin() end
    return 200, "fine"
  end)
  process.params.slice = 0.02
  for _ = 1, TRIES do
    stop = false
    for _ = 1, 2 do process.spawn(spin) end
    local beside_equals = time_of_requests(server)
    stop = true
    check.eventually("the end of both", function() return spinning == 0 end)
    stop = false
    for _ = 1, 2 do
      net.connect(server:address()):write "GET /spin HTTP/1.1\r\nHost: a\r\n\r\n"
    end
    check.eventually("handlers", function() return spinning == 2 end)
    local beside_handlers = time_of_requests(server)
    stop = true
    check.eventually("the end of both", function() return spinning == 0 end)
    if beside_handlers < beside_equals / 2 then return end
  end
  error "requests wait for handlers that compute"
end

check.run(case)
