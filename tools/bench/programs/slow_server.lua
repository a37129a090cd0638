-- The slow server: `slow_server.lua`. It prints its port, and ends when its standard input ends.
-- The first line of a connection is the request. `GET ...` returns a page after one second. `beat
-- N` returns a line with the time every N milliseconds.
local process = require "baton.process"
local socket = require "socket"

local server = assert(socket.bind("127.0.0.1", 0, 4096))

local function page(client)
  repeat local line = client:receive() until line == "" or line == nil
  process.sleep(1)
  client:send "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok"
  client:close()
end

local function beat(client, period)
  client:setoption("tcp-nodelay", true)
  local due = process.now()
  repeat
    due = due + period
    process.sleep_until(due)
  until not client:send(("%.9f\n"):format(process.now()))
end

process.spawn({ daemon = true }, function()
  while true do
    local client = assert(server:accept())
    process.spawn({ daemon = true }, function()
      local wish = client:receive() or ""
      local period = wish:match "^beat (%d+)"
      if period then beat(client, period / 1000)
      elseif wish ~= "" then page(client) end
    end)
  end
end)

io.stdout:setvbuf "no"
print("port " .. select(2, server:getsockname()))
io.read "a"
os.exit(0)
