-- A random program. The seed of the simulated run determines math.random, and so all actions of its
-- processes. It prints what it did, and fails if something happens that must not:
--
--   1. a mutex has two owners
--   2. a message is lost, or comes twice, or one sender's messages arrive in another order than
--      they were sent in
--   3. permits of a semaphore appear or vanish
--   4. a sleep ends early
--   5. a __close method does not run, or runs twice
--   6. a process continues after its kill, or a joiner gets a wrong result
--   7. a process runs while a more urgent one is runnable
--   8. a suspended process runs
local check = require "check"
local process = require "baton.process"
local random = math.random

local permits = random(0, 3)
local semaphore, held = process.semaphore(permits), permits
local channel = process.channel(random(0, 4))
local mutexes, owners = {}, {}
for i = 1, random(3) do mutexes[i] = process.mutex() end
local sent, received, log = {}, 0, {}
local begun, closed = {}, {}
local may_run = {}

-- Changes of shared data are made in one step.
local function change_permits(by) process.critical(function() held = held + by end) end

local function note(what)
  process.critical(function() log[#log + 1] = process.current().name .. " " .. what end)
end

-- Checks what must hold whenever one of these processes runs.
local function look()
  local me = process.current()
  check.equal(may_run[me] ~= false, true, me.name .. " is suspended, and runs")
  for _, other in ipairs(process.list()) do
    if other:priority() > me:priority() and other:status() == "runnable" then
      error(other.name .. " is runnable, and less urgent runs " .. me.name)
    end
  end
end

local function nap()
  local time, before = random(0, 20) / 1000, process.now()
  process.sleep(time)
  check.that(process.now() - before >= time, "a sleep ended early")
end

local function own_a_mutex()
  local i = random(#mutexes)
  if not mutexes[i]:lock(random(2) == 1 and random(5) / 1000 or nil) then return note "gave up" end
  local _ <close> = check.closing(function() mutexes[i]:unlock() end)
  local me = process.current()
  owners[i] = me
  for _ = 1, random(3) do process.yield() end
  check.equal(owners[i], me, "the owner of a mutex")
end

local function compute() for _ = 1, random(300) do check.that(true) end end

local quiet = { nap, own_a_mutex, compute, process.yield }

local function send(name)
  local number = (sent[name] or 0) + 1
  if channel:send(name .. " " .. number, random(10) / 1000) then sent[name] = number end
end

local last = {}
local function receive(name)
  local message = channel:receive(random(10) / 1000)
  if not message then return end
  process.critical(function() received = received + 1 end)
  local from, number = message:match "^(%S+) (%d+)$"
  local key = name .. from
  check.that(tonumber(number) > (last[key] or 0), "messages come in order")
  last[key] = tonumber(number)
end

local function wait()
  if not semaphore:wait(random(10) / 1000) then return end
  change_permits(-1)
  compute()
end

local function signal()
  change_permits(1)
  semaphore:signal()
end

local busy = { nap, own_a_mutex, compute, process.yield, send, receive, wait, signal }

local function body(name, acts)
  local _ <close> = check.closing(function() closed[name] = (closed[name] or 0) + 1 end)
  begun[name] = 1
  for turn = 1, random(10) do
    look()
    acts[random(#acts)](name)
    note(turn)
  end
  return name
end

-- Processes that may be killed do not touch the counters.
local workers, victims, killed = {}, {}, {}
for i = 1, random(2, 6) do
  local name = "worker" .. i
  workers[i] = process.spawn({ name = name, priority = random(38, 42) }, body, name, busy)
end
for i = 1, random(0, 5) do
  local name = "victim" .. i
  victims[i] = process.spawn({ name = name, priority = random(38, 42) }, body, name, quiet)
end

for _ = 1, random(30) do
  local victim = victims[random(math.max(#victims, 1))]
  local what = random(4)
  if what == 1 then nap()
  elseif what == 2 then compute()
  elseif what == 3 and victim and not killed[victim] then
    killed[victim] = victim:status() ~= "dead" and "reason" or nil
    victim:kill "reason"
  elseif what == 4 and victim and victim:status() ~= "dead" then
    victim:suspend()
    may_run[victim] = false
    compute()
    may_run[victim] = true
    victim:resume()
  end
end

for i, worker in ipairs(workers) do
  local ended, result = worker:join()
  if not ended then error(result, 0) end
  check.equal(result, "worker" .. i)
end
for i, victim in ipairs(victims) do
  local ended, result = victim:join()
  if ended then
    check.equal(result, "victim" .. i)
  else
    check.equal(result, killed[victim], victim.name .. " failed")
  end
end
for name in pairs(begun) do check.equal(closed[name], 1, name .. ": __close methods") end
for name, times in pairs(closed) do check.equal(times, 1, name .. ": __close methods") end
local all_sent = 0
for _, number in pairs(sent) do all_sent = all_sent + number end
while channel:receive(0) do received = received + 1 end
check.equal(received, all_sent, "messages")
check.equal(semaphore:count(), held, "permits")
for i = 1, #mutexes do check.equal(mutexes[i]:lock(0), true, "a mutex is left free") end
print(table.concat(log, "\n"))
print(process.now(), os.time(), os.clock(), tostring(log), process.stats().switches)
