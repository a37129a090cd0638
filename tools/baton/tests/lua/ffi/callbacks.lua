-- Callbacks on the thread of the call.
local check = require "check"
local ffi = require "baton.ffi"
local process = require "baton.process"
local subject = require "ffi.subject"
local case = {}

ffi.cdef [[
void qsort(void *base, size_t count, size_t size, int (*compare)(const int *, const int *));
void *bsearch(const void *key, const void *base, size_t count, size_t size,
              int (*compare)(const int *, const int *));
]]

local function by_value(a, b) return a[0] - b[0] end

function case.qsort_and_bsearch_compare_by_lua()
  local list = ffi.new "int[1000]"
  for i = 0, 999 do list[i] = i * 7919 % 1000 end
  ffi.C.qsort(list, 1000, 4, by_value)
  for i = 0, 999 do check.equal(list[i], i) end
  local found = ffi.C.bsearch(ffi.new("int[1]", 321), list, 1000, 4, by_value)
  check.equal(ffi.cast("int *", found) - list, 321)
  check.that(ffi.C.bsearch(ffi.new("int[1]", 5000), list, 1000, 4, by_value) == ffi.nullptr)
end

function case.arguments_and_results_of_all_kinds_are_converted()
  local seen
  check.equal(subject.subject_call_mixed(function(a, b, c, p, text)
    seen = { a, b, c, p.x, p.y, ffi.string(text) }
    return 2.25
  end, 10), 2.25)
  check.list(seen, { 10, 10.5, 10.25, 11, 12, "text" })
  local p = subject.subject_call_for_point(function(q) return { q.y * 2, q.x * 3 } end, 5, 6)
  check.list({ p.x, p.y }, { 12, 15 })
  check.equal(
    subject.subject_call_small(function(a, b) return a == 200 and b == -300 and -7 or 0 end),
    -7
  )
end

function case.a_structure_that_is_passed_is_a_copy()
  local kept
  subject.subject_call_for_point(function(q) kept = q return q end, 5, 6)
  subject.subject_call_for_point(function(q) return q end, 7, 8)
  check.list({ kept.x, kept.y }, { 5, 6 })
end

-- A regression test: the parameter's size stayed unknown, and -1 bytes were copied.
function case.a_callback_takes_a_structure_that_was_defined_after_its_type()
  ffi.cdef "typedef struct later later; typedef later (*by_value)(later);"
  local by_value = ffi.typeof "by_value"
  ffi.cdef "struct later { int x, y; };"
  local f = ffi.cast(by_value, function(p) return { p.y, p.x } end)
  local p = ffi.cast("struct point (*)(struct point)", f)(ffi.new("struct point", 3, 4))
  check.list({ p.x, p.y }, { 4, 3 })
  f:free()
end

function case.callbacks_nest_to_any_depth()
  local deepest = 0
  local function nest(n)
    deepest = math.max(deepest, 60 - n)
    return n == 0 and 0 or subject.subject_call(nest, n - 1) + 1
  end
  check.equal(subject.subject_call(nest, 60), 60)
  check.equal(deepest, 60)
end

function case.callbacks_of_many_processes_return_in_any_order()
  local gates, order, wanted, all = {}, {}, {}, {}
  for i = 1, 20 do
    gates[i] = process.event()
    all[i] = process.spawn(function()
      return subject.subject_call_and_compare(function(n)
        gates[i]:wait()
        order[#order + 1] = i
        return n + i
      end, 100)
    end)
  end
  for i = 1, 20 do check.becomes(all[i], "waiting") end
  for k = 1, 20 do
    local i = k * 7 % 20 + 1
    wanted[k] = i
    gates[i]:set()
    check.results("call " .. i, { true, 100 + i }, all[i]:join())
  end
  check.list(order, wanted)
end

function case.callbacks_in_random_nests_and_orders_keep_their_frames()
  local all = {}
  for i = 1, 12 do
    local seed = i
    local function random(n)
      seed = (seed * 1103515245 + 12345) % 2147483648
      return seed // 65536 % n
    end
    local function nest(depth)
      local choice = random(4)
      if choice == 0 then process.sleep(random(3) * 0.001) end
      if choice == 1 then process.yield() end
      if choice == 2 then subject.subject_sleep_ms(random(3)) end
      if depth <= 0 then return i end
      local result = subject.subject_call_and_compare(nest, depth - 1 - random(2))
      if choice == 3 then process.yield() end
      return result
    end
    all[i] = process.spawn(function()
      for _ = 1, 20 do check.equal(subject.subject_call_and_compare(nest, 8), i) end
    end)
  end
  for i = 1, 12 do check.results("process " .. i, { true }, all[i]:join()) end
end

function case.a_callback_that_computes_is_preempted()
  local done
  local p = process.spawn(function()
    return subject.subject_call_and_compare(function(n)
      while not done do end
      return n
    end, 5)
  end)
  process.yield()
  process.sleep(0.005)
  done = true
  check.results("call", { true, 5 }, p:join())
end

function case.a_call_that_was_retaken_finds_its_thread_again_when_it_calls_back()
  local all = {}
  for i = 1, 5 do
    local flag = ffi.new "char[1]"
    all[i] = process.spawn(function()
      return subject.subject_call_and_compare(function(n)
        subject.subject_await(flag)
        process.sleep(0.005)
        return n
      end, i)
    end)
    process.spawn(function()
      for _ = 1, 10 do process.sleep(0.001) end
      flag[0] = 1
    end)
  end
  for i = 1, 5 do check.results("call " .. i, { true, i }, all[i]:join()) end
end

function case.an_error_in_a_callback_returns_zero_and_is_raised_when_the_call_returns()
  local calls, problem = 0, {}
  local ok, got = pcall(subject.subject_call_often, function(i)
    calls = calls + 1
    if i == 3 then error(problem) end
    if i == 4 then error "another one" end
    return 1
  end, 5)
  check.equal(ok, false)
  check.that(got == problem, "the first error is raised")
  check.equal(calls, 5)
  check.raises("callbacks.lua:%d+: told", subject.subject_call, function() error "told" end, 1)
  check.raises(
    "cannot convert 'string' to 'int'",
    subject.subject_call,
    function() return "text" end,
    1
  )
  check.equal(subject.subject_call(function(n) return n end, 3), 3)
end

function case.an_error_of_an_inner_call_passes_through_the_outer_ones()
  check.raises("inner", subject.subject_call, function(n)
    return subject.subject_call(function() error "inner" end, n)
  end, 1)
  local caught
  check.equal(subject.subject_call(function(n)
    caught = not pcall(subject.subject_call, function() error "inner" end, n)
    return 9
  end, 1), 9)
  check.that(caught)
end

function case.a_coroutine_may_call_and_be_called_but_not_yield_across_c()
  local co = coroutine.wrap(function(n)
    n = coroutine.yield(subject.subject_call(function(i)
      return coroutine.wrap(function()
        return subject.subject_call(function(k) return k + 1 end, i)
      end)()
    end, n))
    return (select(2, pcall(subject.subject_call, function() coroutine.yield() end, n)))
  end)
  check.equal(co(1), 2)
  check.matches(co(1), "C%-call boundary")
end

function case.a_kill_in_a_callback_lets_c_return_first()
  local log = {}
  local p = process.spawn(function()
    local _ <close> = check.closing(function() log[#log + 1] = "closed" end)
    subject.subject_call_often(function(i)
      log[#log + 1] = i
      process.sleep(i == 1 and 1000 or 0)
      return 0
    end, 3)
    log[#log + 1] = "not reached"
  end)
  while #log == 0 do process.yield() end
  p:kill()
  check.results("join", { false, "killed" }, p:join())
  check.equal(log[1], 1)
  check.equal(log[#log], "closed")
end

function case.callbacks_are_set_and_freed()
  local f = ffi.cast("unary", function(n) return n + 1 end)
  check.equal(subject.subject_call(f, 1), 2)
  check.equal(f(5), 6)
  f:set(function(n) return n * 10 end)
  check.equal(subject.subject_call(f, 1), 10)
  f:free()
  check.raises("freed already", f.free, f)
  check.raises("no callback", f.set, ffi.cast("unary", subject.subject_add), print)
  check.raises("function expected", f.set, f, 1)
end

function case.freeing_a_callback_in_use_raises()
  local f
  f = ffi.cast("unary", function(n)
    check.raises("in use", f.free, f)
    return n
  end)
  check.equal(subject.subject_call(f, 4), 4)
  local may_return = process.event()
  local slow
  slow = ffi.cast("unary", function(n)
    may_return:wait()
    return n
  end)
  local p = process.spawn(subject.subject_call, slow, 6)
  check.becomes(p, "waiting")
  check.raises("in use", slow.free, slow)
  may_return:set()
  check.results("call", { true, 6 }, p:join())
  slow:free()
  f:free()
end

function case.there_is_no_limit_on_their_number()
  local all = {}
  for i = 1, 5000 do all[i] = ffi.cast("unary", function(n) return n + i end) end
  for i = 1, 5000, 37 do check.equal(subject.subject_call(all[i], 1), 1 + i) end
  for i = 1, 5000 do all[i]:free() end
end

function case.a_function_that_is_passed_again_is_the_same_callback()
  local function same(n) return n end
  subject.subject_keep(same)
  check.equal(subject.subject_call_kept(3), 3)
  collectgarbage()
  local before = collectgarbage "count"
  for _ = 1, 1000 do subject.subject_keep(same) end
  collectgarbage()
  check.within(collectgarbage "count" - before, -100, 100)
  check.equal(subject.subject_call_kept(4), 4)
end

check.run(case)
