-- A process that waits with foreign frames on its stack has its native thread to itself.
local blocker = require "blocker"
local check = require "check"
local ffi = require "baton.ffi"
local kept = require "kept"
local latch = require "latch"
local process = require "baton.process"
local case = {}

-- Others may enter both modules while a callback waits.
process.concurrent("blocker", "loop")
process.concurrent("kept", "loop")

local path_of_kept = package.searchpath("kept", package.cpath)
ffi.cdef [[
  void kept_with_lock(void (*call)(void));
  void kept_with_recursive_lock(void (*call)(void));
  int kept_most_inside(void);
  int kept_in_thread(int value, void (*call)(void));
]]
local C = ffi.load(path_of_kept)

-- Starts a process that waits for `gate` in a callback, beneath which a C function's frame is.
local function waiter(gate)
  local p = process.spawn({ quiet = true }, blocker.call_and_return, function()
    local thread = process.thread()
    gate:wait()
    return thread == process.thread()
  end)
  check.becomes(p, "waiting")
  return p
end

-- A process waits in a callback, another one calls `call(...)`, which lasts until `release` is
-- called. The first one must be able to end meanwhile.
local function goes_on_beside(release, call, ...)
  local gate = process.event()
  local first = waiter(gate)
  local second = process.spawn(call, ...)
  local function lasts() return second:status() == "foreign" or second:status() == "waiting" end
  check.eventually("the call lasts", lasts)
  gate:set()
  check.results("the first", { true, true }, first:join())
  check.that(lasts())
  release()
  check.that((second:join()))
end

function case.a_wait_beside_the_opening_of_a_fifo()
  local path = check.fifo()
  goes_on_beside(function() check.write_file(path, "") end, io.open, path)
end

function case.a_wait_beside_the_closing_of_a_command()
  local path = check.fifo()
  local command = assert(io.popen("cat '" .. path .. "'"))
  goes_on_beside(function() check.write_file(path, "") end, command.close, command)
end

function case.a_wait_beside_the_call_of_a_declared_module()
  process.concurrent("latch", "object")
  local object, path = latch.new()
  goes_on_beside(function() check.write_file(path, "x") end, object.wait, object)
end

function case.a_wait_beside_a_function_of_c_that_was_short_so_far()
  ffi.cdef "long read(int fd, void *buffer, size_t size); int open(const char *path, int flags);"
  local path = check.fifo()
  local zero = ffi.C.open("/dev/zero", 0)
  local buffer = ffi.new "char[1]"
  for _ = 1, 2000 do ffi.C.read(zero, buffer, 1) end
  local pipe = ffi.C.open(path, 2)
  goes_on_beside(
    function() check.write_file(path, "x") end,
    function() ffi.C.read(pipe, buffer, 1) end
  )
end

-- Runs `count` processes that are all in a callback of `call(n, callback)` at once. The callback
-- waits until all are there, or until `most` are.
local function all_inside(count, most, call)
  local here, gate = 0, process.event()
  local function callback()
    here = here + 1
    if here >= most then gate:set() end
    gate:wait()
    process.yield()
  end
  local all = {}
  for i = 1, count do all[i] = process.spawn({ quiet = true }, call, i, callback) end
  local results = {}
  for i = 1, count do
    local ok, result = all[i]:join()
    check.that(ok, result)
    results[i] = result
  end
  return results
end

local function numbers(count)
  local list = {}
  for i = 1, count do list[i] = i end
  return list
end

function case.variables_of_a_thread_beneath_a_callback_of_a_module()
  check.list(all_inside(20, 20, function(i, f) return kept.in_thread(f, i) end), numbers(20))
end

function case.variables_of_a_thread_beneath_a_callback_of_the_ffi()
  for _ = 1, 300 do C.kept_in_thread(0, function() end) end -- it is known to be short
  check.list(all_inside(20, 20, function(i, f) return C.kept_in_thread(i, f) end), numbers(20))
end

function case.variables_of_a_thread_are_not_set_by_others_calls()
  local gate = process.event()
  local p = process.spawn(kept.in_thread, function() gate:wait() end, 7)
  check.becomes(p, "waiting")
  for i = 1, 100 do kept.set(i) end
  process.spawn(kept.set, 200):join()
  gate:set()
  check.results("in_thread", { true, 7 }, p:join())
end

function case.a_lock_beneath_a_callback_is_waited_for_and_given_back()
  for _ = 1, 300 do C.kept_with_lock(function() end) end -- it is known to be short
  all_inside(10, 1, function(_, f) C.kept_with_lock(f) end)
end

function case.a_recursive_lock_keeps_others_out()
  for _ = 1, 300 do C.kept_with_recursive_lock(function() end) end
  all_inside(10, 1, function(_, f) C.kept_with_recursive_lock(f) end)
  check.equal(C.kept_most_inside(), 1)
end

function case.preemption_in_a_callback_keeps_the_lock_too()
  process.params.slice = 0.0005
  local sum = 0
  local function compute()
    for i = 1, 100000 do sum = sum + i end
  end
  local all = {}
  for i = 1, 6 do all[i] = process.spawn(function() C.kept_with_lock(compute) end) end
  for i = 1, 6 do check.that(all[i]:join()) end
end

function case.a_wait_of_the_main_process_in_a_callback()
  local gate = process.event()
  local ran_on
  process.spawn(function()
    ran_on = process.thread()
    gate:set()
  end)
  blocker.call_and_return(function() gate:wait() end)
  check.equal(process.thread(), "main")
  check.that(ran_on ~= "main", "the other one ran elsewhere")
  check.equal(process.spawn(process.thread):join() and true, true)
end

function case.home_is_used_again_when_the_frames_are_gone()
  local gate = process.event()
  local p = waiter(gate)
  gate:set()
  p:join()
  process.yield()
  check.results("thread", { true, "main" }, process.spawn(process.thread):join())
end

function case.a_bound_process_goes_on_beside_a_wait_on_its_thread()
  local gate = process.event()
  local first = process.spawn({ thread = "drawing" }, blocker.call_and_return, function()
    gate:wait()
    return process.thread()
  end)
  check.becomes(first, "waiting")
  local second = process.spawn({ thread = "drawing" }, process.thread)
  check.results("bound", { true, "drawing" }, second:join())
  check.that(select(2, process.spawn(process.thread):join()) ~= "drawing")
  gate:set()
  check.results("first", { true, "drawing" }, first:join())
end

function case.more_waits_than_threads_share_them()
  process.params.max_threads = 3
  local results = all_inside(60, 60, function(i, f)
    blocker.call_and_return(f)
    return i
  end)
  check.list(results, numbers(60))
end

function case.one_thread_is_enough()
  process.params.max_threads = 1
  local results = all_inside(10, 10, function(i, f)
    blocker.call_and_return(f)
    return i
  end)
  check.list(results, numbers(10))
  check.equal(process.stats().threads, 1)
end

function case.a_killed_one_gives_its_thread_back()
  local gate = process.event()
  for _ = 1, 50 do
    local p = waiter(gate)
    p:kill()
    p:join()
  end
  check.within(process.stats().threads, 1, 4)
end

function case.calls_beside_waits_are_not_counted_as_waits()
  process.params.max_threads = 4
  local gate, waiters = process.event(), {}
  for i = 1, 4 do waiters[i] = waiter(gate) end
  local path, readers = check.fifo(), {}
  for i = 1, 3 do readers[i] = process.spawn(io.open, path) end
  for i = 1, 3 do check.becomes(readers[i], "foreign") end
  check.write_file(path, "")
  for i = 1, 3 do readers[i]:join() end
  gate:set()
  for i = 1, 4 do check.results("waiter", { true, true }, waiters[i]:join()) end
end

function case.a_thread_is_given_up_that_was_kept_before_a_call_that_lasts()
  process.params.thread_idle = 0.01
  local gate, path = process.event(), check.fifo()
  local all = {}
  for i = 1, 3 do
    all[i] = process.spawn(function()
      blocker.call_and_return(function() gate:wait() end)
      io.open(path)
    end)
    check.becomes(all[i], "waiting")
  end
  gate:set()
  for i = 1, 3 do check.becomes(all[i], "foreign") end
  check.write_file(path, "")
  for i = 1, 3 do all[i]:join() end
  check.eventually("one thread is left", function() return process.threads() == 1 end)
end

-- Each of the two calls lasts until the other one has begun, when all other threads are kept.
function case.calls_beside_more_waits_than_threads_go_on_beside_each_other()
  process.params.max_threads = 2
  local gate, waiters = process.event(), {}
  for i = 1, 20 do waiters[i] = waiter(gate) end
  local path = check.fifo()
  local reader = process.spawn(io.open, path)
  local writer = process.spawn(io.open, path, "w")
  check.that(reader:join())
  check.that(writer:join())
  gate:set()
  for i = 1, #waiters do check.results("waiter", { true, true }, waiters[i]:join()) end
end

function case.waits_in_callbacks_of_callbacks()
  check.list(
    all_inside(6, 6, function(i, f)
      local inner
      local outer = kept.in_thread(function()
        inner = C.kept_in_thread(i + 100, f)
      end, i)
      check.equal(inner, i + 100)
      return outer
    end),
    { 101, 102, 103, 104, 105, 106 }
  )
end

check.run(case)
