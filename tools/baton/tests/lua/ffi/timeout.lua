-- Calls with timeouts.
local check = require "check"
local ffi = require "baton.ffi"
local process = require "baton.process"
local subject = require "ffi.subject"
local case = {}

local function fresh(prototype, seconds) return ffi.timeout(ffi.fn(prototype, subject), seconds) end
local await = "int subject_await(const volatile char *flag)"

-- For tests of exact order: no process is preempted, and no call counts as long because the system
-- keeps its thread waiting.
local function exactly_in_order()
  check.without_slices()
  process.params.window = 3600
end

function case.a_call_in_time_answers()
  local add = fresh("int subject_add(int a, int b)", 60)
  for i = 1, 50 do check.equal(add(i, 1), i + 1) end
  local mirror = fresh("struct point subject_mirror(struct point p)", 60)
  local p = mirror { 3, 4 }
  check.list({ p.x, p.y }, { 4, 3 })
  check.equal(fresh("int subject_sum(int count, ...)", 60)(3, 1, 2, 3), 6)
  fresh("int subject_fail(int with)", 60)(44)
  check.equal(ffi.errno(), 44)
  fresh("int subject_add(int a, int b)", 60)(1, 2)
  check.equal(ffi.errno(), 44, "what a call leaves alone stays")
  check.raises("bad argument #2 to 'subject_add'", add, 1, "two")
end

function case.a_call_that_takes_too_long_raises_and_is_abandoned()
  local flag = ffi.new "char[1]"
  local call = fresh(await, 0.05)
  check.raises("'subject_await' timed out", call, flag)
  check.raises("'subject_await' timed out", call, flag)
  flag[0] = 1
  check.that(ffi.timeout(call, 60)(flag) >= 0)
end

function case.a_kill_ends_a_process_whose_call_goes_on()
  local flag, log = ffi.new "char[1]", {}
  local call = fresh(await, math.huge)
  local p = process.spawn(function()
    local _ <close> = check.closing(function() log[#log + 1] = "closed" end)
    call(flag)
  end)
  check.becomes(p, "waiting")
  p:kill "enough"
  check.results("join", { false, "enough" }, p:join())
  check.list(log, { "closed" })
  flag[0] = 1
end

function case.memory_of_an_abandoned_call_is_not_collected()
  local collected, flag = false, ffi.new "char[1]"
  local fill = fresh("void subject_fill_later(int ms, char *to, int byte, size_t size)", 0.01)
  local wait = fresh(await, 0.01)
  check.raises("timed out", function()
    wait(ffi.gc(ffi.new "char[1]", function() collected = true end))
  end)
  -- On a busy machine one call may still return in time.
  check.eventually("a call is abandoned", function()
    local in_time, message = pcall(fill, 100, ffi.new "char[100000]", 1, 100000)
    check.that(in_time or message:find "timed out", message)
    return not in_time
  end)
  for _ = 1, 50 do
    collectgarbage()
    process.sleep(0.003)
  end
  check.equal(collected, false)
end

function case.memory_of_a_call_that_returned_late_is_freed()
  local collected, flag = false, nil
  local wait = fresh(await, 0.01)
  check.raises("timed out", function()
    flag = ffi.gc(ffi.new "char[1]", function() collected = true end)
    wait(flag)
  end)
  flag[0] = 1
  flag = nil
  local add = fresh("int subject_add(int a, int b)", 60)
  check.eventually("it is collected", function()
    add(1, 1)
    collectgarbage()
    return collected
  end)
end

function case.many_calls_run_beside_each_other_and_some_time_out()
  local flag = ffi.new "char[1]"
  local slow, quick = fresh(await, 0.1), fresh("int subject_sleep_ms(int ms)", 60)
  local all = {}
  for i = 1, 10 do
    all[i] = process.spawn(
      { quiet = true },
      function() return pcall(i % 2 == 0 and slow or quick, i % 2 == 0 and flag or i) end
    )
  end
  for i = 1, 10 do
    local _, ok, value = all[i]:join()
    if i % 2 == 0 then
      check.equal(ok, false)
      check.matches(value, "timed out")
    else
      check.equal(value, i)
    end
  end
  flag[0] = 1
end

function case.callbacks_of_such_a_call_are_made_for_it()
  local call = fresh("int subject_call_often(int (*f)(int), int count)", 60)
  check.equal(call(function(i) return i end, 10), 55)
end

function case.a_timeout_before_a_thread_is_free_names_the_limit()
  process.params.max_threads = 3
  local flag = ffi.new "char[1]"
  local call = fresh(await, 0.01)
  for _ = 1, 3 do check.raises("'subject_await' timed out$", call, flag) end
  check.raises(
    "timed out while it waited for a thread: 3 calls with a timeout are going on.*max_threads",
    call,
    flag
  )
  flag[0] = 1
end

function case.calls_beyond_the_limit_wait_in_order()
  exactly_in_order()
  process.params.max_threads = 1
  local flag, log = ffi.new "char[1]", {}
  local call, add = fresh(await, 60), fresh("int subject_add(int a, int b)", math.huge)
  local first = process.spawn(call, flag)
  process.yield()
  local all = {}
  for i = 1, 8 do
    all[i] = process.spawn(function()
      add(i, 0)
      log[#log + 1] = i
    end)
  end
  process.yield()
  all[3]:kill "impatient"
  flag[0] = 1
  check.equal(first:join(), true)
  for i = 1, 8 do check.equal(all[i]:join(), i ~= 3) end
  check.list(log, { 1, 2, 4, 5, 6, 7, 8 })
end

-- Killed processes see the kill even while the free thread is promised to the first waiter.
function case.leaving_the_queue_moves_no_other_waiter_back()
  exactly_in_order()
  process.params.max_threads = 1
  local add = fresh("int subject_add(int a, int b)", math.huge)
  for _ = 1, 20 do
    local flag, log, all = ffi.new "char[1]", {}, {}
    local first = process.spawn(fresh(await, 60), flag)
    process.yield()
    for i = 1, 6 do
      all[i] = process.spawn(function()
        add(i, 0)
        log[#log + 1] = i
      end)
    end
    process.yield()
    all[6]:kill()
    all[5]:kill()
    flag[0] = 1
    for _ = 1, 2e6 do end -- no other process runs, and the helper has time to become free
    check.equal(first:join(), true)
    for i = 1, 4 do check.equal(all[i]:join(), true) end
    check.list(log, { 1, 2, 3, 4 })
  end
end

function case.a_process_that_waits_for_a_thread_continues_when_the_limit_is_raised()
  process.params.max_threads = 1
  local flag, add = ffi.new "char[1]", fresh("int subject_add(int a, int b)", math.huge)
  local first = process.spawn(fresh(await, 60), flag)
  process.yield()
  local waiting = { process.spawn(add, 1, 2), process.spawn(add, 3, 4) }
  process.yield()
  process.params.max_threads = 2
  for i, p in ipairs(waiting) do check.results("sum", { true, 4 * i - 1 }, p:join()) end
  process.params.max_threads = 1
  flag[0] = 1
  check.equal(first:join(), true)
  check.equal(add(5, 6), 11)
end

function case.threads_are_used_again_and_end_when_idle()
  local names = "/proc/" .. ffi.fn "int getpid(void)"() .. "/task/*/comm"
  local function helpers()
    local n = 0
    for _ in io.popen("grep -l baton-helper " .. names .. " 2>&1"):lines() do n = n + 1 end
    return n
  end
  process.params.thread_idle = 1
  local gettid = ffi.timeout(ffi.fn "int gettid(void)", 60)
  local seen, distinct = {}, 0
  for _ = 1, 100 do
    local thread = gettid()
    if not seen[thread] then distinct = distinct + 1 end
    seen[thread] = true
  end
  -- If the only thread was too slow to return, another one is started.
  check.within(distinct, 1, 10)
  -- The check may take so long that it has ended by then.
  check.eventually("a thread is kept for the next call", function()
    gettid()
    return helpers() >= 1
  end)
  check.eventually("the threads have ended", function() return helpers() == 0 end)
end

function case.many_more_calls_than_threads_all_run()
  process.params.max_threads = 4
  local sleep, all = fresh("int subject_sleep_ms(int ms)", 60), {}
  for i = 1, 200 do all[i] = process.spawn(sleep, i % 3) end
  for i = 1, 200 do check.results("call", { true, i % 3 }, all[i]:join()) end
end

function case.a_timeout_can_be_taken_away()
  local sleep = fresh("int subject_sleep_ms(int ms)", 0.01)
  check.raises("timed out", sleep, 3600000)
  check.that(ffi.timeout(sleep, nil) == sleep)
  check.equal(sleep(100), 100)
  check.raises("positive", ffi.timeout, sleep, 0)
  check.raises("function of C expected", ffi.timeout, print, 1)
end

function case.the_program_ends_although_a_call_goes_on()
  local call = fresh(await, 0.01)
  check.raises("timed out", call, ffi.new "char[1]")
end

check.run(case)
