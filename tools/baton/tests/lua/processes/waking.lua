-- Waking a process, in all combinations of who wakes whom, how, which of the two may be interrupted, inside of a critical section or not, and what the waker
-- does then. In the spirit of Zephyr's tests/kernel/sched/preempt.
local check = require "check"
local process = require "baton.process"
local case = {}

local LEVEL = 40 -- the waker's
local LONG = 120 -- seconds: it does not come to that

-- Ways to wait and to be woken. `wait()` is the target's part, `wake(target)` the waker's, `is_late()`, if there is one, says that the target was not woken in time by it.
local ways = {}

function ways.signal()
  local semaphore = process.semaphore(0)
  return { wait = function() semaphore:wait() end, wake = function() semaphore:signal() end }
end

function ways.send()
  local channel = process.channel(0)
  return { wait = function() channel:receive() end, wake = function() channel:send(1) end }
end

function ways.receive()
  local channel = process.channel(0)
  return { wait = function() channel:send(1) end, wake = function() channel:receive() end }
end

function ways.close()
  local channel = process.channel(0)
  return { wait = function() channel:receive() end, wake = function() channel:close() end }
end

function ways.select()
  local first, second = process.channel(0), process.channel(0)
  return { wait = function() process.select { first, second } end, wake = function() second:send(1) end }
end

function ways.event()
  local event = process.event()
  return { wait = function() event:wait() end, wake = function() event:set() end }
end

function ways.condition()
  local mutex = process.mutex()
  local condition = process.condition(mutex)
  return {
    wait = function()
      mutex:lock()
      condition:wait()
      mutex:unlock()
    end,
    wake = function() condition:signal() end,
  }
end

function ways.barrier()
  local barrier = process.barrier(2)
  return { wait = function() barrier:wait() end, wake = function() barrier:wait() end }
end

function ways.resume()
  return { wait = function() process.suspend() end, wake = function(target) target:resume() end }
end

function ways.kill()
  return { wait = function() process.sleep(LONG) end, wake = function(target) target:kill() end }
end

function ways.priority() -- it is runnable, and becomes more urgent or less
  return { wait = function() end, wake = function(target, level) target:set_priority(level) end, level = 1 }
end

-- By the clock, from outside of the program: the waker only computes meanwhile. If the machine was busy and it comes too late for that, all is begun again,
-- with more time.
function ways.deadline(attempt)
  local due = math.huge
  return {
    wait = function()
      due = process.now() + 0.002 * 2 ^ attempt
      process.sleep_until(due)
    end,
    wake = function()
      while process.now() < due + 0.002 do end
    end,
    is_late = function() return process.now() >= due end,
  }
end

-- When the target runs: in which part of the waker's life. That does not depend on whether the target may be interrupted itself.
local function wanted(is_preemptible, level, is_locked, act)
  if is_preemptible and level > LEVEL then return is_locked and "leaving" or "waking" end
  if act == "sleep" or act == "yield" and level >= LEVEL then return "acting" end
  return "ended"
end

local kinds = { [true] = "preemptible", [false] = "cooperative" }

-- For the woken process: whether somebody more urgent interrupts it. If not, it gives way when it yields.
local function is_interrupted()
  local came = false
  local intruder = process.spawn({ priority = 80 }, function() came = true end)
  local at_once = came
  process.yield()
  check.equal(came, true, "somebody more urgent runs when it yields")
  intruder:join()
  return at_once
end

local function try(way, waker_is_preemptible, target_is_preemptible, level, is_locked, act, attempt)
  local what = ("%s, a %s waker, a %s target of level %d, %s, then %s"):format(
    way, kinds[waker_is_preemptible], kinds[target_is_preemptible], level, is_locked and "in a section" or "outside", act
  )
  local expected = wanted(waker_is_preemptible, level, is_locked, act)
  local how, phase, ran_in, was_interrupted, is_late = ways[way](attempt), "before", nil, nil, false
  local target = process.spawn({ priority = how.level or level, preemptible = target_is_preemptible, quiet = true }, function()
    local _ <close> = check.closing(function()
      ran_in = phase
      was_interrupted = is_interrupted()
    end)
    how.wait()
  end)
  if not how.level then
    check.eventually(what .. ": the target waits", function()
      local status = target:status()
      return status == "waiting" or status == "sleeping" or status == "suspended" or how.is_late and status == "dead"
    end)
  end

  -- Until the target has run, if it must in this phase.
  local function linger()
    local limit = process.now() + LONG
    while phase == expected and not ran_in and process.now() < limit do end
  end

  local function wake()
    is_late = how.is_late ~= nil and how.is_late()
    if not is_late then how.wake(target, level) end
  end

  local acts = {
    nothing = function() end,
    yield = function()
      local times = expected == "acting" and math.huge or 10
      repeat
        process.yield()
        times = times - 1
      until ran_in or times == 0
    end,
    sleep = function()
      repeat process.sleep(0.001) until ran_in
    end,
  }
  local waker = process.spawn({ priority = LEVEL, preemptible = waker_is_preemptible }, function()
    phase = "waking"
    if is_locked then
      process.critical(function()
        wake()
        phase = "leaving"
      end)
    else
      wake()
    end
    if is_late then return end
    linger()
    phase = "acting"
    acts[act]()
    phase = "ended"
  end)
  check.results(what, { true }, waker:join())
  target:join()
  if is_late then return try(way, waker_is_preemptible, target_is_preemptible, level, is_locked, act, attempt + 1) end
  check.equal(ran_in, expected, what)
  check.equal(was_interrupted, target_is_preemptible, what .. ": the target is interrupted")
end

local function try_all(way)
  check.without_slices()
  for _, waker_is_preemptible in ipairs { true, false } do
    for _, target_is_preemptible in ipairs { true, false } do
      for level = LEVEL - 1, LEVEL + 1 do
        for _, is_locked in ipairs { false, true } do
          for _, act in ipairs { "nothing", "yield", "sleep" } do
            try(way, waker_is_preemptible, target_is_preemptible, level, is_locked, act, 1)
          end
        end
      end
    end
  end
end

function case.by_a_signal() try_all "signal" end
function case.by_a_value() try_all "send" end
function case.by_taking_a_value() try_all "receive" end
function case.by_closing_a_channel() try_all "close" end
function case.out_of_a_choice() try_all "select" end
function case.by_an_event() try_all "event" end
function case.by_a_condition() try_all "condition" end
function case.by_the_last_one_at_a_barrier() try_all "barrier" end
function case.by_resuming() try_all "resume" end
function case.by_a_kill() try_all "kill" end
function case.by_a_priority() try_all "priority" end
function case.by_the_clock() try_all "deadline" end

check.run(case)
