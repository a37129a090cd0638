-- Starts, uses and kills VMs at random for some seconds: `vms.lua seed seconds`. At the end nothing
-- may be lost: each message and each count has arrived, or the kill that took it is known. There
-- are no more threads, processes, memory or descriptors than after the first of each action. A
-- deadlock is reported if there is one, and only then: a text on stderr is a failure. To narrow a
-- failure down, only some actions are done: `vms.lua seed seconds pool map`.
local process = require "baton.process"
local vm = require "baton.vm"
local has_sockets, socket = pcall(require, "socket")
local seed, seconds = tonumber(arg[1]), tonumber(arg[2])

local directory = arg[0]:match "^(.*)/" or "."
package.path = directory .. "/?.lua;" .. package.path

local ACTORS = 4
local LONGEST = 60 -- seconds for one action; a longer one hangs
local WAIT = 30 -- seconds for the end of a VM that was killed

-- {== Random choices. Each actor has its own stream of numbers.

local Random = require "random"

-- A length in seconds, up to 20 ms. Half of the lengths are below 150 us.
function Random:length() return 10 ^ (self:below(4300) / 1000) / 1e6 end

-- ==}

-- {== The model

local count = setmetatable({}, { __index = function() return 0 end })
local function add(name, n) count[name] = count[name] + (n or 1) end

local function expect(holds, what, ...)
  if not holds then error(("seed %d: " .. what):format(seed, ...), 2) end
end

local function show(...)
  local values = table.pack(...)
  for i = 1, values.n do values[i] = tostring(values[i]) end
  return table.concat(values, ", ")
end

local function start(options, main, ...)
  options.quiet = true
  local w, why = vm.spawn(options, main, ...)
  expect(w, "a VM did not start: %s", why)
  add "started"
  return w
end

-- Kills a VM, and waits for its end.
local function kill(w, grace)
  local killed = w:kill("soak", grace)
  local results = table.pack(w:join(WAIT))
  expect(results[1] ~= nil, "a VM did not end: %s", show(table.unpack(results, 1, results.n)))
  expect(not killed or results[1] == true or results[2] == "soak",
    "a VM that was killed ended by: %s", show(table.unpack(results, 1, results.n)))
  expect(w:status() == "dead", "a VM that has ended is %s", w:status())
  if killed then add "kills" end
end

local function joined(w)
  local results = table.pack(w:join(WAIT))
  expect(results[1] == true, "a VM ended by: %s", show(table.unpack(results, 1, results.n)))
  return table.unpack(results, 2, results.n)
end

-- What the actors share.
local words = vm.shared(4)
local ADDED, PROXIED, RECEIVED = 1, 2, 3
local dict = vm.dict { bytes = 1 << 20 }
local servers = {}
local by_proxy = 0
local proxy = vm.proxy(function(n)
  by_proxy = by_proxy + n
  return by_proxy
end)

-- ==}

-- {== States in which a VM is killed. Each function runs there.

local state = {}

function state.sleeps() require("baton.process").sleep(3600) end

function state.computes()
  while true do end
end

function state.catches()
  while true do
    pcall(function() while true do end end)
  end
end

function state.receives()
  local channel = require("baton.vm").channel()
  channel:receive()
end

function state.sends()
  local channel = require("baton.vm").channel(2)
  while true do channel:send { "a value", {} } end
end

function state.selects()
  local vm, process = require "baton.vm", require "baton.process"
  process.select { vm.channel(), process.channel(), process.event() }
end

function state.waits_for_words() require("baton.vm").shared(1):wait(1, 0) end

function state.collects()
  while true do
    local garbage = {}
    for i = 1, 1000 do garbage[i] = setmetatable({ i }, { __gc = function() end }) end
    collectgarbage()
  end
end

function state.locks()
  local process = require "baton.process"
  local mutex = process.mutex()
  mutex:lock()
  process.spawn(function() mutex:lock() end)
  process.sleep(3600)
end

function state.blocks()
  local ffi = require "baton.ffi"
  ffi.cdef "int usleep(unsigned microseconds);"
  while true do ffi.C.usleep(2000) end
end

function state.reads_a_pipe()
  local pipe = io.popen "sleep 0.05"
  pipe:read "a"
  pipe:close()
end

function state.writes_files()
  while true do
    local file = io.tmpfile()
    file:write(("x"):rep(10000))
    file:close()
  end
end

function state.starts_others()
  local vm = require "baton.vm"
  while true do
    local w = vm.spawn({ quiet = true }, function() require("baton.process").sleep(0.001) end)
    if w then w:join() end
  end
end

function state.maps()
  local list = {}
  for i = 1, 100 do list[i] = i end
  while true do
    for _ in require("baton.vm").map(list, function(n) return n end, { workers = 2 }) do end
  end
end

function state.has_many_processes()
  local process = require "baton.process"
  for _ = 1, 50 do
    process.spawn(function()
      while true do process.sleep(0.0001) end
    end)
  end
end

function state.uses_the_dictionary()
  local d = require("baton.vm").dict { bytes = 1 << 16, evict = "lru" }
  for i = 1, math.huge do d:set(i % 3000, { i }, 0.001) end
end

local states = {}
for name in pairs(state) do states[#states + 1] = name end
table.sort(states)

-- ==}

-- {== Actions

local action = {}

function action.kill_in_a_state(random)
  local name = random:pick(states)
  local w = start({ name = name }, state[name])
  process.sleep(random:length())
  kill(w)
end

-- A VM outlives the process that has started it, once it has begun.
function action.kill_the_starter(random)
  local stop = vm.channel()
  local starter = process.spawn({ quiet = true }, function()
    start({ name = "started" }, function(stop) stop:receive() end, stop):join()
  end)
  process.sleep(random:length())
  starter:kill "soak"
  starter:join()
  stop:close()
end

function action.run_to_the_end(random)
  local n = random:below(1000)
  local sum, text = joined(start({}, function(n)
    local sum = 0
    for i = 1, n do sum = sum + i end
    return sum, ("x"):rep(n)
  end, n))
  expect(sum == n * (n + 1) // 2 and #text == n, "a VM returned %s", tostring(sum))
end

function action.fail(random)
  local n = random:below(1000)
  local w = start({}, function(n) error({ number = n }) end, n)
  local ok, err = w:join(WAIT)
  expect(ok == false and type(err) == "table" and err.number == n, "a failed VM: %s", show(ok, err))
end

function action.want_memory()
  local w = start({ memory = 4 << 20 }, function()
    local all = {}
    while true do all[#all + 1] = ("x"):rep(10000) .. #all end
  end)
  local ok, err = w:join(WAIT)
  expect(ok == false and tostring(err):find "not enough memory",
    "a VM with too little memory: %s", show(ok, err))
end

function action.call(random)
  local server = random:pick(servers)
  for _ = 1, random:between(1, 20) do
    local n = random:below(1 << 30)
    expect(server:call("double", n) == 2 * n, "a call answered wrong")
    add "calls"
  end
  local ok, err = pcall(server.call, server, "fail", 7)
  expect(not ok and err.number == 7, "a call that fails: %s", show(ok, err))
  expect(server:call("garbage", 100) == 100, "a collection answered wrong")
end

function action.kill_a_call(random)
  local server = random:pick(servers)
  local caller = process.spawn({ quiet = true }, function() server:call("nap", 3600) end)
  process.sleep(random:length())
  caller:kill "soak"
  caller:join()
end

-- A server that dies answers "dead", and never nothing.
function action.call_one_that_dies(random)
  local w = start({ name = "mortal" }, "vms_served")
  local caller = process.spawn(function()
    local calls = 0
    while true do
      local got, why = w:call("double", calls)
      if got == nil then return why end
      expect(got == 2 * calls, "a call answered wrong")
      calls = calls + 1
    end
  end)
  process.sleep(random:length())
  kill(w)
  local ok, why = caller:join(WAIT)
  expect(ok == true and why == "dead", "a call of a VM that died: %s", show(ok, why))
end

function action.call_by_proxy(random)
  local n = random:between(1, 20)
  joined(start({}, function(proxy, words, n, which)
    for _ = 1, n do
      proxy(1)
      words:add(which, 1)
    end
  end, proxy, words, n, PROXIED))
end

-- Every message that was sent is received, is still in the channel, or was taken by the one
-- receiver that was killed.
function action.send_to_one_that_is_killed(random)
  local channel, sent = vm.channel(random:between(1, 20)), 0
  local got = vm.shared(1)
  local w = start({}, function(channel, got)
    for _ in channel:values() do got:add(1, 1) end
  end, channel, got)
  local sender = process.spawn(function()
    while channel:send({ sent }, 0.05) do sent = sent + 1 end
  end)
  process.sleep(random:length())
  kill(w)
  local ok, why = sender:join(WAIT)
  expect(ok, "the sender ended by: %s", why)
  local left = 0
  while channel:receive(0) do left = left + 1 end
  local lost = sent - got:load(1) - left
  expect(lost == 0 or lost == 1, "%d messages were sent, %d received, %d left", sent, got:load(1),
    left)
  add("messages", sent)
end

-- Values of all kinds go to another VM and come back the same.
function action.send_values(random)
  local n, there, back = random:between(1, 50), vm.channel(random:between(1, 64)), vm.channel(4)
  local w = start({}, function(there, back)
    for value in there:values() do back:send(value) end
    back:close()
  end, there, back)
  local sender = process.spawn(function()
    for i = 1, n do
      local value = { number = i, text = ("x"):rep(i * 7), list = { i, i + 0.5, false } }
      value.itself = value
      value.frozen = vm.freeze { i, { i } }
      value.channel = there
      there:send(value)
    end
    there:close()
  end)
  local received = 0
  for value in back:values() do
    received = received + 1
    local is_same = value.number == received and #value.text == 7 * received
      and value.itself == value and value.list[2] == received + 0.5
      and value.frozen[2][1] == received
    expect(is_same, "a value came back wrong")
  end
  expect(received == n, "%d values were sent and %d came back", n, received)
  joined(w)
  sender:join()
  add("messages", 2 * n)
end

-- Several VMs receive from one channel and count in shared words and in the dictionary.
function action.count_together(random)
  local key, n, workers = "key " .. random:next(), random:between(10, 200), random:between(1, 3)
  local jobs, all = vm.channel(8), {}
  for i = 1, workers do
    all[i] = start({}, function(jobs, words, dict, key, which)
      local got = 0
      for job in jobs:values() do
        words:add(which, job)
        dict:incr(key, job, 0)
        got = got + job
      end
      return got
    end, jobs, words, dict, key, ADDED)
  end
  for _ = 1, n do jobs:send(1) end
  jobs:close()
  local got = 0
  for _, w in ipairs(all) do got = got + joined(w) end
  expect(got == n, "%d jobs were sent and %d done", n, got)
  expect(dict:get(key) == n, "the dictionary has %s instead of %d", dict:get(key), n)
  dict:delete(key)
  add("added", n)
  add("messages", n)
end

function action.wake_by_words(random)
  local bell, rounds = vm.shared(2), random:between(1, 30)
  local w = start({}, function(bell, rounds)
    for i = 1, rounds do
      bell:wait(1, i - 1)
      bell:store(2, i)
      bell:wake(2)
    end
  end, bell, rounds)
  for i = 1, rounds do
    bell:store(1, i)
    bell:wake(1)
    while bell:load(2) < i do
      local ok, why = bell:wait(2, i - 1, WAIT)
      expect(why ~= "timeout", "nobody woke the words: %s", show(ok, why))
    end
  end
  joined(w)
end

function action.move_buffers_and_files(random)
  local there, back = vm.channel(), vm.channel()
  local w = start({}, function(there, back)
    local move = require("baton.vm").move
    for pair in there:values() do
      pair.buffer:set(1, pair.buffer:get(1) + 1)
      pair.file:write "there\n"
      back:send { buffer = move(pair.buffer), file = move(pair.file) }
    end
  end, there, back)
  local buffer, file = vm.buffer(random:between(1, 100000)), io.tmpfile()
  local rounds = random:between(1, 10)
  for _ = 1, rounds do
    there:send { buffer = vm.move(buffer), file = vm.move(file) }
    local pair = back:receive()
    buffer, file = pair.buffer, pair.file
    file:write "here\n"
    add "moves"
  end
  file:seek "set"
  expect(buffer:get(1) == rounds, "a buffer was written %d times, not %d", buffer:get(1), rounds)
  expect(file:read "a" == ("there\nhere\n"):rep(rounds), "a file has lost something")
  file:close()
  there:close()
  joined(w)
end

-- Neither what was received by a VM that is killed stays open, nor what was not.
function action.move_to_one_that_is_killed(random)
  local inbox = vm.channel(2)
  local w = start({}, function(inbox)
    for file in inbox:values() do file:write "x" end
  end, inbox)
  local mover = process.spawn(function()
    repeat
      local file = io.tmpfile()
      local sent = inbox:send(vm.move(file), 0.02)
      if not sent then file:close() end -- it is ours again
      add "moves"
    until not sent
  end)
  process.sleep(random:length())
  kill(w)
  local ok, why = mover:join(WAIT)
  expect(ok, "the mover ended by: %s", why)
  for file in function() return inbox:receive(0) end do file:close() end
end

function action.move_sockets(random)
  if not has_sockets then return end
  local inbox = vm.channel(2)
  local w = start({}, function(inbox)
    for peer in inbox:values() do
      for line in function() return peer:receive() end do peer:send(line .. "\n") end
      peer:close()
    end
  end, inbox)
  local server = assert(socket.bind("127.0.0.1", 0))
  local _, port = server:getsockname()
  for _ = 1, random:between(1, 5) do
    local client = assert(socket.connect("127.0.0.1", port))
    local peer = assert(server:accept())
    client:send "one\ntwo\n"
    expect(peer:receive() == "one", "a line is lost before the move")
    inbox:send(vm.move(peer))
    expect(client:receive() == "two", "a line is lost in the move")
    for i = 1, random:between(0, 5) do
      client:send(i .. "\n")
      expect(client:receive() == tostring(i), "a line is lost after the move")
    end
    client:close()
    add "moves"
  end
  server:close()
  inbox:close()
  joined(w)
end

function action.map(random)
  local list, n, sum = {}, random:between(1, 200), 0
  for i = 1, n do list[i] = i end
  local options = { workers = random:between(1, 3), chunk = random:between(1, 20) }
  if random:below(2) == 0 then options.ordered = false end
  local stop = random:below(3) == 0 and random:between(1, n) or n + 1
  for i, twice in vm.map(list, function(x) return 2 * x end, options) do
    expect(twice == 2 * i, "a map gave %s for %d", tostring(twice), i)
    sum = sum + i
    if i >= stop then return end -- abandons the map
  end
  expect(stop <= n or sum == n * (n + 1) // 2, "a map gave not all values")
end

function action.pool(random)
  local pool = vm.pool { module = "vms_served", size = random:between(1, 3) }
  local callers = {}
  for i = 1, random:between(1, 6) do
    local is_killed = random:below(4) == 0
    callers[i] = process.spawn({ quiet = true }, function()
      for n = 1, 5 do
        if is_killed then pool:call("nap", 3600) end
        expect(pool:call("double", n) == 2 * n, "a pool answered wrong")
        add "calls"
      end
    end)
    if is_killed then
      process.sleep(random:length())
      callers[i]:kill "soak"
    end
  end
  for _, caller in ipairs(callers) do
    local ok, why = caller:join(WAIT)
    expect(ok or why == "soak", "a caller of a pool ended by: %s", why)
  end
  expect(pool:close(5), "a pool does not close")
end

function action.freeze(random)
  local value = { list = {} }
  for i = 1, random:between(1, 500) do value.list[i] = { i, tostring(i) } end
  local frozen = vm.freeze(value)
  local sum = joined(start({}, function(frozen)
    local sum = 0
    for i = 1, #frozen.list do sum = sum + frozen.list[i][1] end
    return sum
  end, frozen))
  local n = #value.list
  expect(sum == n * (n + 1) // 2, "a frozen value has the sum %s", tostring(sum))
  expect(#vm.thaw(frozen).list == n, "a frozen value thaws to another one")
end

function action.expire(random)
  local key = random:next()
  dict:set(key, { key }, 0.005)
  local got = dict:get(key)
  expect(got == nil or got[1] == key, "the dictionary gave another value")
  process.sleep(0.006)
  expect(dict:get(key) == nil, "a value outlived its time")
end

function action.collect() collectgarbage() end

-- Two VMs that wait for each other, and nothing that could wake one, in a program of its own.
function action.deadlock()
  local first = 0
  while arg[first - 1] do first = first - 1 end
  local program = [[
    local vm = require 'baton.vm'
    local a, b = vm.channel(), vm.channel()
    local w = vm.spawn({ quiet = true }, function(a, b) a:receive() b:send(1) end, a, b)
    b:receive() a:send(1)]]
  local run = ("'%s' -e \"%s\" 2>&1"):format(arg[first], program:gsub("\n%s*", " "))
  local pipe = io.popen(run)
  local text = pipe:read "a"
  local _, how, status = pipe:close()
  local is_reported = text:find("deadlock: no process can ever run again", 1, true)
  expect(is_reported and how == "exit" and status == 1,
    "a deadlock ended by %s %s: %s", how, tostring(status), text)
end

local actions = {}
for name in pairs(action) do actions[#actions + 1] = name end
table.sort(actions)
if arg[3] then actions = table.move(arg, 3, #arg, 1, {}) end

-- ==}

-- {== What the program holds

local function descriptors()
  local n = 0
  for descriptor = 0, 1023 do
    local file = io.open("/proc/self/fdinfo/" .. descriptor)
    if file then
      n = n + 1
      file:close()
    end
  end
  return n
end

local function status_of(name)
  for line in io.lines "/proc/self/status" do
    local value = line:match("^" .. name .. ":%s*(%d+)")
    if value then return tonumber(value) end
  end
end

local function held()
  collectgarbage()
  collectgarbage()
  return {
    descriptors = descriptors(),
    processes = #process.list(),
    threads = status_of "Threads",
    rss_kib = status_of "VmRSS",
    lua_kib = collectgarbage "count",
  }
end

local function eventually(what, holds)
  local until_then = process.now() + WAIT
  while not holds() do
    expect(process.now() < until_then, "%s", what())
    process.sleep(0.02)
  end
end

-- ==}

local function act(random, name)
  local watchdog = process.after(LONGEST, function()
    io.stderr:write(("soak: seed %d: '%s' does not end\n"):format(seed, name))
    for _, p in ipairs(process.list()) do
      io.stderr:write(p.name or p.id, " ", p:status(), "\n", p:traceback(), "\n")
    end
    os.exit(1)
  end)
  action[name](random)
  watchdog:cancel()
  add "actions"
end

process.params.thread_idle = 0.05
for i = 1, 2 do servers[i] = start({ name = "server " .. i }, "vms_served") end

-- The first of each action makes what exists once.
local warm = Random.new(seed)
for _, name in ipairs(actions) do act(warm, name) end
-- The thread that starts commands begins with the first command of a thread other than the first.
process.spawn({ thread = "commands" }, function() io.popen("true"):close() end):join()
process.sleep(4 * process.params.thread_idle)
local begin = held()

local deadline, done = process.now() + seconds, false
local ticker = process.spawn({ daemon = true }, function()
  while true do
    process.sleep(1)
    print("progress", count.actions)
    io.stdout:flush()
  end
end)
process.scope(function(scope)
  for number = 1, ACTORS do
    scope:spawn(function()
      local random = Random.new(seed * 1000 + number)
      while process.now() < deadline do act(random, random:pick(actions)) end
    end)
  end
end)
ticker:kill()
ticker:join()

expect(words:load(ADDED) == count.added,
  "%d was added and %d is there", count.added, words:load(ADDED))
expect(words:load(PROXIED) == by_proxy,
  "%d calls by proxy were made and %d came", words:load(PROXIED), by_proxy)
expect(#dict == 0, "%d keys are left in the dictionary", #dict)

local now
eventually(function()
  local names = {}
  for i, p in ipairs(process.list()) do names[i] = p.name or p.id end
  return ("left: %d threads (%d at first), %d processes (%d), %d descriptors (%d): %s"):format(
    now.threads, begin.threads, now.processes, begin.processes, now.descriptors, begin.descriptors,
    table.concat(names, ", "))
end, function()
  now = held()
  return now.threads <= begin.threads and now.processes <= begin.processes
    and now.descriptors <= begin.descriptors
end)
expect(now.lua_kib < begin.lua_kib + 1000, "%.0f KiB of Lua's memory are left", now.lua_kib)
expect(now.rss_kib < begin.rss_kib + 60000, "%d KiB of memory are left, %d at first", now.rss_kib,
  begin.rss_kib)
for _, server in ipairs(servers) do kill(server) end

add("by_proxy", by_proxy)
for _, name in ipairs { "actions", "started", "kills", "calls", "by_proxy", "messages", "moves" } do
  print(name, count[name])
end
print(("lua_kib %.0f"):format(now.lua_kib))
print("rss_kib", now.rss_kib)
print "passed"
