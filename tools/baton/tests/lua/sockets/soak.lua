-- Puts a load on sockets that fail in every way, in rounds. After each round, no process,
-- descriptor or memory may be left over. At the end, each kind of failure must have happened, and
-- resident memory must not be larger than after the first rounds. baton soak.lua SECONDS [few]:
-- `few` says that the limit of descriptors is low, so the load must have reached it.
-- Prints one line per round, and a line with all counts at the end.
local process = require "baton.process"
local socket = require "socket"

local SECONDS = assert(tonumber(arg[1]), "seconds expected")
local FEW = arg[2] == "few"
assert(FEW or arg[2] == nil, "nothing or 'few' expected after the seconds")
local LONGEST_ROUND = 60 -- seconds: far more than any machine needs, so the program hangs
local PATIENCE = 120 -- seconds beyond the end, until all kinds of failure have happened
local CLIENTS = 60
local LARGE = ("0123456789abcdef"):rep(40000)
-- the required number of kills in `receive` per so many seconds; proportionally fewer in a shorter
-- run
local KILLS, KILLS_IN = 1000, 600
-- Resident memory: the most of the FIRST rounds is compared with the least of the LAST ones. The
-- first rounds include the warm-up.
local FIRST, LAST = 3, 2
local GROWTH, ROOM = 1.1, 8192 -- factor for resident memory, and KiB on top

-- {======================================================
-- What has happened
-- ======================================================

local EVENTS = {
  "accepted", "refused", "out of descriptors", "killed in receive", "killed elsewhere",
  "read slowly", "half-closed", "reset", "stopped under load", "compared",
}
local counts, served = {}, 0 -- how many connections are being served
for _, what in ipairs(EVENTS) do counts[what] = 0 end

local function count(what) process.critical(function() counts[what] = counts[what] + 1 end) end

local function describe()
  local texts = {}
  for i, what in ipairs(EVENTS) do texts[i] = counts[what] .. " " .. what end
  return table.concat(texts, ", ")
end

-- How often each must have happened in the whole run.
local function expected()
  return {
    ["killed in receive"] = math.ceil(KILLS * SECONDS / KILLS_IN),
    ["out of descriptors"] = FEW and 1 or 0,
    ["read slowly"] = 1,
    ["half-closed"] = 1,
    ["reset"] = 1,
    ["stopped under load"] = 1,
    ["compared"] = math.ceil(KILLS * SECONDS / KILLS_IN),
  }
end

-- Returns what has happened too rarely, or nil.
local function missing()
  for what, least in pairs(expected()) do
    if counts[what] < least then
      return ("%d times %s, and %d are the least; %s"):format(counts[what], what, least, describe())
    end
  end
end

-- }======================================================

-- {======================================================
-- The server: echoes lines; "large" asks for a lot, "none" for silence.
-- ======================================================

local function is_served(more) process.critical(function() served = served + more end) end

local function serve(client)
  is_served(1)
  local _ <close> = setmetatable({}, {
    __close = function()
      client:close()
      is_served(-1)
    end,
  })
  for line in function() return client:receive() end do
    if line == "large" then
      if not client:send(LARGE) then break end
    elseif line ~= "none" then
      if not client:send(line .. "\n") then break end
    end
  end
end

-- Runs until the socket is closed.
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
-- Clients. Each gets a new connection, and must end by itself.
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
  count "read slowly"
end

function kinds.half_closes(client)
  client:send "one\ntwo\n"
  client:shutdown "send"
  local lines = 0
  while client:receive() do lines = lines + 1 end
  assert(lines <= 2, lines)
  if lines == 2 then count "half-closed" end
end

-- A line of any length, around those at which a socket or a buffer is full. Half of them are short.
local function random_line()
  local longest = math.random(2) == 1 and 100 or 9000
  return ("x"):rep(math.random(0, longest)) .. math.random(10000)
end

-- Receives a line, in several attempts if the socket has a timeout.
local function receive_in_parts(client)
  local line, why, part
  local parts = ""
  repeat
    line, why, part = client:receive()
    parts = parts .. (line or part)
  until line or why ~= "timeout"
  return line and parts, why
end

-- Sends a text at once, or in two parts with a pause in between.
local function send_in_parts(client, text)
  local cut = math.random(4) == 1 and math.random(#text) or #text
  if not client:send(text:sub(1, cut)) then return false end
  if cut == #text then return true end
  if math.random(2) == 1 then process.sleep(math.random() / 2000) end
  return client:send(text:sub(cut + 1))
end

-- Sends lines in batches and compares the answers. No byte may be missed: that would never end.
function kinds.compares(client)
  if math.random(3) == 1 then client:settimeout(math.random() / 2000) end
  for _ = 1, 10 do
    local lines = {}
    for i = 1, math.random(4) == 1 and 5 or 1 do lines[i] = random_line() end
    if not send_in_parts(client, table.concat(lines, "\n") .. "\n") then return end
    for _, line in ipairs(lines) do
      local answer = receive_in_parts(client)
      if not answer then return end -- the server has ended
      assert(answer == line, #answer .. " bytes in place of " .. #line)
    end
  end
  client:shutdown "send"
  local rest, why, part
  repeat
    rest, why, part = client:receive()
  until why ~= "timeout"
  assert(not rest and (part or "") == "", "more than was sent")
  count "compared"
end

function kinds.resets(client)
  client:send "large\n"
  local has_begun = client:receive(10)
  if client:setoption("linger", { on = true, timeout = 0 }) and has_begun then count "reset" end
end

function kinds.loses_patience(client)
  client:settimeout(0.001 + math.random() / 100)
  client:send "none\n"
  client:receive()
end

function kinds.says_nothing() end

function kinds.is_closed_by_another(client)
  local other = process.spawn({ quiet = true }, function()
    process.sleep(math.random() / 200)
    client:close()
  end)
  client:send "none\n"
  assert(not client:receive())
  other:join() -- the connection may have ended earlier
end

-- Kills it either at any point, or once it waits.
function kinds.is_killed(client)
  local victim = process.spawn({ quiet = true }, function()
    client:send "none\n"
    client:receive()
    client:receive()
  end)
  local patiently = math.random(2) == 1
  repeat
    process.sleep(math.random() / 300)
  until not patiently or victim:status() == "waiting" or victim:status() == "dead"
  local waits, is_killed
  process.critical(function()
    waits = victim:status() == "waiting"
    is_killed = victim:kill()
  end)
  local _, why = victim:join()
  if not is_killed then return end -- the server has ended
  assert(not waits or why == "killed", tostring(why))
  count(waits and "killed in receive" or "killed elsewhere")
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

-- Counts descriptors with a program that writes to a file: a pipe would add descriptors. That fails
-- if one is closed meanwhile, and is then repeated. Also returns the descriptors. Leaves out the
-- files that the monitor opens for a moment, one at a time, to read about a thread.
local function descriptors()
  collectgarbage() -- closes unreachable files before the count, not during it
  local list = ("ls -l /proc/%d/fd 2>/dev/null > %s"):format(number_of_program(), listing)
  local tries = 1
  while not os.execute(list) do
    assert(tries < 100, "the descriptors could not be listed")
    tries = tries + 1
  end
  local file <close> = assert(io.open(listing))
  local text = file:read "a":gsub("[^\n]*/proc/%d+/task/[^\n]*\n", "", 1)
  return select(2, text:gsub("\n", "")), text
end

-- Returns KiB, or nil if the system does not say.
local function resident()
  local file <close> = io.open "/proc/self/status"
  return file and tonumber(file:read("a"):match "VmRSS:%s*(%d+)")
end

local function memory()
  collectgarbage()
  collectgarbage()
  return collectgarbage "count"
end

-- Indexed by the number of the round.
local function compare_resident(after, last)
  if not after[0] then return "what is resident is not told" end
  local first, now =
    math.max(table.unpack(after, 0, FIRST - 1)),
    math.min(table.unpack(after, last - LAST + 1, last))
  local text = ("%d KiB resident after the first rounds, %d after the last"):format(first, now)
  return assert(now <= first * GROWTH + ROOM and text, "memory is left: " .. text)
end

local function end_under_load(scope, server, running, acceptor)
  process.sleep(0.3 + math.random() / 5)
  if served > 0 then count "stopped under load" end
  server:close()
  acceptor:join()
  process.sleep(0.05) -- clients use the descriptors that they have, or are refused
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
    for _, p in ipairs(process.list()) do
      io.stderr:write(p.name or p.id, " ", p:status(), "\n", p:traceback(), "\n")
    end
    io.stderr:write "soak: a round does not end\n"
    os.exit(1)
  end)
  body()
  watchdog:cancel()
end

local began, number = process.now(), 0
watch(LONGEST_ROUND, round) -- objects that are made once exist after this
local processes, open, first = #process.list(), descriptors(), memory()
local resident_after = { [0] = resident() }
repeat
  number = number + 1
  watch(LONGEST_ROUND, round)
  collectgarbage()
  assert(#process.list() == processes, "processes are left: " .. #process.list() - processes)
  local now, what = descriptors()
  assert(now == open, ("descriptors are left: %d after %d at first\n%s"):format(now, open, what))
  local used = memory()
  assert(used < first + 1000, ("memory is left: %.0f KiB after %.0f at first"):format(used, first))
  resident_after[number] = resident()
  print(
    ("round %d: %s; %.0f KiB, %s resident, %d threads"):format(
      number,
      describe(),
      used,
      resident_after[number],
      process.threads()
    )
  )
  local elapsed = process.now() - began
  local is_over = elapsed > SECONDS and number + 1 >= FIRST + LAST
-- if the machine stops in most rounds, too little has happened by then
until is_over and (not missing() or elapsed > SECONDS + PATIENCE)
os.remove(listing)
assert(not missing(), missing())
print(("%d rounds in %.0f s: %s; %d descriptors before and after; %s"):format(
  number, process.now() - began, describe(), open, compare_resident(resident_after, number)))

-- }======================================================
