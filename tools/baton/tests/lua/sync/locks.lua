-- Semaphore, mutex, condition, event.
local check = require "check"
local process = require "baton.process"
local case = {}

local function waiting(f, ...)
  local p = process.spawn(f, ...)
  check.eventually("waiting", function() return p:status() == "waiting" end)
  return p
end

function case.a_semaphore_counts()
  local s = process.semaphore(2)
  check.equal(s:count(), 2)
  check.results("wait", { true }, s:wait())
  check.results("wait", { true }, s:wait(0))
  check.equal(s:count(), 0)
  check.results("empty", { n = 2, nil, "timeout" }, s:wait(0))
  check.results("empty", { n = 2, nil, "timeout" }, s:wait(0.002))
  s:signal()
  check.equal(s:count(), 1)
  s:signal(3)
  check.equal(s:count(), 4)
end

function case.a_semaphore_serves_its_waiters_in_order()
  check.without_slices()
  local s, log, all = process.semaphore(0), {}, {}
  for i = 1, 5 do
    all[i] = process.spawn(function() s:wait() log[#log + 1] = i end)
  end
  process.yield()
  s:signal(3)
  process.yield()
  check.list(log, { 1, 2, 3 })
  s:signal(2)
  for i = 1, 5 do all[i]:join() end
  check.list(log, { 1, 2, 3, 4, 5 })
  check.equal(s:count(), 0)
end

function case.a_signal_to_many_waiters_leaves_the_rest_counted()
  local s = process.semaphore(0)
  local p, q = waiting(s.wait, s), waiting(s.wait, s)
  s:signal(5)
  check.results("p", { true, true }, p:join())
  check.results("q", { true, true }, q:join())
  check.equal(s:count(), 3)
end

function case.waiters_that_gave_up_or_were_killed_take_no_signal()
  local s = process.semaphore(0)
  local p, q = waiting(s.wait, s), process.spawn(s.wait, s, 0.001)
  check.results("q", { n = 3, true, nil, "timeout" }, q:join())
  p:kill()
  p:join()
  s:signal()
  check.equal(s:count(), 1)
end

function case.five_thousand_waiters_on_one_semaphore_all_pass()
  local s, all = process.semaphore(0), {}
  for i = 1, 5000 do all[i] = process.spawn(s.wait, s) end
  process.yield()
  for _ = 1, 2500 do s:signal() end
  s:signal(2500)
  for i = 1, 5000 do check.results("waiter", { true, true }, all[i]:join()) end
  check.equal(s:count(), 0)
end

-- A regression test: a process was woken by a token and killed before it ran, and the token was
-- lost.
function case.a_killed_waiter_returns_its_token_to_the_semaphore()
  local s = process.semaphore(0)
  local p, q = waiting(s.wait, s), waiting(s.wait, s)
  process.critical(function()
    s:signal(2)
    p:kill()
    q:kill()
  end)
  p:join()
  q:join()
  check.equal(s:count(), 2)
end

function case.an_interrupted_waiter_returns_its_token_to_the_semaphore()
  local s = process.semaphore(0)
  check.interrupted(function() s:wait() end, function() s:signal() end)
  check.equal(s:count(), 1)
end

function case.a_semaphore_bounds_how_many_are_inside()
  process.params.slice = 0.001
  local s, inside, most, all = process.semaphore(3), 0, 0, {}
  for i = 1, 50 do
    all[i] = process.spawn(function()
      for _ = 1, 5 do
        s:wait()
        process.critical(function()
          inside = inside + 1
          if inside > most then most = inside end
        end)
        process.yield()
        process.critical(function() inside = inside - 1 end)
        s:signal()
      end
    end)
  end
  for i = 1, 50 do all[i]:join() end
  check.within(most, 1, 3)
end

function case.a_mutex_is_locked_and_unlocked()
  local m = process.mutex()
  check.results("lock", { true }, m:lock())
  m:unlock()
  check.results("lock", { true }, m:lock(0))
  m:unlock()
end

function case.a_mutex_is_not_recursive()
  local m = process.mutex()
  m:lock()
  check.raises("", function() m:lock() end)
  check.raises("", function() m:lock(0) end)
  check.raises("", function() m:with(print) end)
  m:unlock()
  check.equal(m:lock(0), true)
end

function case.only_the_owner_unlocks()
  local m = process.mutex()
  check.raises("", function() m:unlock() end)
  m:lock()
  local p = process.spawn({ quiet = true }, function() m:unlock() end)
  check.equal(p:join(), false)
  local q = process.spawn(m.lock, m, 0)
  check.results("still locked", { n = 3, true, nil, "timeout" }, q:join())
  m:unlock()
  check.raises("", function() m:unlock() end)
end

function case.a_lock_times_out_while_another_holds_it()
  local m = process.mutex()
  m:lock()
  for _, timeout in ipairs { 0, -5, 0.002 } do
    local p = process.spawn(m.lock, m, timeout)
    check.results("timeout", { n = 3, true, nil, "timeout" }, p:join())
  end
  m:unlock()
  check.results("free again", { true }, m:lock(0))
end

function case.with_gives_the_results_and_the_arguments()
  local m = process.mutex()
  check.results("with", { n = 4, 3, "a", nil, "c" }, m:with(function(...)
    return select("#", ...), ...
  end, "a", nil, "c"))
  check.equal(m:lock(0), true)
end

function case.an_error_inside_with_frees_the_mutex_and_goes_on()
  local m, value = process.mutex(), {}
  local ok, err = pcall(m.with, m, function() error(value) end)
  check.equal(ok, false)
  check.equal(err, value)
  check.equal(m:lock(0), true)
end

function case.with_may_be_yielded_from()
  local m = process.mutex()
  local resume = coroutine.wrap(function()
    return m:with(function(first)
      local second = coroutine.yield(first + 1)
      return second * 2
    end, 1)
  end)
  check.equal(resume(), 2)
  check.results("meanwhile", { n = 3, true, nil, "timeout" }, process.spawn(m.lock, m, 0):join())
  check.equal(resume(5), 10)
  check.equal(m:lock(0), true)
end

function case.with_may_wait_inside()
  local m, inside, all = process.mutex(), 0, {}
  for i = 1, 10 do
    all[i] = process.spawn(function()
      return m:with(function()
        inside = inside + 1
        process.sleep(0.0005)
        local n = inside
        inside = inside - 1
        return n
      end)
    end)
  end
  for i = 1, 10 do check.results("alone", { true, 1 }, all[i]:join()) end
end

function case.a_mutex_makes_an_increment_atomic()
  process.params.slice = 0.0005
  local m, n, all = process.mutex(), 0, {}
  for i = 1, 10 do
    all[i] = process.spawn(function()
      for _ = 1, 2000 do
        m:lock()
        local before = n
        for _ = 1, 5 do math.abs(before) end
        n = before + 1
        m:unlock()
      end
    end)
  end
  for i = 1, 10 do check.equal(all[i]:join(), true) end
  check.equal(n, 20000)
end

function case.a_mutex_serves_its_waiters_in_order_of_priority_then_arrival()
  local m, log = process.mutex(), {}
  m:lock()
  local function taker(name, priority)
    return waiting(function()
      process.current():set_priority(priority)
      m:lock()
      log[#log + 1] = name
      m:unlock()
    end)
  end
  local all = { taker("a", 40), taker("b", 60), taker("c", 40), taker("d", 60) }
  m:unlock()
  for _, p in ipairs(all) do p:join() end
  check.list(log, { "b", "d", "a", "c" })
end

function case.killed_waiters_do_not_get_the_mutex()
  local m = process.mutex()
  m:lock()
  local p, q =
    waiting(m.lock, m), waiting(function()
      local r = table.pack(m:lock())
      m:unlock()
      return table.unpack(r)
    end)
  p:kill()
  p:join()
  m:unlock()
  check.results("q", { true, true }, q:join())
end

-- A regression test: a mutex was handed to a process whose wait then raised.
function case.an_interrupted_waiter_does_not_keep_the_mutex()
  local m = process.mutex()
  check.interrupted(function() m:lock() end, function() m:unlock() end, function() m:lock() end)
  check.results("lock", { true }, m:lock(0))
end

function case.an_interrupted_waiter_does_not_keep_the_mutex_of_with()
  local m, called = process.mutex(), false
  check.interrupted(function()
    m:with(function() called = true end)
  end, function() m:unlock() end, function() m:lock() end)
  check.equal(called, false)
  check.results("lock", { true }, m:lock(0))
end

function case.a_process_that_ends_with_a_mutex_leaves_it_free_for_others()
  local m = process.mutex()
  process.spawn(function() m:lock() end):join()
  check.equal(m:lock(1), true)
end

function case.a_condition_frees_the_mutex_while_it_waits_and_takes_it_again()
  local m = process.mutex()
  local c = process.condition(m)
  local ready = false
  local p = waiting(function()
    m:lock()
    while not ready do check.equal(c:wait(), true) end
    check.raises("", function() m:lock() end)
    m:unlock()
    return "saw it"
  end)
  check.equal(m:lock(0), true, "the waiter does not hold the mutex")
  ready = true
  c:signal()
  m:unlock()
  check.results("join", { true, "saw it" }, p:join())
end

function case.a_condition_that_times_out_still_takes_the_mutex_again()
  local m = process.mutex()
  local c = process.condition(m)
  m:lock()
  for _, timeout in ipairs { 0, -1, 0.002 } do
    check.results("wait", { n = 2, nil, "timeout" }, c:wait(timeout))
    check.results("another", { n = 3, true, nil, "timeout" }, process.spawn(m.lock, m, 0):join())
  end
  m:unlock()
end

function case.signal_wakes_one_and_broadcast_all()
  local m = process.mutex()
  local c, woken, all = process.condition(m), 0, {}
  for i = 1, 10 do
    all[i] = waiting(function()
      m:lock()
      c:wait()
      woken = woken + 1
      m:unlock()
    end)
  end
  m:lock() c:signal() m:unlock()
  check.eventually("one is woken", function() return woken == 1 end)
  process.sleep(0.005)
  check.equal(woken, 1)
  m:lock() c:broadcast() m:unlock()
  for i = 1, 10 do check.equal(all[i]:join(), true) end
  check.equal(woken, 10)
end

function case.a_signal_without_waiters_is_not_remembered()
  local m = process.mutex()
  local c = process.condition(m)
  m:lock()
  c:signal()
  c:broadcast()
  check.results("wait", { n = 2, nil, "timeout" }, c:wait(0.002))
  m:unlock()
end

function case.waiting_on_a_condition_without_its_mutex_raises()
  local m = process.mutex()
  local c = process.condition(m)
  check.raises("", function() c:wait(0) end)
  local p = process.spawn({ quiet = true }, function() c:wait(0) end)
  m:lock()
  check.equal(p:join(), false)
end

function case.a_process_killed_on_a_condition_does_not_keep_the_mutex()
  local m = process.mutex()
  local c = process.condition(m)
  local p = waiting(function() m:lock() c:wait() end)
  p:kill()
  p:join()
  check.equal(m:lock(1), true)
  c:signal()
  m:unlock()
end

function case.a_condition_says_that_the_mutex_was_abandoned()
  local mutex = process.mutex()
  local condition = process.condition(mutex)
  local waiter = process.spawn(function()
    mutex:lock()
    local first = table.pack(condition:wait())
    mutex:unlock()
    mutex:lock()
    return first, table.pack(condition:wait())
  end)
  check.becomes(waiter, "waiting")
  process.spawn(function()
    mutex:lock()
    condition:signal()
  end):join()
  check.becomes(waiter, "waiting")
  mutex:with(condition.signal, condition)
  local _, first, second = waiter:join()
  check.list(first, { true, "abandoned" })
  check.list(second, { true })
end

function case.an_event_stays_set_until_cleared()
  local e = process.event()
  check.equal(e:is_set(), false)
  check.results("wait", { n = 2, nil, "timeout" }, e:wait(0))
  e:set()
  e:set()
  check.equal(e:is_set(), true)
  check.results("wait", { true }, e:wait())
  check.results("wait", { true }, e:wait(0))
  e:clear()
  check.equal(e:is_set(), false)
  check.results("wait", { n = 2, nil, "timeout" }, e:wait(0.002))
end

function case.an_event_wakes_five_thousand()
  local e, all = process.event(), {}
  for i = 1, 5000 do all[i] = process.spawn(e.wait, e) end
  process.yield()
  e:set()
  for i = 1, 5000 do check.results("waiter", { true, true }, all[i]:join()) end
end

function case.a_process_woken_by_an_event_stays_woken_after_clear()
  check.without_slices()
  local e = process.event()
  local p = waiting(e.wait, e)
  e:set()
  e:clear()
  check.results("join", { true, true }, p:join())
end

check.run(case)
