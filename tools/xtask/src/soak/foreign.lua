-- Makes random calls of C for some seconds: `foreign.lua library seed seconds`. At the end nothing
-- may be lost. Every call has ended or was given up, and every callback has run. Counters in Lua
-- and in C agree. There are no more threads, processes, memory or descriptors than before.
local ffi = require "baton.ffi"
local process = require "baton.process"
local seed, seconds = tonumber(arg[2]), tonumber(arg[3])

package.path = (arg[0]:match "^(.*)/" or ".") .. "/?.lua;" .. package.path

ffi.cdef [[
struct record { unsigned char bytes[200]; };
int64_t soak_begun(void); int64_t soak_ended(void);
int64_t soak_called_back(void); int64_t soak_visited(void);
int soak_sleep(int microseconds);
int soak_spin(int microseconds);
int soak_interrupt(int times);
int soak_fail(int with, int microseconds);
struct record soak_mirror(struct record record, int microseconds);
void soak_fill(unsigned char *to, int byte, int size, int microseconds);
int soak_nest(int (*f)(int), int depth, int microseconds);
int soak_visits(int (*f)(int, int), int threads, int count);
]]
local c = ffi.load(arg[1])

-- {== Random choices. Each process has its own stream of numbers, so that its actions depend on the
-- seed alone.

local Random = require "random"

-- A length in microseconds. Half of the lengths are below 100.
function Random:length() return math.floor(10 ^ (self:below(4200) / 1000)) end

-- ==}

local all = Random.new(seed)
local params = process.params
params.max_threads = all:pick { 3, 5, 9, 17, 40 }
params.window = all:pick { 0.00002, 0.0001, 0.0001, 0.001 }
params.slice = all:pick { 0.0005, 0.002, 0.010 }
params.thread_idle = all:pick { 0, 0.01, 1 }
params.spin = all:pick { "learned", "learned", "ema", "off" }
-- Processes wait here for threads that others use, again and again. No warnings of that: a text on
-- stderr is a failure.
params.warn_blocked = 3600

local count = setmetatable({}, { __index = function() return 0 end })
local deadline = process.now() + seconds

-- Counts in a critical section, because other processes count too.
local function one_more(name)
  process.critical(function() count[name] = count[name] + 1 end)
end

local function expect(holds, what, ...)
  if not holds then error(("seed %d: " .. what):format(seed, ...), 2) end
end

-- A call that is counted in Lua and in C, even if its process is killed. No kill can come between
-- the two steps of `begin`.
local counted = {
  __close = function(token)
    if token.is_begun then one_more "closed" end
  end,
}

local function begin(token)
  token.is_begun = true
  count.begun = count.begun + 1
end

local function call(f, ...)
  local token <close> = setmetatable({}, counted)
  process.critical(begin, token)
  return f(...)
end

-- A callback that lives as long as `f` runs. A Lua function passed directly would never be freed.
local freeing = { __close = function(owner) owner.callback:free() end }

local function with_callback(type, callback, f)
  local owner <close> = setmetatable({ callback = ffi.cast(type, callback) }, freeing)
  return f(owner.callback)
end

local action = {}

function action.short(random)
  for _ = 1, random:between(1, 300) do
    expect(call(c.soak_spin, 0) == 1, "a short call answered wrong")
  end
end

function action.block(random)
  local length = random:length()
  expect(call(c.soak_sleep, length) == length + 1, "a call that blocks answered wrong")
end

function action.compute(random)
  local length = random:length() // 4
  expect(call(c.soak_spin, length) == length + 1, "a call that computes answered wrong")
end

-- Signals that come late find a thread in any state.
function action.interrupt(random)
  for _ = 1, random:between(1, 100) do
    expect(call(c.soak_interrupt, random:between(1, 5)) > 0, "no thread got a signal")
  end
end

function action.fail(random)
  local code = random:between(1, 120)
  call(c.soak_fail, code, random:length())
  if random:below(2) == 0 then process.yield() end
  expect(ffi.errno() == code, "errno %d became %d", code, ffi.errno())
end

function action.mirror(random)
  local record, byte = ffi.new "struct record", random:below(256)
  record.bytes[0], record.bytes[199] = byte, 255 - byte
  local mirrored = call(c.soak_mirror, record, random:length())
  expect(
    mirrored.bytes[199] == byte and mirrored.bytes[0] == 255 - byte,
    "a structure came back wrong"
  )
end

function action.fill(random)
  local size, byte = random:between(1, 20000), random:below(250)
  local memory = ffi.new("unsigned char[?]", size)
  call(c.soak_fill, memory, byte, size, random:length())
  expect(memory[0] == byte and memory[size - 1] == byte, "memory was filled with something else")
end

-- Callbacks within callbacks, which wait, call, raise errors and compute.
local function nest(random, depth)
  local function callback(n)
    one_more "called_back"
    local what = random:below(8)
    if what == 0 then process.sleep(random:length() / 1e6)
    elseif what == 1 then process.yield()
    elseif what == 2 then action.block(random)
    elseif what == 3 then action.short(random)
    elseif what == 4 then error { planned = true }
    end
    return n > 0 and nest(random, n - 1) or 0
  end
  return with_callback(
    "int (*)(int)",
    callback,
    function(pointer) return call(c.soak_nest, pointer, depth, random:length() // 10) end
  )
end

function action.nest(random)
  local depth = random:below(6)
  local ok, result = pcall(nest, random, depth)
  if ok then
    expect(result == depth + 1, "%d nested callbacks answered %d", depth, result)
  else
    expect(type(result) == "table" and result.planned, "a callback failed: %s", result)
  end
end

function action.visits(random)
  local threads, times = random:between(1, 6), random:between(1, 8)
  local rests = random:below(3) == 0
  local function callback(number, i)
    one_more "visited"
    if rests and i == 1 then process.sleep(0.001) end
    return number
  end
  local sum = with_callback(
    "int (*)(int, int)",
    callback,
    function(pointer) return call(c.soak_visits, pointer, threads, times) end
  )
  expect(
    sum == times * threads * (threads + 1) // 2,
    "visits of %d threads answered %d",
    threads,
    sum
  )
end

local timed = {
  ffi.timeout(ffi.fn("int soak_sleep(int microseconds)", c), 0.001),
  ffi.timeout(ffi.fn("int soak_sleep(int microseconds)", c), 0.01),
  ffi.timeout(ffi.fn("int soak_sleep(int microseconds)", c), math.huge),
}

function action.give_up(random)
  local length = random:length()
  one_more "timed"
  local ok, result = pcall(call, random:pick(timed), length)
  if ok then
    expect(result == length + 1, "a call with a timeout answered wrong")
  elseif tostring(result):find "timed out" then
    one_more "abandoned"
  else
    expect(tostring(result):find "max_threads", "a call with a timeout failed: %s", result)
    one_more "refused"
  end
end

local actions = {
  "short",
  "block",
  "block",
  "compute",
  "interrupt",
  "fail",
  "mirror",
  "fill",
  "nest",
  "nest",
  "visits",
  "give_up",
}

local function act(random) return action[random:pick(actions)](random) end

local next_stream = 0
local function new_random()
  next_stream = next_stream + 1
  return Random.new(seed * 1000003 + next_stream)
end

-- Kills other processes at random moments, in the middle of their calls.
function action.kill(random)
  local their = new_random()
  local victim = process.spawn(
    { quiet = true, name = "victim", priority = random:between(30, 50) },
    function()
      for _ = 1, 3 do
        act(their)
      end
    end
  )
  process.sleep(random:length() / 1e6)
  one_more "kills"
  victim:kill "as planned"
  local ok, why = victim:join(60)
  expect(ok ~= nil, "a killed process did not end:\n%s", victim:traceback())
  expect(ok or why == "as planned", "a victim failed: %s", why)
end

-- Makes more calls at once than there may be threads.
function action.crowd(random)
  local crowd, name = {}, random:pick { "block", "give_up" }
  for i = 1, params.max_threads + random:below(20) do
    crowd[i] = process.spawn({ quiet = true }, action[name], new_random())
  end
  for _, one in ipairs(crowd) do
    local ok, why = one:join(60)
    expect(ok, "one of a crowd: %s, %s", ok, why)
  end
end

-- Makes a call with a mutex locked. The owner of the mutex may be killed.
local mutex = process.mutex()
function action.lock(random)
  local locked, how = mutex:lock(30)
  expect(locked, "a mutex was not had in 30 s: %s", how)
  local _ <close> = setmetatable({}, { __close = function() mutex:unlock() end })
  action.block(random)
end

function action.command()
  local pipe = io.popen "echo done"
  expect(pipe:read "l" == "done", "a command said something else")
  pipe:close()
end

function action.collect() collectgarbage "step" end

function action.in_coroutine(random)
  local routine = coroutine.wrap(function()
    action.block(random)
    coroutine.yield(1)
    action.nest(random)
    return 2
  end)
  expect(routine() == 1 and routine() == 2, "a coroutine went wrong")
end

for _, name in ipairs { "kill", "kill", "lock", "in_coroutine", "collect", "command" } do
  actions[#actions + 1] = name
end

local function work(random)
  while process.now() < deadline do
    one_more "actions"
    -- This is rare, because it keeps all threads busy.
    if random:below(40) == 0 then action.crowd(random) else act(random) end
    if random:below(8) == 0 then process.sleep(random:length() / 1e6) end
  end
end

-- {== The counts

local function line_of(path, pattern)
  for line in io.lines(path) do
    local found = line:match(pattern)
    if found then return tonumber(found) end
  end
end

-- The system resources that this program holds.
local function held()
  collectgarbage()
  collectgarbage()
  local descriptors = 0
  local list = io.popen(("ls /proc/%d/fd"):format(line_of("/proc/self/status", "^Pid:%s+(%d+)")))
  for _ in list:lines() do descriptors = descriptors + 1 end
  list:close()
  return {
    kib = line_of("/proc/self/status", "^VmRSS:%s+(%d+)"),
    lua_kib = collectgarbage "count",
    descriptors = descriptors,
    stacks = process.stats().stacks_in_use,
  }
end

-- Waits until `holds()` is true. `culprit` names the process that is waited for.
local function eventually(what, holds, culprit)
  local limit = process.now() + 60
  while not holds() do
    if process.now() > limit then
      expect(false, "never came true: %s\n%s", what, culprit and culprit():traceback() or "")
    end
    process.sleep(0.002)
  end
end

-- ==}

local longest, last = 0, process.now()
local ticker = process.spawn({ name = "ticker", priority = 60, daemon = true }, function()
  while true do
    process.sleep(0.001)
    local now = process.now()
    longest, last = math.max(longest, now - last), now
  end
end)

local workers = {}
for i = 1, 12 do
  workers[i] = process.spawn(
    { name = "worker " .. i, quiet = true, priority = i <= 10 and 40 or 40 + i },
    work,
    new_random()
  )
end

while process.now() < deadline do
  process.sleep(math.max(0, math.min(1, deadline - process.now())))
  print(("progress %d"):format(count.begun))
  io.stdout:flush()
end
for _, worker in ipairs(workers) do
  local ok, why = worker:join(60)
  expect(ok ~= nil, "%s did not come to its end:\n%s", worker.name, worker:traceback())
  expect(ok, "%s failed: %s\n%s", worker.name, why, worker:traceback())
end
ticker:kill()

-- The runtime's own daemons: they run callbacks from other threads, and finalizers that would wait.
local STAYS = { callbacks = true, finalizers = true }

-- A process that has not ended yet, such as a victim's victim.
local function left()
  for _, p in ipairs(process.list()) do
    if p ~= process.main and not STAYS[p.name] then return p end
  end
end
eventually("all processes have ended", function() return left() == nil end, left)
-- An abandoned call lasts for at most 16 ms, so all calls end soon.
eventually("all calls have ended", function() return c.soak_begun() == c.soak_ended() end)
local begun, most_lost = c.soak_begun(), count.kills
expect(count.begun == count.closed, "%d calls were begun and %d closed", count.begun, count.closed)
-- A kill may come between a count and the call that it counts.
local made = count.begun - count.refused
expect(
  begun <= made and made - begun <= most_lost,
  "%d calls were made and %d begun; %d kills",
  made,
  begun,
  most_lost
)
local lost = c.soak_called_back() - count.called_back
expect(
  lost >= 0 and lost <= most_lost,
  "%d callbacks were called and %d ran",
  c.soak_called_back(),
  count.called_back
)
expect(
  c.soak_visited() == count.visited,
  "%d visits were made and %d came",
  c.soak_visited(),
  count.visited
)

params.thread_idle = 0.01
eventually("one thread is left", function() return process.threads() <= 1 end)
eventually(
  "nobody is out",
  function() return process.stats().foreign == 0 and process.stats().waiting_for_thread == 0 end
)
local at_end, stats = held(), process.stats()
-- A kill may come before a new callback is guarded, so some memory may be lost.
expect(at_end.lua_kib < 2000 + count.kills, "%.0f KiB of Lua's memory are left", at_end.lua_kib)
expect(at_end.kib < 100000, "%d KiB of memory are left", at_end.kib)
expect(at_end.descriptors < 40, "%d descriptors are open", at_end.descriptors)
expect(at_end.stacks <= 70, "%d stacks are in use", at_end.stacks)
expect(longest < 5, "the ticker was kept waiting for %.3f s", longest)

for _, name in ipairs {
  "actions",
  "begun",
  "abandoned",
  "refused",
  "kills",
  "called_back",
  "visited",
} do
  print(name, count[name])
end
for _, name in ipairs {
  "retakes",
  "moves",
  "pinned_waits",
  "threads_started",
  "thread_bound_hits",
  "switches",
} do
  print(name, stats[name])
end
print(("longest_gap_ms %.1f"):format(longest * 1e3))
print(("lua_kib %.0f"):format(at_end.lua_kib))
print("rss_kib", at_end.kib)
print "passed"
