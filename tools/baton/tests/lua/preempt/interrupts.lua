-- External events while a process computes: timers, calls that return, callbacks of unknown
-- threads, and SIGINT.
local check = require "check"
local ffi = require "baton.ffi"
local process = require "baton.process"
local subject = require "ffi.subject"
local matrix = require "waking_matrix"
local case = {}

-- `arrange(seconds, f)` runs in a process of the highest priority. It lets a process of that
-- priority call `f` later. The waker only computes until then. If the event comes too late for that
-- on a busy machine, the test starts again with more time.
local function from_outside(arrange)
  return function(attempt)
    local event, delay = process.event(), 0.002 * 2 ^ attempt
    local due = process.now() + delay
    process.spawn({ priority = 80 }, arrange, delay, function() event:set() end)
    return {
      wait = function() event:wait() end,
      wake = function()
        while process.now() < due + 0.002 do end
      end,
      is_late = function() return process.now() >= due end,
    }
  end
end

local ways = {
  after = from_outside(process.after),
  every = from_outside(function(seconds, f)
    local timer
    timer = process.every(seconds, function()
      timer:cancel()
      f()
    end)
  end),
  call = from_outside(function(seconds, f)
    subject.subject_sleep_ms(math.ceil(seconds * 1000))
    f()
  end),
  callback = from_outside(function(seconds, f)
    subject.subject_keep(function()
      f()
      return 0
    end)
    check.equal(subject.subject_call_kept_later(math.ceil(seconds * 1000)), 0)
  end),
}

function case.by_a_timer() matrix.try_all(ways, "after") end
function case.by_a_timer_that_fires_again_and_again() matrix.try_all(ways, "every") end
function case.by_a_call_that_returns() matrix.try_all(ways, "call") end
function case.by_a_callback_of_a_foreign_thread() matrix.try_all(ways, "callback") end

ffi.cdef "int raise(int);"

-- SIGINT ends a wait of the main process, which has the given priority. Use it once per program.
-- The waker sends it in a critical section: outside of one, other processes might run during the
-- call.
local function by_the_signal(waker_is_preemptible, level, act)
  check.without_slices()
  local course = { expected = matrix.wanted(waker_is_preemptible, level, true, act) }
  local waker, never = nil, process.event()
  process.main:set_priority(80)
  process.after(0.001, function()
    check.becomes(process.main, "waiting")
    process.main:set_priority(level)
    waker = matrix.spawn_waker(waker_is_preemptible, course, true, act, function()
      check.equal(ffi.C.raise(2), 0)
      local until_then = process.now() + 0.005
      while process.now() < until_then do end
    end)
  end)
  local ok, message = pcall(never.wait, never)
  course.ran_in = course.phase -- set before any call during which others might run
  check.equal(ok, false)
  check.matches(message, "interrupted!")
  check.results("waker", { true }, waker:join())
  check.equal(course.ran_in, course.expected)
end

function case.the_signal_lets_a_more_urgent_main_process_interrupt()
  by_the_signal(true, 41, "nothing")
end
function case.the_signal_does_not_let_an_equal_main_process_interrupt()
  by_the_signal(true, 40, "nothing")
end
function case.an_equal_main_process_runs_when_the_other_yields()
  by_the_signal(true, 40, "yield")
end
function case.a_yield_does_not_let_a_less_urgent_main_process_run()
  by_the_signal(true, 39, "yield")
end
function case.a_less_urgent_main_process_runs_when_the_other_sleeps()
  by_the_signal(true, 39, "sleep")
end
function case.the_signal_does_not_interrupt_a_cooperative_process()
  by_the_signal(false, 41, "nothing")
end
function case.a_more_urgent_main_process_runs_when_a_cooperative_one_yields()
  by_the_signal(false, 41, "yield")
end

check.run(case)
