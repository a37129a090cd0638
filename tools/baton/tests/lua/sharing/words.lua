-- Shared words.
local check = require "check"
local process = require "baton.process"
local vm = require "baton.vm"
local case = {}

local function waiting(f, ...)
  local p = process.spawn(f, ...)
  check.becomes(p, "waiting")
  return p
end

function case.words_begin_as_zero_and_keep_what_is_stored()
  local w = vm.shared(100)
  check.equal(#w, 100)
  for i = 1, 100 do check.equal(w:load(i), 0) end
  w:store(1, math.mininteger)
  w:store(100, math.maxinteger)
  check.equal(w:load(1), math.mininteger)
  check.equal(w:load(100), math.maxinteger)
  check.equal(w:load(2), 0)
end

function case.add_returns_the_new_value_and_wraps_around()
  local w = vm.shared(1)
  check.equal(w:add(1), 1)
  check.equal(w:add(1, 41), 42)
  check.equal(w:add(1, -50), -8)
  w:store(1, math.maxinteger)
  check.equal(w:add(1, 1), math.mininteger)
end

function case.exchange_returns_the_old_value()
  local w = vm.shared(1)
  check.equal(w:exchange(1, 5), 0)
  check.equal(w:exchange(1, 6), 5)
end

function case.compare_sets_only_the_expected_value()
  local w = vm.shared(1)
  check.results("equal", { true }, w:compare(1, 0, 7))
  check.results("different", { false, 7 }, w:compare(1, 0, 8))
  check.equal(w:load(1), 7)
end

function case.a_wait_ends_by_a_wake_up_and_not_by_a_change()
  local w = vm.shared(2)
  local p = waiting(function() return w:wait(1, 0) end)
  w:store(1, 1)
  check.equal(w:wake(2), 0)
  check.equal(p:status(), "waiting")
  check.equal(w:wake(1), 1)
  check.results("woken", { true, true }, p:join())
  check.results("differs", { true }, w:wait(1, 0))
  check.results("timeout", { n = 2, nil, "timeout" }, w:wait(1, 1, 0.001))
  check.results("timeout", { n = 2, nil, "timeout" }, w:wait(1, 1, 0))
end

function case.wake_ups_go_to_the_longest_waits()
  local w, log, all = vm.shared(1), {}, {}
  for i = 1, 5 do
    all[i] = waiting(function()
      w:wait(1, 0)
      log[#log + 1] = i
    end)
  end
  check.equal(w:wake(1, 2), 2)
  all[1]:join()
  all[2]:join()
  check.equal(all[3]:status(), "waiting")
  check.equal(w:wake(1, math.maxinteger), 3)
  for _, p in ipairs(all) do p:join() end
  check.list(log, { 1, 2, 3, 4, 5 })
  check.equal(w:wake(1), 0)
end

function case.a_killed_process_passes_its_wake_up_on()
  local w = vm.shared(1)
  local victim = waiting(function() return w:wait(1, 0) end)
  local heir = waiting(function() return w:wait(1, 0) end)
  process.critical(function()
    check.equal(w:wake(1), 1)
    victim:kill()
  end)
  check.results("heir", { true, true }, heir:join())
end

-- 0: free; 1: held; 2: held, and a process may wait.
local function lock(w)
  if w:compare(1, 0, 1) then return end
  while w:exchange(1, 2) ~= 0 do w:wait(1, 2) end
end

local function unlock(w)
  if w:exchange(1, 0) == 2 then w:wake(1) end
end

function case.a_lock_is_made_of_a_word()
  local w, inside, count = vm.shared(1), 0, 0
  local all = {}
  for i = 1, 20 do
    all[i] = process.spawn(function()
      for _ = 1, 20 do
        lock(w)
        inside = inside + 1
        check.equal(inside, 1)
        process.yield()
        inside, count = inside - 1, count + 1
        unlock(w)
      end
    end)
  end
  for _, p in ipairs(all) do check.equal(p:join(), true) end
  check.equal(count, 400)
end

function case.words_are_sent_by_reference()
  local w, ch = vm.shared(2), vm.channel()
  ch:send { words = w }
  local other = ch:receive().words
  other:add(2, 3)
  check.equal(w:load(2), 3)
  w = nil
  collectgarbage()
  check.equal(other:load(2), 3)
end

function case.misuse_raises()
  local w = vm.shared(3)
  for _, name in ipairs { "load", "store", "add", "exchange", "compare", "wait", "wake" } do
    check.raises("index from 1 to 3 expected", w[name], w, 0, 1, 1)
    check.raises("index from 1 to 3 expected", w[name], w, 4, 1, 1)
    check.raises("index from 1 to 3 expected", w[name], w, math.mininteger, 1, 1)
    check.raises("number expected, got no value", w[name], w)
    check.raises("number has no integer representation", w[name], w, 1.5, 1, 1)
    check.raises("shared words expected, got table", w[name], {}, 1, 1, 1)
  end
  check.raises("number expected, got no value", w.store, w, 1)
  check.raises("number expected, got string", w.store, w, 1, "x")
  check.raises("number expected, got no value", w.exchange, w, 1)
  check.raises("number expected, got no value", w.compare, w, 1, 0)
  check.raises("number expected, got no value", w.wait, w, 1)
  check.raises("number expected, got NaN", w.wait, w, 1, 0, 0 / 0)
  check.raises("count must not be negative", w.wake, w, 1, -1)
  check.raises("at least one word expected", vm.shared, 0)
  check.raises("at least one word expected", vm.shared, -1)
  check.raises("too many words", vm.shared, math.maxinteger)
  check.raises("number expected, got no value", vm.shared)
  check.raises("not enough memory", vm.shared, math.maxinteger // 16)
end

check.run(case)
