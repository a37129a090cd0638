-- Wakes a process in each way in which another process or the clock can wake it; see
-- waking_matrix.lua.
local check = require "check"
local process = require "baton.process"
local matrix = require "waking_matrix"
local case = {}

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
  return {
    wait = function() process.select { first, second } end,
    wake = function() second:send(1) end,
  }
end

function ways.select_event()
  local channel, event = process.channel(0), process.event()
  return {
    wait = function() process.select { channel, event } end,
    wake = function() event:set() end,
  }
end

function ways.select_semaphore()
  local channel, semaphore = process.channel(0), process.semaphore(0)
  return {
    wait = function() process.select { semaphore, channel } end,
    wake = function() semaphore:signal() end,
  }
end

function ways.timer()
  local timer = process.timer(matrix.LONG)
  return { wait = function() timer:wait() end, wake = function() timer:set(0) end }
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
  return {
    wait = function() process.sleep(matrix.LONG) end,
    wake = function(target) target:kill() end,
  }
end

function ways.priority() -- it is runnable, and its priority changes
  return {
    wait = function() end,
    wake = function(target, level) target:set_priority(level) end,
    level = 1,
  }
end

-- An external wake-up by the clock. The waker only computes meanwhile. If the wake-up comes too
-- late on a busy machine, it starts again with more time.
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

function case.by_a_signal() matrix.try_all(ways, "signal") end
function case.by_a_value() matrix.try_all(ways, "send") end
function case.by_taking_a_value() matrix.try_all(ways, "receive") end
function case.by_closing_a_channel() matrix.try_all(ways, "close") end
function case.out_of_a_choice() matrix.try_all(ways, "select") end
function case.out_of_a_choice_by_an_event() matrix.try_all(ways, "select_event") end
function case.out_of_a_choice_by_a_semaphore() matrix.try_all(ways, "select_semaphore") end
function case.by_setting_a_timer() matrix.try_all(ways, "timer") end
function case.by_an_event() matrix.try_all(ways, "event") end
function case.by_a_condition() matrix.try_all(ways, "condition") end
function case.by_the_last_one_at_a_barrier() matrix.try_all(ways, "barrier") end
function case.by_resuming() matrix.try_all(ways, "resume") end
function case.by_a_kill() matrix.try_all(ways, "kill") end
function case.by_a_priority() matrix.try_all(ways, "priority") end
function case.by_the_clock() matrix.try_all(ways, "deadline") end

check.run(case)
