-- The Lua thread of an ended process serves another one, and nobody notices.
local check = require "check"
local process = require "baton.process"
local case = {}

-- Runs `n` processes, one after the other, on threads of ended ones.
local function run(n)
  for i = 1, n do
    local own = {}
    local p = process.spawn(function(value) return value end, own)
    check.results("join", { true, own }, p:join())
  end
end

function case.results_stay_after_the_thread_has_served_others()
  local value = {}
  local one = process.spawn(function() return value end)
  local none = process.spawn(function() end)
  local empty = process.spawn(function() return nil end)
  local three = process.spawn(function() return 1, nil, value end)
  local failed = process.spawn({ quiet = true }, error, value)
  local killed = process.spawn(process.sleep, 3600)
  process.yield()
  killed:kill("enough")
  for _ = 1, 2 do
    check.results("one", { true, value }, one:join())
    check.results("none", { true }, none:join())
    check.results("nil", { n = 2, true, nil }, empty:join())
    check.results("three", { n = 4, true, 1, nil, value }, three:join())
    check.results("failed", { false, value }, failed:join())
    check.results("killed", { false, "enough" }, killed:join())
    run(20)
    collectgarbage()
  end
end

function case.a_thread_that_the_program_knows_serves_no_other()
  local seen, threads = {}, {}
  for i = 1, 20 do
    local p = process.spawn(function()
      threads[i] = coroutine.running()
      return debug.traceback("here")
    end)
    p:join()
    check.that(not seen[threads[i]], "each has its own")
    seen[threads[i]] = true
  end
  run(20)
  for i = 1, 20 do
    check.equal(coroutine.status(threads[i]), "dead")
    check.that(not coroutine.resume(threads[i]))
  end
end

function case.a_thread_known_by_debug_sethook_serves_no_other()
  for _ = 1, 10 do
    local count = 0
    local p = process.spawn(function()
      check.equal(debug.gethook(), nil, "no hook of an earlier process")
      debug.sethook(function() count = count + 1 end, "", 10)
      for _ = 1, 1000 do end
    end)
    check.equal(p:join(), true)
    check.that(count > 0)
    local before = count
    run(5)
    check.equal(count, before, "the hook ended with its process")
  end
end

function case.a_thread_that_a_module_in_c_may_keep_serves_no_other()
  run(5) -- leaves threads that no module has seen
  local keeps = require "keeps_state"
  for _ = 1, 10 do
    local p = process.spawn(keeps.keep)
    p:join()
    for _ = 1, 5 do
      check.results("another thread", { true, false }, process.spawn(keeps.is_kept):join())
    end
    local others = 0
    check.equal(keeps.call(function()
      process.spawn(function() others = others + 1 end):join()
    end), true)
    check.equal(others, 1)
    check.results("unchanged", { true }, p:join())
  end
end

function case.what_a_process_held_can_be_collected()
  local weak = setmetatable({}, { __mode = "k" })
  for _ = 1, 20 do
    process.spawn(function()
      local own, other = {}, {}
      weak[own], weak[other] = true, true
      return own
    end):join()
  end
  collectgarbage()
  collectgarbage()
  check.equal(next(weak), nil)
end

function case.closed_variables_and_upvalues_survive_the_process()
  local kept, closed = {}, 0
  for i = 1, 20 do
    process.spawn(function()
      local mine <close> = setmetatable({}, { __close = function() closed = closed + 1 end })
      local own = i
      kept[i] = function() own = own + 1 return own end
    end):join()
  end
  run(20)
  check.equal(closed, 20)
  for i = 1, 20 do check.equal(kept[i](), i + 1) end
end

function case.many_processes_that_end_together_leave_little_memory()
  collectgarbage()
  local before = collectgarbage("count")
  for _ = 1, 3 do
    local list = {}
    for i = 1, 2000 do list[i] = process.spawn(process.sleep, 0.001) end
    for i = 1, 2000 do check.equal(list[i]:join(), true) end
  end
  collectgarbage()
  collectgarbage()
  check.that(collectgarbage("count") < before + 1000, "kilobytes more: "
    .. collectgarbage("count") - before)
end

function case.deep_and_wide_calls_leave_their_thread_to_the_collector()
  local function deep(n) if n > 0 then return 1 + deep(n - 1) end return 0 end
  for _ = 1, 5 do
    check.results("deep", { true, 10000 }, process.spawn(deep, 10000):join())
    local many = table.pack(process.spawn(table.unpack, {}, 1, 5000):join())
    check.equal(many.n, 5001)
    run(3)
  end
end

function case.an_ended_process_still_has_its_priority_and_times()
  local p = process.spawn({ priority = 30, name = "past" }, function()
    local until_then = os.clock() + 0.01
    while os.clock() < until_then do end
  end)
  p:join()
  run(20)
  check.equal(p:priority(), 30)
  check.equal(p.name, "past")
  check.equal(p:status(), "dead")
  check.results("too late", { false, "dead" }, p:set_priority(50))
  local stats = p:stats()
  check.within(stats.running, 0.005, 60)
  check.within(stats.cpu, 0.001, stats.running)
  local unstarted = process.spawn({ priority = 20, suspended = true }, print)
  unstarted:kill()
  check.equal(unstarted:priority(), 20)
  check.equal(unstarted:stats().running, 0)
end

check.run(case)
