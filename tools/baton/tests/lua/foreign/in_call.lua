-- C functions that use the API all the time give way in the middle of a call, if their policy lets
-- others run.
local check = require "check"
local process = require "baton.process"
local kneader = require "kneader"
local case = {}

-- Returns only when another process has run.
local function knead() return kneader.until_told() end

local function is_inside(n)
  check.eventually(n .. " are inside", function() return kneader.inside() == n end)
end

-- Spawns an equal of the kneading processes, which runs from now on.
local function ticks()
  local count = 0
  process.spawn({ daemon = true }, function()
    while true do
      process.sleep(0.001)
      count = count + 1
    end
  end)
  return function() return count end
end

function case.one_that_is_concurrent_lets_others_run()
  process.concurrent("kneader", "concurrent")
  local p = process.spawn(knead)
  is_inside(1)
  kneader.tell()
  check.results("knead", { true, true }, p:join())
  -- Without thread clocks, a call is also retaken if the system does not run its thread.
  check.that(process.stats().gave_way_in_calls > 0 or process.features().poller == "polling")
end

function case.so_does_the_main_process()
  process.concurrent("kneader", "concurrent")
  process.spawn(function()
    process.sleep(0.02)
    kneader.tell()
  end)
  check.equal(kneader.until_told(), true)
end

function case.several_calls_can_be_suspended_in_their_middle()
  process.concurrent("kneader", "concurrent")
  local all = check.spawn_all(4, knead)
  is_inside(4)
  kneader.tell()
  for _, p in ipairs(all) do check.results("knead", { true, true }, p:join()) end
  check.equal(kneader.most(), 4)
end

function case.a_second_call_about_its_object_waits_and_calls_about_others_do_not()
  process.concurrent("kneader", "object")
  local dough, other = kneader.new(), kneader.new()
  local first = process.spawn(dough.until_told, dough)
  process.sleep(0.02)
  local second = process.spawn({ quiet = true }, dough.until_told, dough)
  local third = process.spawn(other.until_told, other)
  local closer = process.spawn({ priority = 60 }, dough.close, dough)
  check.becomes(closer, "waiting")
  kneader.tell()
  check.results("first", { true, true, 1 }, first:join())
  check.results("third", { true, true, 1 }, third:join())
  check.results("closer", { true, 0 }, closer:join())
  -- Randomly before the first one or after it was closed, but not concurrently with it.
  local ok, was_told, most = second:join()
  if ok then
    check.results("second", { true, 1 }, was_told, most)
  else
    check.matches(was_told, "the dough is closed")
  end
end

-- Returns how often the clock ticks during a call by f.
local function ticks_in_a_call(policy, f)
  process.concurrent("kneader", policy)
  process.params.warn_blocked = 3600
  process.params.window = 1 -- prevents a retake while the system does not run its thread
  process.spawn({ daemon = true }, function()
    while true do
      process.sleep(0.001)
      kneader.tick()
    end
  end)
  process.sleep(0.01)
  return f(function() return kneader.for_ms(60) end)
end

function case.one_that_is_exclusive_keeps_its_atomicity()
  check.equal(ticks_in_a_call("exclusive", function(call) return call() end), 0)
end

function case.one_that_is_not_exclusive_is_interrupted()
  for _, policy in ipairs { "concurrent", "object" } do
    check.that(ticks_in_a_call(policy, function(call) return call() end) > 0, policy)
  end
end

function case.none_gives_way_in_a_critical_section()
  check.equal(ticks_in_a_call("concurrent", process.critical), 0)
end

function case.none_gives_way_in_a_hook()
  local in_hook
  ticks_in_a_call("concurrent", function(call)
    debug.sethook(function()
      debug.sethook()
      in_hook = call()
    end, "l")
    local _ = 1
  end)
  check.equal(in_hook, 0)
end

function case.none_gives_way_in_a_finalizer()
  local in_finalizer
  ticks_in_a_call("concurrent", function(call)
    setmetatable({}, { __gc = function() in_finalizer = call() end })
    collectgarbage()
  end)
  check.equal(in_finalizer, 0)
end

function case.one_that_is_not_preemptible_keeps_the_vm()
  local found = ticks_in_a_call("concurrent", function(call)
    return select(2, process.spawn({ preemptible = false }, call):join())
  end)
  check.equal(found, 0)
end

function case.a_more_urgent_process_does_not_wait_for_the_end_of_the_slice()
  process.concurrent("kneader", "concurrent")
  check.without_slices()
  process.spawn({ priority = 60 }, function()
    process.sleep(0.02)
    kneader.tell()
  end)
  check.equal(kneader.until_told(), true)
end

function case.a_kill_takes_effect_when_it_returns()
  process.concurrent("kneader", "concurrent")
  local closed = 0
  local p = process.spawn(function()
    local guard <close> = check.closing(function() closed = closed + 1 end)
    kneader.until_told()
    error("it goes on")
  end)
  is_inside(1)
  p:kill("enough")
  process.sleep(0.03)
  check.equal(kneader.inside(), 1)
  check.equal(closed, 0)
  kneader.tell()
  check.results("killed", { false, "enough" }, p:join())
  check.equal(kneader.freed(), 1)
  check.equal(closed, 1)
end

function case.its_traceback_shows_the_function()
  process.concurrent("kneader", "concurrent")
  local p = process.spawn(function() return kneader.until_told() end)
  is_inside(1)
  check.matches(p:traceback(), "until_told")
  local status = p:status()
  check.that(
    status == "runnable" or status == "foreign" and process.features().poller == "polling",
    status
  )
  kneader.tell()
  check.that(p:join())
end

function case.it_can_be_suspended_in_its_middle()
  process.concurrent("kneader", "concurrent")
  local p = process.spawn(knead)
  is_inside(1)
  p:suspend()
  kneader.tell()
  for _ = 1, 20 do process.sleep(0.001) end
  check.equal(kneader.inside(), 1)
  check.equal(p:status(), "suspended")
  p:resume()
  check.results("knead", { true, true }, p:join())
end

function case.processes_that_are_bound_to_its_thread_go_on_while_it_is_suspended()
  process.concurrent("kneader", "concurrent")
  local p = process.spawn({ thread = "kneading" }, knead)
  is_inside(1)
  p:suspend()
  local other = process.spawn({ thread = "kneading" }, function() return "done" end)
  check.results("another one of the same thread", { true, "done" }, other:join())
  p:resume()
  kneader.tell()
  check.results("knead", { true, true }, p:join())
end

function case.a_bound_process_goes_on_on_its_own_thread()
  process.concurrent("kneader", "concurrent")
  local bound = process.spawn({ thread = "kneading" }, function()
    local told = kneader.until_told()
    return told, process.thread()
  end)
  is_inside(1)
  kneader.tell()
  check.results("bound", { true, true, "kneading" }, bound:join())
end

function case.in_a_coroutine_too()
  process.concurrent("kneader", "concurrent")
  local p = process.spawn(function()
    return coroutine.wrap(function()
      coroutine.yield(kneader.until_told())
    end)()
  end)
  is_inside(1)
  kneader.tell()
  check.results("knead", { true, true }, p:join())
end

function case.callbacks_run_and_wait_in_between()
  process.concurrent("kneader", "concurrent")
  local calls = 0
  local function knead_and_wait()
    kneader.callback(function()
      calls = calls + 1
      if calls % 50 == 0 then process.sleep(0.0001) end
    end, 2000)
  end
  -- Each on a thread of its own. Processes that wait on the same thread share its thread-locals, as
  -- everywhere.
  local all = {
    process.spawn({ thread = "one" }, knead_and_wait),
    process.spawn({ thread = "two" }, knead_and_wait),
  }
  check.join_all(all)
  check.equal(calls, 4000)
end

-- Values that only the function's frame refers to stay intact while others collect and allocate.
function case.their_results_are_right_while_others_collect_and_allocate()
  process.concurrent("kneader", "concurrent")
  process.params.slice = 0.001
  local done = false
  local others = check.spawn_all(3, function(i)
    local kept = {}
    while not done do
      kept[#kept % 200 + 1] = { ("x"):rep(i * 10), {} }
      if i == 1 then collectgarbage(#kept % 20 == 0 and "collect" or "step") end
    end
  end)
  local builders = check.spawn_all(3, function()
    for _ = 1, 2 do
      local built = kneader.build(60000)
      check.equal(#built, 60000)
      for i, pair in ipairs(built) do
        if pair[1] ~= i or pair[2] ~= tostring(i) then error("wrong at " .. i) end
      end
      local count = 0
      for number in kneader.join(60000):gmatch "%d+" do
        count = count + 1
        if tonumber(number) ~= count then error("wrong in the text at " .. count) end
      end
      check.equal(count, 60000)
    end
  end)
  check.join_all(builders)
  done = true
  check.join_all(others)
  check.that(process.stats().gave_way_in_calls > 0)
end

function case.without_another_thread_a_call_keeps_the_vm_and_ends()
  process.params.max_threads = 1
  check.equal(ticks_in_a_call("concurrent", function(call) return call() end), 0)
end

function case.calls_that_block_and_calls_that_knead_share_the_threads()
  process.concurrent("kneader", "concurrent")
  process.params.max_threads = 4
  local all = check.spawn_all(6, function() kneader.for_ms(200) end)
  local sleepers = check.spawn_all(6, function() os.execute "sleep 0.02" end)
  check.join_all(sleepers)
  check.join_all(all)
end

function case.a_scheduler_hook_chooses_the_next_process()
  process.concurrent("kneader", "concurrent")
  local chosen = 0
  process.set_scheduler(function(_, suggested)
    chosen = chosen + 1
    return suggested
  end)
  local p = process.spawn(knead)
  is_inside(1)
  kneader.tell()
  check.results("knead", { true, true }, p:join())
  process.set_scheduler(nil)
  check.that(chosen > 0)
end

function case.a_substitution_by_a_table_lets_others_run()
  local done = false
  local count = ticks()
  local text = ("abcdefgh"):rep(500000)
  process.sleep(0.01)
  local before, after
  check.that(process.spawn(function()
    before = count()
    local result, n = text:gsub(".", { a = "1", h = "8" })
    after = count()
    check.equal(n, #text)
    check.equal(result, ("1bcdefg8"):rep(500000))
    done = true
  end):join())
  check.that(done and after > before, "the clock ticks meanwhile")
end

function case.reading_a_large_source_lets_others_run()
  process.params.warn_blocked = 60 -- a step of the parser may take long on a busy machine
  local path = os.tmpname()
  local file <close> = io.open(path, "w")
  file:write "return {\n"
  for i = 1, 200000 do file:write("{", i, ", 'number ", i, "'},\n") end
  file:write "}\n"
  file:close()
  local count = ticks()
  process.sleep(0.01)
  local before, after
  local ok, values = process.spawn(function()
    before = count()
    local chunk = loadfile(path)
    after = count()
    return chunk()
  end):join()
  os.remove(path)
  check.that(ok)
  check.equal(#values, 200000)
  check.equal(values[199999][2], "number 199999")
  check.that(after > before, "the clock ticks meanwhile")
end

check.run(case)
