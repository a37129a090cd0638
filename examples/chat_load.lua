-- Many clients of examples/chat_server.lua at once. Each sends messages, and receives those of all.
--
--   baton examples/chat_load.lua [-n CLIENTS] [-m MESSAGES] [-p PORT] [-h HOST]
--
-- Prints how long it took, and how many messages arrived in a second. The status is 1 if a message
-- is missing.

local process = require "baton.process"
local socket = require "socket"

local options = { ["-n"] = 50, ["-m"] = 10, ["-p"] = 4000, ["-h"] = "localhost" }
for i = 1, #arg, 2 do
  if not options[arg[i]] or not arg[i + 1] then
    io.stderr:write "usage: chat_load.lua [-n CLIENTS] [-m MESSAGES] [-p PORT] [-h HOST]\n"
    os.exit(2)
  end
  options[arg[i]] = arg[i] == "-h" and arg[i + 1]
    or assert(math.tointeger(tonumber(arg[i + 1])), arg[i] .. ": a number expected")
end
local count, messages = options["-n"], options["-m"]

local everybody_is_there = process.barrier(count)
local everybody_has_heard = process.barrier(count)

-- Returns when the line has arrived.
local function await(connection, wanted)
  repeat
    local line = assert(connection:receive())
  until line == wanted
end

local function hear(connection)
  local heard = 0
  while heard < count * messages do
    if assert(connection:receive()):find "^client%-%d+: " then heard = heard + 1 end
  end
end

local function live(number)
  local name = "client-" .. number
  local connection <const> = assert(socket.connect(options["-h"], options["-p"]))
  local _ <close> = setmetatable({}, { __close = function() connection:close() end })
  assert(connection:send(name .. "\n"))
  await(connection, "* " .. name .. " has joined")
  everybody_is_there:wait()
  process.scope(function(scope)
    scope:spawn(hear, connection) -- while this process sends
    for i = 1, messages do assert(connection:send("message " .. i .. "\n")) end
  end)
  everybody_has_heard:wait() -- until then no client leaves
  connection:send "/quit\n"
end

local before = process.now()
process.scope(function(scope)
  for number = 1, count do scope:spawn(live, number) end
end)
local took = process.now() - before
local arrived = count * count * messages
print(
  ("%d clients, %d messages arrived in %.2f s: %d a second"):format(
    count,
    arrived,
    took,
    arrived // took
  )
)
