-- A call through the ffi stops no other process.
local check = require "check"
local ffi = require "baton.ffi"
local process = require "baton.process"
local subject = require "ffi.subject"
local case = {}

local function ticker()
  local n = 0
  process.spawn({ daemon = true, name = "ticker" }, function()
    while true do
      process.sleep(0.001)
      n = n + 1
    end
  end)
  return function() return n end
end

function case.a_long_call_does_not_stop_a_ticker()
  local ticks = ticker()
  local p = process.spawn({ daemon = true }, subject.subject_sleep_ms, 20000)
  check.becomes(p, "foreign")
  local before = ticks()
  check.eventually("ticks", function() return ticks() >= before + 20 end)
  check.equal(p:status(), "foreign")
end

function case.the_main_process_may_call_long()
  local ticks = ticker()
  check.equal(subject.subject_sleep_ms(500), 500)
  check.that(ticks() >= 3)
end

function case.ten_long_calls_overlap()
  local all = {}
  for i = 1, 10 do all[i] = process.spawn({ daemon = true }, subject.subject_sleep_ms, 20000) end
  for i = 1, 10 do check.becomes(all[i], "foreign") end
  for i = 1, 10 do check.equal(all[i]:status(), "foreign") end
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

function case.a_kill_takes_effect_when_the_call_returns()
  local p = process.spawn(function()
    subject.subject_sleep_ms(100)
    error "not reached"
  end)
  process.yield()
  process.sleep(0.01)
  p:kill "enough"
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

check.run(case)
