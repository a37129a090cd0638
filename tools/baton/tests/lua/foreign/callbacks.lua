-- What calls of a module use while their callbacks wait or are preempted.
local check = require "check"
local process = require "baton.process"
local module = require "calls_back"
local case = {}

local function pause() process.sleep(0.0005) end

-- Runs f in several processes at once.
local function in_each(count, f)
  local all = {}
  for i = 1, count do all[i] = process.spawn(f, i) end
  for _, one in ipairs(all) do check.results("a process", { true }, one:join()) end
end

local function was_one_at_a_time()
  local most, mixed = module.counts()
  check.equal(most, 1, "calls at once")
  check.equal(mixed, 0, "calls that took the module from another one")
end

function case.an_unknown_module_has_one_process_s_call_at_a_time_while_callbacks_wait()
  in_each(6, function()
    for _ = 1, 3 do module.new():each(3, pause) end
    module.touch()
  end)
  was_one_at_a_time()
end

function case.so_it_has_while_callbacks_are_preempted()
  process.params.slice = 0.0002
  local function compute() for _ = 1, 30000 do end end
  in_each(4, function() module.new():each(5, compute) end)
  was_one_at_a_time()
end

function case.a_serial_module_has_one_process_s_call_at_a_time_while_callbacks_wait()
  process.concurrent("calls_back", "serial")
  in_each(6, function()
    module.new():each(3, pause)
    module.touch()
  end)
  was_one_at_a_time()
end

function case.an_object_has_one_process_s_call_at_a_time_while_callbacks_wait()
  process.concurrent("calls_back", "object")
  local object = module.new()
  in_each(6, function() object:each(3, pause) end)
  was_one_at_a_time()
end

function case.calls_about_other_objects_overlap_while_callbacks_wait()
  process.concurrent("calls_back", "object")
  local met = process.event()
  local one = process.spawn(function() module.new():each(1, function() met:wait() end) end)
  check.becomes(one, "waiting")
  module.new():each(1, function() met:set() end)
  check.results("the first", { true }, one:join())
end

function case.a_callback_may_call_the_module_again()
  for _, policy in ipairs { "exclusive", "serial", "object" } do
    process.concurrent("calls_back", policy)
    local object, calls = module.new(), 0
    object:each(2, function()
      pause()
      object:each(2, function()
        pause()
        calls = calls + 1
      end)
    end)
    check.equal(calls, 4, policy)
  end
end

function case.others_enter_a_loop_s_module_while_a_callback_waits()
  process.concurrent("calls_back", "loop")
  local entered = process.event()
  local loop = process.spawn(function() module.loop(function() entered:wait() end) end)
  check.becomes(loop, "waiting")
  module.touch()
  entered:set()
  check.results("the loop", { true }, loop:join())
end

-- Waits in a callback of the module until `gate` is set.
local function hold(gate) module.new():each(1, function() gate:wait() end) end

function case.an_error_in_a_callback_lets_others_enter()
  process.concurrent("calls_back", "serial")
  local gate, over = process.event(), process.event()
  local failing = process.spawn(function()
    local object = module.new()
    check.that(not pcall(object.each, object, 1, function()
      gate:wait()
      error "as asked"
    end))
    over:wait()
  end)
  check.becomes(failing, "waiting")
  local other = process.spawn(module.touch)
  check.becomes(other, "waiting")
  gate:set()
  check.results("the other process", { true }, other:join())
  over:set()
  check.results("the process", { true }, failing:join())
end

function case.a_kill_in_a_callback_lets_others_enter()
  process.concurrent("calls_back", "serial")
  local victim = process.spawn(hold, process.event())
  check.becomes(victim, "waiting")
  local other = process.spawn(module.touch)
  check.becomes(other, "waiting")
  victim:kill()
  check.results("the other process", { true }, other:join())
end

function case.a_process_that_waits_to_enter_can_be_killed()
  process.concurrent("calls_back", "serial")
  local gate = process.event()
  local holder = process.spawn(hold, gate)
  check.becomes(holder, "waiting")
  local victim, next_one = process.spawn(hold, gate), process.spawn(module.touch)
  check.becomes(victim, "waiting")
  check.becomes(next_one, "waiting")
  victim:kill()
  check.results("the victim", { false, "killed" }, victim:join())
  gate:set()
  check.results("the holder", { true }, holder:join())
  check.results("the next one", { true }, next_one:join())
end

-- A call that has yielded is on no stack.
function case.others_enter_while_a_call_has_yielded()
  process.concurrent("calls_back", "serial")
  local routine = coroutine.wrap(function()
    return module.yielding(function()
      pause()
      coroutine.yield(1)
      pause()
      return 2
    end)
  end)
  check.equal(routine(), 1)
  in_each(2, module.touch)
  check.equal(routine(), 2)
  in_each(2, module.touch)
end

function case.a_continued_call_is_in_use_again()
  process.concurrent("calls_back", "serial")
  local gate = process.event()
  local holder = process.spawn(function()
    local routine = coroutine.wrap(function()
      module.yielding(function()
        pause()
        coroutine.yield()
        gate:wait()
      end)
    end)
    routine()
    routine()
  end)
  check.becomes(holder, "waiting")
  local other = process.spawn(module.touch)
  check.becomes(other, "waiting")
  gate:set()
  check.results("the other process", { true }, other:join())
  check.results("the holder", { true }, holder:join())
end

function case.a_collection_beside_a_callback_that_waits_goes_on()
  process.concurrent("calls_back", "serial")
  for _ = 1, 10 do module.new() end
  local gate = process.event()
  local holder = process.spawn(hold, gate)
  check.becomes(holder, "waiting")
  collectgarbage()
  check.equal(holder:status(), "waiting")
  gate:set()
  check.results("the holder", { true }, holder:join())
end

check.run(case)
