-- Scheduler hooks, switch hooks and exit hooks.
local check = require "check"
local process = require "baton.process"
local case = {}

-- Spawns suspended processes that log their names several times, with a yield after each.
local function loggers(log, times, ...)
  local all = {}
  for i, name in ipairs { ... } do
    all[i] = process.spawn({ name = name, suspended = true }, function()
      for _ = 1, times do
        log[#log + 1] = name
        process.yield()
      end
    end)
  end
  return all
end

local function run_all(all)
  for _, p in ipairs(all) do p:resume() end
  for _, p in ipairs(all) do check.that(p:join()) end
end

function case.a_scheduler_chooses_who_runs()
  check.without_slices()
  local log = {}
  local all = loggers(log, 2, "a", "b", "c")
  process.set_scheduler(function()
    for i = #all, 1, -1 do
      if all[i]:status() == "runnable" then return all[i] end
    end
  end)
  run_all(all)
  process.set_scheduler(nil)
  check.list(log, { "c", "c", "b", "b", "a", "a" })
  log[1] = nil
end

function case.a_scheduler_that_declines_changes_nothing()
  check.without_slices()
  local log, seen = {}, {}
  local all = loggers(log, 2, "a", "b")
  process.set_scheduler(function(current, suggested)
    seen[#seen + 1] = (current and current.name or "nobody") .. ">" .. suggested.name
  end)
  run_all(all)
  process.set_scheduler(nil)
  check.list(log, { "a", "b", "a", "b" })
  check.equal(table.concat(seen, " "), "main>a a>b b>a a>b b>a nobody>b nobody>main")
end

function case.one_that_cannot_run_is_not_chosen()
  check.without_slices()
  local log = {}
  local dead = process.spawn(function() end)
  dead:join()
  local stopped = process.spawn({ suspended = true, daemon = true }, function() end)
  for _, answer in ipairs { dead, stopped } do
    local all = loggers(log, 1, "a", "b")
    process.set_scheduler(function() return answer end)
    run_all(all)
    process.set_scheduler(nil)
  end
  check.list(log, { "a", "b", "a", "b" })
end

function case.a_scheduler_may_prefer_the_less_urgent()
  local log = {}
  local low = process.spawn({ priority = 1 }, function() log[#log + 1] = "low" end)
  process.set_scheduler(function() return low end)
  process.yield()
  process.set_scheduler(nil)
  check.list(log, { "low" })
  check.that(low:join())
end

function case.a_scheduler_hook_may_inspect_and_act_but_cannot_wait()
  local errors, spawned = {}, nil
  local event, mutex = process.event(), process.mutex()
  process.set_scheduler(function()
    if spawned then return end
    for _, f in ipairs {
      function() process.sleep(1) end,
      function() event:wait() end,
      function() mutex:lock() end,
      process.suspend,
      function() process.main:join() end,
      function() os.exit(true, true) end,
    } do
      local ok, message = pcall(f)
      errors[#errors + 1] = ok and "no error"
        or message:match "cannot wait in a scheduler"
        or message
    end
    process.yield()
    check.equal(process.current().name, "hook")
    check.equal(process.main:priority(), 40)
    spawned = process.spawn(function() return "from a scheduler" end)
  end)
  process.yield()
  process.set_scheduler(nil)
  check.results("spawned", { true, "from a scheduler" }, spawned:join())
  for i = 1, 6 do
    check.equal(errors[i], i == 4 and "no error" or "cannot wait in a scheduler", "call " .. i)
  end
end

function case.a_scheduler_sees_preemptions()
  process.params.slice = 0.001
  local asked, stop = 0, false
  process.set_scheduler(function() asked = asked + 1 end)
  local p = process.spawn(function() while not stop do end end)
  while asked < 20 do end
  stop = true
  check.that(p:join())
  process.set_scheduler(nil)
end

function case.a_scheduler_is_collected_and_may_allocate()
  local weak = setmetatable({}, { __mode = "v" })
  do
    local big = {}
    weak[1] = big
    process.set_scheduler(function()
      for i = 1, 100 do big[i] = ("x"):rep(i) .. i end
    end)
  end
  local p = process.spawn(function() for _ = 1, 200 do process.yield() end end)
  for _ = 1, 200 do process.yield() end
  check.that(p:join())
  process.set_scheduler(nil)
  process.yield()
  collectgarbage()
  collectgarbage()
  check.equal(weak[1], nil)
end

function case.a_switch_hook_may_end_the_one_that_would_run_next()
  check.without_slices()
  local victim, ended
  local other = process.spawn(function()
    while not ended do process.yield() end
  end)
  other:on_switch(nil, function()
    if not victim then return end
    victim:kill()
    victim, ended = nil, true
    collectgarbage()
    collectgarbage()
    local junk = {} -- takes the memory of its record
    for i = 1, 300 do junk[i] = ("x"):rep(500 + i) end
  end)
  process.yield()
  victim = process.spawn(function() error "it has run" end)
  victim:on_switch(error, error)
  other:join()
  check.that(ended)
end

function case.misuse_of_hooks_raises()
  for _, wrong in ipairs { 1, "x", true, {} } do
    check.raises("function expected", process.set_scheduler, wrong)
    check.raises("function expected", process.main.on_switch, process.main, wrong)
    check.raises("function expected", process.main.on_switch, process.main, nil, wrong)
    check.raises("function expected", process.main.on_exit, process.main, wrong)
  end
  check.raises("", process.set_scheduler)
  check.raises("process expected", process.main.on_exit, {}, print)
  local dead = process.spawn(function() end)
  dead:join()
  check.results("on_switch", { false, "dead" }, dead:on_switch(print))
  check.results("on_exit", { false, "dead" }, dead:on_exit(print))
end

function case.switch_hooks_are_called_around_each_run()
  check.without_slices()
  local log = {}
  local all = loggers(log, 2, "a", "b")
  check.results("on_switch", { true }, all[1]:on_switch(
    function(p) log[#log + 1] = "+" .. p.name end,
    function(p) log[#log + 1] = "-" .. p.name end))
  run_all(all)
  check.list(log, { "+a", "a", "-a", "b", "+a", "a", "-a", "b", "+a" })
end

function case.switch_hooks_see_waits_and_sleeps_and_can_be_removed()
  check.without_slices()
  local log = {}
  local event = process.event()
  local p = process.spawn({ suspended = true }, function()
    event:wait()
    -- A sleep that is over before it begins does not leave the CPU.
    repeat process.sleep(0.002) until #log > 3
    process.current():on_switch(nil)
    process.sleep(0.002)
  end)
  p:on_switch(function() log[#log + 1] = "in" end, function() log[#log + 1] = "out" end)
  p:resume()
  check.becomes(p, "waiting")
  event:set()
  check.that(p:join())
  check.list(log, { "in", "out", "in", "out", "in" })
end

function case.a_switch_hook_alone_is_enough()
  local ins, outs = 0, 0
  local p = process.spawn({ suspended = true }, function() for _ = 1, 3 do process.yield() end end)
  p:on_switch(function() ins = ins + 1 end)
  local q = process.spawn({ suspended = true }, function() for _ = 1, 3 do process.yield() end end)
  q:on_switch(nil, function() outs = outs + 1 end)
  process.critical(function() p:resume() q:resume() end)
  check.that(p:join())
  check.that(q:join())
  check.within(ins, 4, 1000)
  check.within(outs, 3, 1000)
end

function case.switch_hooks_measure_time()
  process.params.slice = 0.001
  local total, since = 0, nil
  local p = process.spawn({ suspended = true }, function()
    local limit = process.now() + 60
    while total < 0.01 and process.now() < limit do end
  end)
  p:on_switch(
    function() since = process.now() end,
    function() total = total + process.now() - since end
  )
  p:on_exit(function() -- the process's own code; it may be preempted before and after it
    process.critical(function()
      local now = process.now()
      total, since = total + now - since, now
    end)
  end)
  local burns = true
  local other = process.spawn(function() while burns do end end)
  local begin = process.now()
  p:resume()
  check.that(p:join())
  burns = false
  check.that(other:join())
  check.within(total, 0.01, process.now() - begin)
end

function case.an_exit_hook_runs_at_every_kind_of_end()
  local log = {}
  local function hooked(options, f)
    options.suspended, options.quiet = true, true
    local p = process.spawn(options, f)
    check.results("on_exit", { true }, p:on_exit(function(self)
      check.equal(self, process.current())
      check.equal(self:status(), "running")
      log[#log + 1] = self.name
    end))
    p:resume()
    return p
  end
  local returns = hooked({ name = "returns" }, function() return 1, 2 end)
  check.results("returns", { true, 1, 2 }, returns:join())
  local fails = hooked({ name = "fails" }, function() error("wrong", 0) end)
  check.results("fails", { false, "wrong" }, fails:join())
  local killed = hooked({ name = "killed" }, function()
    local _ <close> = check.closing(function() log[#log + 1] = "closed" end)
    process.sleep(60)
  end)
  check.becomes(killed, "sleeping")
  killed:kill "enough"
  check.results("killed", { false, "enough" }, killed:join())
  check.list(log, { "returns", "fails", "closed", "killed" })
end

function case.an_exit_hook_is_called_for_one_that_never_ran()
  local called, ran = false, false
  local p = process.spawn({ suspended = true }, function() ran = true end)
  p:on_exit(function() called = true end)
  p:kill()
  check.results("join", { false, "killed" }, p:join())
  check.equal(called, true)
  check.equal(ran, false)
end

function case.an_exit_hook_may_wait_and_holds_kills_back()
  local log, go_on = {}, process.semaphore(0)
  local p = process.spawn({ suspended = true }, function() end)
  p:on_exit(function()
    log[#log + 1] = "begin"
    go_on:wait()
    log[#log + 1] = "end"
  end)
  p:resume()
  check.becomes(p, "waiting")
  p:kill()
  go_on:signal()
  check.results("join", { true }, p:join())
  check.list(log, { "begin", "end" })
end

function case.an_exit_hook_can_be_replaced_and_removed()
  local log = {}
  local p = process.spawn({ suspended = true }, function() end)
  p:on_exit(function() log[#log + 1] = "first" end)
  p:on_exit(function() log[#log + 1] = "second" end)
  p:resume()
  p:join()
  local q = process.spawn({ suspended = true }, function() end)
  q:on_exit(function() log[#log + 1] = "third" end)
  q:on_exit(nil)
  q:resume()
  q:join()
  check.list(log, { "second" })
end

function case.hooks_go_with_their_process()
  local weak = setmetatable({}, { __mode = "k" })
  for _ = 1, 10 do
    local p
    p = process.spawn({ suspended = true }, function() end)
    p:on_exit(function() return p end)
    p:on_switch(function() return p end)
    weak[p] = true
    p:resume()
    p:join()
  end
  collectgarbage()
  collectgarbage()
  check.equal(next(weak), nil)
end

check.run(case)
