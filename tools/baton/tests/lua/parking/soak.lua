-- Puts sockets under load that go wrong in every way, round by round, and checks after each round that nothing is left of it: no process, no
-- descriptor, no memory. baton soak.lua SECONDS; under a low `ulimit -n` it runs out of descriptors as well. Prints one line for each round.
local process = require "baton.process"
local socket = require "socket"

local SECONDS = assert(tonumber(arg[1]), "seconds expected")
local LONGEST_ROUND = 60 -- seconds: no machine needs that, so something hangs
local CLIENTS = 60
local LARGE = ("0123456789abcdef"):rep(40000)

-- {======================================================
-- The server: echoes lines; "large" asks for a lot, "none" for silence.
-- ======================================================

local function serve(client)
  local _ <close> = setmetatable({}, { __close = function() client:close() end })
  for line in function() return client:receive() end do
    if line == "large" then
      if not client:send(LARGE) then break end
    elseif line ~= "none" then
      if not client:send(line .. "\n") then break end
    end
  end
end

local counts = { accepted = 0, refused = 0, ["out of descriptors"] = 0, killed = 0 }

local function count(what) process.critical(function() counts[what] = counts[what] + 1 end) end

-- Until the socket is closed.
local function accept(scope, server)
  while true do
    local client, why = server:accept()
    if client then
      count "accepted"
      scope:spawn(serve, client)
    elseif why == "Too many open files" then
      count "out of descriptors"
      process.sleep(0.002)
    else
      return
    end
  end
end

-- }======================================================

-- {======================================================
-- Clients. Each is given a new connection, and what it does must end by itself.
-- ======================================================

local kinds = {}

function kinds.asks_again_and_again(client)
  for i = 1, 20 do
    if not client:send(i .. "\n") then return end
    local line = client:receive()
    if not line then return end -- the server has ended
    assert(line == tostring(i), line)
  end
end

function kinds.reads_slowly(client)
  client:send "large\nlarge\n"
  for _ = 1, 5 do
    if not client:receive(4000) then return end
    process.sleep(math.random() / 200)
  end
end

function kinds.half_closes(client)
  client:send "one\ntwo\n"
  client:shutdown "send"
  local lines = 0
  while client:receive() do lines = lines + 1 end
  assert(lines <= 2, lines)
end

function kinds.resets(client)
  client:send "large\n"
  client:receive(10)
  client:setoption("linger", { on = true, timeout = 0 })
end

function kinds.loses_patience(client)
  client:settimeout(0.001 + math.random() / 100)
  client:send "none\n"
  client:receive()
end

function kinds.says_nothing() end

function kinds.is_closed_by_another(client)
  process.spawn({ quiet = true }, function()
    process.sleep(math.random() / 200)
    client:close()
  end)
  client:send "none\n"
  assert(not client:receive())
end

function kinds.is_killed(client)
  local victim = process.spawn({ quiet = true }, function()
    client:send "none\n"
    client:receive()
    client:receive()
  end)
  process.sleep(math.random() / 300)
  victim:kill()
  victim:join()
  count "killed"
end

function kinds.shares(client)
  local reader = process.spawn(function()
    for i = 1, 10 do
      if client:receive() ~= tostring(i) then return end
    end
  end)
  for i = 1, 10 do client:send(i .. "\n") end
  reader:join()
end

local names = {}
for name in pairs(kinds) do names[#names + 1] = name end

local function live(address, port)
  local client, why = socket.connect(address, port)
  if not client then
    count(why == "Too many open files" and "out of descriptors" or "refused")
    return process.sleep(0.002)
  end
  local _ <close> = setmetatable({}, { __close = function() client:close() end })
  kinds[names[math.random(#names)]](client)
end

-- }======================================================

-- {======================================================
-- Rounds
-- ======================================================

local function number_of_program()
  local file <close> = io.open "/proc/self/stat"
  return file:read "n"
end

local listing = os.tmpname()

-- By a program that writes to a file: of a pipe, this program would have one or two ends open meanwhile. Also answers what they are.
local function descriptors()
  collectgarbage() -- closes what was left to it, before the count and not during it
  assert(os.execute(("ls -l /proc/%d/fd > %s"):format(number_of_program(), listing)))
  local file <close> = assert(io.open(listing))
  local text = file:read "a"
  return select(2, text:gsub("\n", "")), text
end

local function memory()
  collectgarbage()
  collectgarbage()
  return collectgarbage "count"
end

local function end_under_load(scope, server, running, acceptor)
  process.sleep(0.3 + math.random() / 5)
  server:close()
  acceptor:join()
  process.sleep(0.05) -- clients go on with what they have, or are refused
  running.over = true
  return scope
end

local function round()
  local server = assert(socket.bind("127.0.0.1", 0, 256))
  local address, port = server:getsockname()
  local running = { over = false }
  process.scope(function(serving)
    process.scope(function(asking)
      local acceptor = serving:spawn(accept, serving, server)
      for _ = 1, CLIENTS do
        asking:spawn(function()
          while not running.over do live(address, port) end
        end)
      end
      end_under_load(asking, server, running, acceptor)
    end)
  end)
end

local function watch(seconds, body)
  local watchdog = process.after(seconds, function()
    for _, p in ipairs(process.list()) do io.stderr:write(p.name or p.id, " ", p:status(), "\n", p:traceback(), "\n") end
    io.stderr:write "soak: a round does not end\n"
    os.exit(1)
  end)
  body()
  watchdog:cancel()
end

local until_then, number = process.now() + SECONDS, 0
watch(LONGEST_ROUND, round) -- whatever is made once is there now
local processes, open, first = #process.list(), descriptors(), memory()
repeat
  number = number + 1
  watch(LONGEST_ROUND, round)
  collectgarbage()
  assert(#process.list() == processes, "processes are left: " .. #process.list() - processes)
  local now, what = descriptors()
  assert(now == open, ("descriptors are left: %d after %d at first\n%s"):format(now, open, what))
  local used = memory()
  assert(used < first + 1000, ("memory is left: %.0f KiB after %.0f at first"):format(used, first))
  print(("round %d: %d accepted, %d refused, %d times out of descriptors, %d killed; %.0f KiB, %d threads"):format(
    number, counts.accepted, counts.refused, counts["out of descriptors"], counts.killed, used, process.threads()))
until process.now() > until_then
os.remove(listing)

-- }======================================================
