-- Callbacks from threads that the VM does not know.
local check = require "check"
local ffi = require "baton.ffi"
local process = require "baton.process"
local subject = require "ffi.subject"
local case = {}

-- On a busy machine, a thread that calls back while it holds a lock may be stopped for long.
process.params.warn_blocked = 60

-- Counts the callbacks that are running. The update is one step, since a switch may come in the
-- middle of `n = n + 1`. Returns the count.
local function counter()
  local self = { at_once = 0, most = 0 }
  function self.add(more)
    return process.critical(function()
      self.at_once = self.at_once + more
      self.most = math.max(self.most, self.at_once)
      return self.at_once
    end)
  end
  return self
end

function case.eight_threads_call_back_at_once()
  local calls, inside, all_there = {}, counter(), process.event()
  local sum = subject.subject_call_from_threads(function(thread, i)
    if inside.add(1) == 8 then all_there:set() end
    if i == 1 then all_there:wait() end
    if i % 50 == 0 then process.sleep(0.001) end
    calls[thread] = (calls[thread] or 0) + 1
    inside.add(-1)
    return thread
  end, 8, 500)
  check.equal(sum, 500 * 36)
  for thread = 1, 8 do check.equal(calls[thread], 500) end
  check.equal(inside.most, 8, "callbacks overlap")
end

function case.visits_may_wait_for_each_other()
  local arrived, all_there = counter(), process.event()
  check.equal(subject.subject_call_from_threads(function()
    if arrived.add(1) == 20 then all_there:set() end
    all_there:wait()
    return 1
  end, 20, 3), 60)
end

function case.threads_beyond_the_limit_wait()
  local inside, enough = counter(), process.event()
  check.equal(subject.subject_call_from_threads(function()
    if inside.add(1) == 20 then enough:set() end
    enough:wait()
    process.sleep(0.05)
    inside.add(-1)
    return 1
  end, 100, 1), 100)
  check.within(inside.most, 20, 64)
end

function case.others_go_on_while_threads_call_back()
  local ticks = 0
  process.spawn({ daemon = true }, function()
    while true do
      ticks = ticks + 1
      process.sleep(0.001)
    end
  end)
  subject.subject_call_from_threads(function() process.sleep(0.001) return 1 end, 4, 20)
  check.that(ticks > 0)
end

function case.an_idle_program_is_woken_by_a_visit()
  local event = process.event()
  subject.subject_keep(function() event:set() return 0 end)
  check.equal(subject.subject_call_kept_later(20), 0)
  check.equal(event:wait(30), true)
end

function case.a_program_in_which_all_wait_for_a_visit_is_not_dead()
  local event = process.event()
  subject.subject_keep(function() event:set() return 0 end)
  check.equal(subject.subject_call_kept_later(100), 0)
  check.equal(event:wait(), true)
end

function case.a_long_wait_for_a_callback_is_no_deadlock()
  local event = process.event()
  subject.subject_keep(function() event:set() return 0 end)
  check.equal(subject.subject_call_kept_later(3500), 0)
  check.equal(event:wait(), true)
end

function case.a_visit_waits_until_a_critical_section_ends()
  local calls = 0
  subject.subject_keep(function()
    calls = calls + 1
    return 1
  end)
  for _ = 1, 10 do
    local before = calls
    process.critical(function()
      subject.subject_call_kept_later(1)
      local until_then = process.now() + 0.02
      while process.now() < until_then do check.fib(5) end
      subject.subject_sleep_ms(5)
      check.equal(calls, before, "nobody calls into the section")
    end)
    check.eventually("the call comes after it", function() return calls == before + 1 end)
  end
end

-- A regression test: a finalizer ran while the listener was being made, and the listener ran
-- without its function.
function case.a_listener_is_complete_before_other_processes_run()
  collectgarbage("incremental", 1, 1000, 1)
  local function litter() setmetatable({}, { __gc = function() process.yield() end }) end
  check.equal(subject.subject_call_from_threads(function()
    for _ = 1, 20 do litter() end
    process.sleep(0.001)
    return 1
  end, 60, 5), 300)
end

-- A regression test: callbacks waited for a native thread, while the calls that they belong to held
-- all native threads.
function case.callbacks_do_not_wait_for_the_threads_that_their_own_calls_keep()
  process.params.max_threads = 3
  local function first_line()
    local pipe = io.popen "echo 1"
    local line = pipe:read "l"
    pipe:close()
    return tonumber(line)
  end
  local visited, nested = {}, {}
  for i = 1, 4 do
    visited[i] = process.spawn(subject.subject_call_from_threads, first_line, 2, 3)
    nested[i] = process.spawn(subject.subject_call, function() return first_line() end, 1)
  end
  for i = 1, 4 do
    check.results("visited", { true, 6 }, visited[i]:join(60))
    check.results("nested", { true, 1 }, nested[i]:join(60))
  end
end

check.run(case)
