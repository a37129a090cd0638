-- luaevent: a loop with timers, sockets, buffered connections and callbacks that fail.
local core = require "luaevent.core"
local socket = require "socket"

local function timers(t)
  local base, log, events = core.new(), {}, {}
  for _, ms in ipairs { 300, 5, 100 } do
    events[ms] = base:addevent(nil, core.EV_TIMEOUT, function()
      log[#log + 1] = ms
      return core.LEAVE
    end, ms / 1000)
  end
  local ticks = 0
  events.ticker = base:addevent(nil, core.EV_TIMEOUT, function()
    ticks = ticks + 1
    return ticks < 5 and core.EV_TIMEOUT or core.LEAVE
  end, 0.001)
  base:loop()
  t.say(table.concat(log, " "), ticks)
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

local function sockets(t)
  local base = core.new()
  local client, server = connected()
  local lines, events = {}, {}
  events[1] = base:addevent(server, core.EV_READ, function()
    while true do
      local line, why = server:receive()
      if why == "closed" then return core.LEAVE end
      if why then return core.EV_READ end
      lines[#lines + 1] = line
      server:send(line:upper() .. "\n")
    end
  end)
  local sent, answers = 0, 0
  events[2] = base:addevent(client, core.EV_READ, function()
    while client:receive() do answers = answers + 1 end
    if answers < 100 then return core.EV_READ end
    client:close()
    return core.LEAVE
  end, 5)
  events[3] = base:addevent(client, core.EV_WRITE, function()
    sent = sent + 1
    client:send("line " .. sent .. "\n")
    return sent < 100 and core.EV_WRITE or core.LEAVE
  end)
  base:loop()
  server:close()
  t.say(#lines, lines[100], answers)
end

local function buffers(t)
  local one, other = core.buffer.new(), core.buffer.new()
  one:add("first line\nsecond ", "line\nrest")
  t.say(one:length(), one:readline(), one:get_data(6), one:get_data(-4, 4))
  other:add(one)
  t.say(one:length(), other:length(), other:get_data())
  other:drain(4)
  t.say(other:length())
end

local function failures(t)
  local base = core.new()
  local failing = base:addevent(
    nil,
    core.EV_TIMEOUT,
    function() error("from a callback", 0) end,
    0.001
  )
  local ok, message = pcall(base.loop, base)
  t.say(ok, message:match "^[^\n]*", failing ~= nil)
  local ended = core.new()
  local timer = ended:addevent(nil, core.EV_TIMEOUT, function()
    ended:loopexit()
    return core.EV_TIMEOUT
  end, 0.001)
  ended:loop()
  t.say("ended", timer ~= nil)
end

-- libevent's old interface, which the module uses, adds an event again to the base that was made
-- last. So the copies run one at a time. An event lives as long as the value that `addevent`
-- returned.
return function(t)
  t.alone(function()
    timers(t)
    sockets(t)
    buffers(t)
    failures(t)
  end)
end
