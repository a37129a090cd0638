-- What is handed to a process that dies before it can use it goes to the next one.
local check = require "check"
local process = require "baton.process"
local vm = require "baton.vm"
local case = {}

local function waiting(f)
  local p = process.spawn(f)
  check.becomes(p, "waiting")
  return p
end

-- Two processes wait by `wait`, and `give` is called once. The first one is killed before it
-- continues, so the second one gets what was given.
local function passes_on(what, wait, give)
  check.without_slices()
  local first, second = waiting(wait), waiting(wait)
  process.critical(function()
    give()
    first:kill()
  end)
  check.results(what, { true, what }, second:join())
  check.results(what, { false, "killed" }, first:join())
end

-- Returns a function that waits by object:method(...), and then returns `what`.
local function waits(what, object, method, ...)
  local arguments = table.pack(...)
  return function()
    check.that(object[method](object, table.unpack(arguments)), what)
    return what
  end
end

local function selects(what, object)
  return function()
    check.equal(process.select { object }, 1)
    return what
  end
end

function case.a_unit_of_a_semaphore_is_passed_on()
  local s = process.semaphore()
  passes_on("wait", waits("wait", s, "wait"), function() s:signal() end)
  passes_on("select", selects("select", s), function() s:signal() end)
  check.equal(s:count(), 0)
end

function case.a_lock_is_passed_on()
  local m, l = process.mutex(), process.rwlock()
  local function holding(what, lock, unlock, wait)
    lock()
    passes_on(what, wait, unlock)
    check.results(what, { true, "abandoned" }, lock()) -- the second one has died with it
    unlock()
  end
  local function unlock() m:unlock() end
  local function lock() return m:lock() end
  holding("lock", lock, unlock, waits("lock", m, "lock"))
  holding("select", lock, unlock, selects("select", m))
  local function leave() l:unlock() end
  local function write() return l:write() end
  holding("write", write, leave, waits("write", l, "write"))
end

function case.a_message_is_passed_on()
  for _, ch in ipairs { process.channel(), process.channel(1), vm.channel(1) } do
    passes_on("receive", waits("receive", ch, "receive"), function() ch:send(1) end)
    passes_on("select", selects("select", ch), function() ch:send(1) end)
  end
end

function case.a_wake_up_at_a_word_is_passed_on()
  local words = vm.shared(1)
  passes_on("wait", waits("wait", words, "wait", 1, 0), function() words:wake(1) end)
end

function case.what_wakes_all_wakes_those_beside_a_killed_one()
  local event, timer, barrier = process.event(), process.timer(1000), process.barrier(3)
  passes_on("event", waits("event", event, "wait"), function() event:set() end)
  passes_on("timer", waits("timer", timer, "wait"), function() timer:set(0) end)
  passes_on("barrier", waits("barrier", barrier, "wait"), function() barrier:wait() end)
end

-- Kills a process that was signalled, at the moment that `kill` chooses. Returns what the other
-- waiter of the condition gets.
local function signal_and_kill(kill)
  check.without_slices()
  local m = process.mutex()
  local c = process.condition(m)
  local begun = 0
  local function wait()
    m:lock()
    begun = begun + 1
    local result, why = c:wait(5)
    m:unlock()
    return result, why
  end
  local function spawn(number)
    local p = process.spawn(wait)
    -- whoever has the mutex then sees that the process waits for the condition
    check.eventually("it waits", function()
      return m:with(function() return begun == number end)
    end)
    return p
  end
  local first, second = spawn(1), spawn(2)
  m:lock()
  process.critical(function()
    c:signal()
    kill(first, m)
  end)
  check.results("first", { false, "killed" }, first:join())
  return second:join()
end

-- Guards against a signal that is lost with its receiver.
function case.a_signal_is_passed_on_by_a_process_killed_while_it_waits_for_the_mutex()
  check.results("second", { true, true, "abandoned" }, signal_and_kill(function(p, m)
    p:kill()
    m:unlock()
  end))
end

function case.a_signal_is_passed_on_by_a_process_killed_twice()
  check.results("second", { n = 3, true, true, nil }, signal_and_kill(function(p, m)
    p:kill()
    p:kill()
    m:unlock()
  end))
end

function case.a_signal_is_passed_on_by_a_process_killed_with_the_mutex()
  check.results("second", { true, true, "abandoned" }, signal_and_kill(function(p, m)
    m:unlock()
    p:kill()
  end))
end

-- One dies while it holds the lock, the next one before it can look. The third one is told.
local function is_told(lock)
  check.without_slices()
  local holder = process.spawn(function()
    lock()
    process.sleep(1000)
  end)
  check.becomes(holder, "sleeping")
  local first, second = waiting(lock), waiting(lock)
  local ends = process.channel(1)
  holder:monitor(ends)
  local killer = process.spawn({ priority = 70 }, function()
    ends:receive()
    first:kill()
  end)
  check.becomes(killer, "waiting")
  holder:kill()
  check.results("first", { false, "killed" }, first:join())
  return second:join()
end

-- Guards against a lock whose next owner is not told that the last one died with it.
function case.an_abandoned_lock_is_passed_on_as_abandoned()
  local m, selected, l = process.mutex(), process.mutex(), process.rwlock()
  check.results("mutex", { true, true, "abandoned" }, is_told(function() return m:lock() end))
  check.results("rwlock", { true, true, "abandoned" }, is_told(function() return l:write() end))
  check.results("select", { true, 1, true, "abandoned" }, is_told(
    function() return process.select { selected } end
  ))
end

-- Guards against a timer that ends with a process it has started.
function case.a_timer_goes_on_after_a_firing_was_killed_before_it_ran()
  for _, is_watched in ipairs { false, true } do
    local fired, killed = 0, 0
    local timer = process.every({ 0.001, name = "tick" }, function() fired = fired + 1 end)
    local ends = process.channel(100)
    process.spawn({ priority = 60 }, function()
      while killed < 3 do
        for _, p in ipairs(process.list()) do
          if p.name == "tick" and p:status() == "runnable" then
            if is_watched then p:monitor(ends) end
            p:kill()
            killed = killed + 1
          end
        end
      end
    end):join()
    local before = fired
    check.eventually("it fires again", function() return fired > before + 2 end)
    timer:cancel()
  end
end

check.run(case)
