-- Calls through the ffi do not stop other processes.
local check = require "check"
local ffi = require "baton.ffi"
local process = require "baton.process"
local subject = require "ffi.subject"
local case = {}

-- Returns a flag in C memory. A process sets it after it has slept 20 times.
local function flag_after_ticks()
  local flag = ffi.new "char[1]"
  process.spawn(function()
    for _ = 1, 20 do process.sleep(0.001) end
    flag[0] = 1
  end)
  return flag
end

function case.a_long_call_does_not_stop_a_ticker()
  check.equal(process.spawn(subject.subject_await, flag_after_ticks()):join(), true)
end

function case.the_main_process_may_call_long()
  check.that(subject.subject_await(flag_after_ticks()) > 0)
end

-- Waits until so many calls are inside subject_await. Before that, their processes may be foreign
-- only for a moment.
local function are_inside(count)
  check.eventually(
    "so many await their flag",
    function() return subject.subject_awaiting() == count end
  )
end

function case.ten_long_calls_overlap()
  local flag, all = ffi.new "char[1]", {}
  for i = 1, 10 do all[i] = process.spawn(subject.subject_await, flag) end
  are_inside(10)
  for i = 1, 10 do check.becomes(all[i], "foreign") end
  for i = 1, 10 do check.equal(all[i]:status(), "foreign") end
  flag[0] = 1
  for i = 1, 10 do check.equal(all[i]:join(), true) end
end

function case.results_of_a_call_that_was_retaken_are_right()
  local all = {}
  for i = 1, 30 do
    all[i] = process.spawn(function()
      for k = 1, 10 do check.equal(subject.subject_sleep_ms(k % 3), k % 3) end
      return i
    end)
  end
  for i = 1, 30 do check.results("process", { true, i }, all[i]:join()) end
end

function case.many_processes_call_shortly_while_others_call_long()
  local stop = false
  local long = {}
  for i = 1, 4 do
    long[i] = process.spawn(function()
      while not stop do subject.subject_sleep_ms(3) end
    end)
  end
  local short = {}
  for i = 1, 4 do
    short[i] = process.spawn(function()
      local sum = 0
      for k = 1, 100000 do sum = subject.subject_add(sum, k % 3) end
      return sum
    end)
  end
  for i = 1, 4 do check.results("sum", { true, 100000 // 3 * 3 + 1 }, short[i]:join()) end
  stop = true
  for i = 1, 4 do check.equal(long[i]:join(), true) end
end

-- A callback that waits leaves C frames on its thread. A call of an unknown function on that thread
-- does not delay it.
function case.a_first_long_call_does_not_delay_a_callback_that_waits()
  local qsort = ffi.fn [[
    void qsort(void *base, size_t count, size_t size, int (*compare)(const void *, const void *))
  ]]
  local may_end = process.semaphore(0)
  local array = ffi.new("int[2]", 2, 1)
  local sorter = process.spawn(function()
    qsort(array, 2, ffi.sizeof "int", ffi.cast("int (*)(const void *, const void *)", function()
      may_end:wait()
      return 1
    end))
    return array[0]
  end)
  check.becomes(sorter, "waiting")
  local flag = ffi.new "char[1]"
  local fresh = ffi.fn("int subject_await(char *flag)", subject)
  -- lasts until the flag is set, which does not need the process that sorts
  local caller = process.spawn(fresh, flag)
  check.becomes(caller, "foreign")
  may_end:signal()
  check.results("sorter", { true, 1 }, sorter:join(20))
  flag[0] = 1
  check.equal(caller:join(), true)
end

function case.a_kill_takes_effect_when_the_call_returns()
  local flag = ffi.new "char[1]"
  local p = process.spawn(function()
    subject.subject_await(flag)
    error "not reached"
  end)
  are_inside(1)
  check.becomes(p, "foreign")
  p:kill "enough"
  check.equal(p:status(), "foreign")
  flag[0] = 1
  check.results("join", { false, "enough" }, p:join())
end

function case.a_bound_process_makes_its_calls_on_its_thread()
  local home = subject.subject_thread()
  local p = process.spawn({ thread = "main" }, function()
    local list = {}
    for i = 1, 20 do
      subject.subject_sleep_ms(1)
      list[i] = subject.subject_thread()
    end
    return list
  end)
  local busy = process.spawn(function()
    for _ = 1, 50 do subject.subject_sleep_ms(1) end
  end)
  local _, list = p:join()
  for i = 1, 20 do check.equal(list[i], home) end
  busy:join()
end

-- Also if the fork itself was such a call: then the child's only thread is in that call.
function case.a_forks_child_makes_calls_that_last()
  local fork = ffi.blocking(ffi.fn "int fork(void)")
  local nap = ffi.blocking(ffi.fn("int subject_sleep_ms(int ms)", subject))
  local wait_for = ffi.timeout(ffi.fn "int waitpid(int pid, int *status, int options)", 30)
  local status = ffi.new "int[1]"
  local p = process.spawn(function()
    local pid = fork()
    if pid == 0 then
      for _ = 1, 3 do nap(1) end
      ffi.fn "void _exit(int status)"(42)
    end
    local ended, why = pcall(wait_for, pid, status, 0)
    if not ended then ffi.fn "int kill(int pid, int signal)"(pid, 9) end
    check.that(ended, why)
  end)
  check.results("parent", { true }, p:join())
  check.equal(status[0] >> 8, 42)
end

check.run(case)
