-- Calls that are known to be long start on another native thread.
local check = require "check"
local ffi = require "baton.ffi"
local process = require "baton.process"
local subject = require "ffi.subject"
local case = {}

-- Returns the function as a new one, with no learned durations.
local sleep_prototype = "int subject_sleep_ms(int ms)"
local function fresh(prototype) return ffi.fn(prototype or sleep_prototype, subject) end

local function moves_during(f, ...)
  local before = process.stats().moves
  f(...)
  return process.stats().moves - before
end

-- Runs f in a process beside the main one.
local function beside(f, ...)
  local ok, why = process.spawn({ quiet = true }, f, ...):join()
  if not ok then error(why, 0) end
end

function case.a_function_that_lasts_is_known_after_its_first_call()
  local sleep = fresh()
  beside(function()
    check.equal(moves_during(sleep, 5), 0)
    for _ = 1, 10 do check.equal(moves_during(sleep, 5), 1) end
  end)
end

function case.a_function_that_does_not_last_stays()
  local add = fresh "int subject_add(int a, int b)"
  beside(function()
    local moves = moves_during(function()
      for i = 1, 100000 do add(i, i) end
    end)
    check.within(moves, 0, 100) -- a call may be measured just when the system runs other threads
  end)
end

function case.a_function_that_becomes_short_stays_again()
  local sleep = fresh()
  beside(function()
    for _ = 1, 5 do sleep(5) end
    check.eventually("the call stays", function() return moves_during(sleep, 0) == 0 end)
  end)
end

function case.a_function_that_becomes_long_is_noticed_while_others_wait()
  local sleep = fresh()
  local stop
  process.spawn(function()
    while not stop do process.yield() end
  end)
  beside(function()
    for _ = 1, 1000 do sleep(0) end
    check.eventually("the call moves", function() return moves_during(sleep, 5) == 1 end)
  end)
  stop = true
end

function case.classes_can_be_declared()
  local blocking, nonblocking = ffi.blocking(fresh()), ffi.nonblocking(fresh())
  beside(function()
    check.equal(moves_during(blocking, 0), 1)
    for _ = 1, 5 do nonblocking(5) end
    check.equal(moves_during(nonblocking, 5), 0)
  end)
  check.raises("function of C expected, got function", ffi.blocking, print)
  check.raises("function of C expected", ffi.nonblocking, 1)
end

function case.processes_that_are_alone_or_bound_do_not_change_threads()
  local sleep = ffi.blocking(fresh())
  check.equal(moves_during(sleep, 1), 0)
  local home = subject.subject_thread()
  local thread = ffi.blocking(fresh "uintptr_t subject_thread(void)")
  beside(function() check.that(thread() ~= home) end)
  local p = process.spawn({ thread = "main" }, function() return thread() end)
  check.results("bound", { true, home }, p:join())
end

function case.the_vm_stays_while_callers_move()
  local sleep = ffi.blocking(fresh())
  local before = process.stats()
  local all = {}
  for i = 1, 20 do
    all[i] = process.spawn(function()
      for k = 1, 10 do check.equal(sleep(k % 3), k % 3) end
    end)
  end
  for i = 1, 20 do check.results("process", { true }, all[i]:join()) end
  local after = process.stats()
  check.equal(after.moves - before.moves, 200)
  check.that(
    after.handovers - before.handovers <= after.retakes - before.retakes,
    "only a surprise moves the VM"
  )
end

function case.a_call_that_moved_may_call_back()
  local call = ffi.blocking(fresh "int subject_call_and_compare(int (*f)(int), int a)")
  local sleep = ffi.blocking(fresh())
  local all = {}
  for i = 1, 10 do
    all[i] = process.spawn(function()
      for k = 1, 20 do
        check.equal(call(function(n)
          if k % 3 == 0 then process.sleep(0.001) end
          if k % 4 == 0 then sleep(1) end
          return k % 5 == 0 and call(function(m) return m * 2 end, n) or n * 2
        end, i), i * 2)
      end
    end)
  end
  for i = 1, 10 do check.results("process " .. i, { true }, all[i]:join()) end
end

function case.an_error_and_a_kill_find_a_call_that_moved()
  local call = ffi.blocking(fresh "int subject_call(int (*f)(int), int a)")
  local await = ffi.blocking(fresh "int subject_await(const volatile char *flag)")
  beside(function() check.raises("told", call, function() error "told" end, 1) end)
  local log, flag = {}, ffi.new "char[1]"
  local p = process.spawn(function()
    local _ <close> = check.closing(function() log[#log + 1] = "closed" end)
    await(flag)
    log[#log + 1] = "not reached"
  end)
  check.becomes(p, "foreign")
  p:kill "enough"
  flag[0] = 1
  check.results("join", { false, "enough" }, p:join())
  check.list(log, { "closed" })
end

function case.calls_beyond_the_limit_of_threads_wait()
  process.params.max_threads = 5
  local sleep = ffi.blocking(fresh())
  local all, start = {}, process.now()
  for i = 1, 16 do all[i] = process.spawn(sleep, 50) end
  for i = 1, 16 do check.results("call", { true, 50 }, all[i]:join()) end
  check.that(process.now() - start >= 0.2)
  check.that(process.stats().thread_bound_hits > 0)
  -- On a busy machine any call may last, and calls that were expected to be short use up to five
  -- more threads.
  check.within(process.threads(), 1, 5 + 5)
end

function case.calls_of_unknown_functions_beyond_the_limit_wait()
  process.params.max_threads = 3
  local all, flags = {}, {}
  for i = 1, 12 do
    flags[i] = ffi.new "char[1]"
    all[i] = process.spawn(fresh "int subject_await(const volatile char *flag)", flags[i])
  end
  local function count(status)
    local n = 0
    for i = 1, 12 do n = n + (all[i]:status() == status and 1 or 0) end
    return n
  end
  check.eventually(
    "three are out, and the others wait",
    function() return count "foreign" == 3 and count "waiting" == 9 end
  )
  check.within(process.threads(), 3, 8)
  for i = 12, 1, -1 do flags[i][0] = 1 end
  for i = 1, 12 do check.equal(all[i]:join(), true) end
end

-- Calls a function that is known to be short while all threads are in use. Returns how many of its
-- calls asked for a thread, or false if the function came to count as long.
local function calls_that_asked_for_a_thread()
  -- If the machine stops during one of the first calls, that call counts as long.
  local add
  check.eventually("a function is known to be short", function()
    add = fresh "int subject_add(int a, int b)"
    for i = 1, 5000 do add(i, 1) end
    local moves = process.stats().moves
    add(1, 1)
    return process.stats().moves == moves
  end)
  process.params.max_threads = 3
  local flag, all = ffi.new "char[1]", {}
  local hits_before = process.stats().thread_bound_hits
  for i = 1, 4 do
    all[i] = process.spawn(fresh "int subject_await(const volatile char *flag)", flag)
  end
  check.eventually(
    "the bound is hit",
    function() return process.stats().thread_bound_hits > hits_before end
  )
  -- If the machine stops during a call, that call counts as long. The median of eleven batches is
  -- judged.
  local hits, is_long = {}, false
  for i = 1, 11 do
    local before = process.stats().thread_bound_hits
    local p = process.spawn(function() for k = 1, 2000 do check.equal(add(k, 1), k + 1) end end)
    -- Once the function counts as long, its calls wait for a thread as all others do.
    is_long = not p:join(20)
    if is_long then break end
    hits[i] = process.stats().thread_bound_hits - before
  end
  flag[0] = 1
  for i = 1, 4 do check.equal(all[i]:join(), true) end
  return not is_long and check.middle(hits)
end

function case.functions_known_to_be_short_do_not_wait_for_a_thread()
  local asked
  for _ = 1, 3 do -- a busy machine may stop during several calls, so that the function is long
    asked = calls_that_asked_for_a_thread()
    if asked then break end
  end
  check.equal(asked, 0, "calls that ask for a thread")
end

function case.errno_comes_back_with_a_call_that_moved()
  local fail = ffi.blocking(fresh "int subject_fail(int with)")
  local all = {}
  for i = 1, 10 do
    all[i] = process.spawn(function()
      for k = 1, 20 do
        fail(i * 100 + k)
        check.equal(ffi.errno(), i * 100 + k)
      end
    end)
  end
  for i = 1, 10 do check.results("process", { true }, all[i]:join()) end
end

function case.collections_while_callers_are_out_move_nothing()
  local fill =
    ffi.blocking(fresh "void subject_fill_later(int ms, char *to, int byte, size_t size)")
  local all = {}
  for i = 1, 10 do
    all[i] = process.spawn(function()
      local memory = ffi.new "char[10000]"
      fill(10, memory, 64 + i, 10000)
      return ffi.string(memory, 10000)
    end)
  end
  local text = {}
  for i = 1, 200 do
    text[i] = ("x"):rep(i * 100)
    if i % 10 == 0 then collectgarbage() process.sleep(0.001) end
  end
  for i = 1, 10 do
    check.results("memory", { true, string.char(64 + i):rep(10000) }, all[i]:join())
  end
end

check.run(case)
