-- A service with a fault: it looks how many are left, notes the order, which takes a moment, and
-- then takes one away. Clients buy until it is sold out. arg[1]: "net" or "socket".
local process = require "baton.process"
local net = require "baton.net"

net.simulated { delay = 0.01, piece = 8 }

local left, sold = 3, 0

local function buy(write)
  if left == 0 then return write "sold out\n" end
  process.sleep(0.0002)
  left = left - 1
  write "yours\n"
end

local serve, ask = {}, {}

function serve.net()
  local listener = assert(net.listen "127.0.0.1:8080")
  while true do
    local conn = assert(listener:accept())
    process.spawn({ daemon = true }, function()
      for _ in conn:lines() do buy(function(text) conn:write(text) end) end
    end)
  end
end

function ask.net()
  local conn <close> = assert(net.connect "127.0.0.1:8080")
  conn:write "buy\n"
  return conn:read()
end

function serve.socket()
  local server = assert(require("socket").bind("127.0.0.1", 8080))
  while true do
    local client = assert(server:accept())
    process.spawn({ daemon = true }, function()
      while client:receive() do buy(function(text) client:send(text) end) end
    end)
  end
end

function ask.socket()
  local client = assert(require("socket").connect("127.0.0.1", 8080))
  client:send "buy\n"
  local answer = client:receive()
  client:close()
  return answer
end

if arg[1] == "socket" then require "socket" end
process.spawn({ daemon = true }, serve[arg[1]])
process.sleep(0.1)
local all = {}
for i = 1, 5 do
  all[i] = process.spawn(function()
    local answer = ask[arg[1]]()
    print(i, answer, process.now())
    if answer == "yours" then sold = sold + 1 end
  end)
end
for i = 1, 5 do assert(all[i]:join()) end
assert(sold <= 3, "sold " .. sold .. " of 3")
