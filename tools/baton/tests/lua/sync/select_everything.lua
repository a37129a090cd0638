-- process.select over all kinds of objects, and process.timer.
local check = require "check"
local process = require "baton.process"
local case = {}

local NEVER = process.channel()

function case.the_end_of_a_process_is_a_case_with_its_results()
  local p = process.spawn(function() process.sleep(0.002) return 1, nil, 3 end)
  check.results("select", { n = 5, 2, true, 1, nil, 3 }, process.select { NEVER, p })
  check.results("again", { n = 5, 1, true, 1, nil, 3 }, process.select { p, NEVER })
end

function case.a_failure_that_a_select_waits_for_is_returned_and_not_printed()
  local p = process.spawn(function() process.sleep(0.002) error("it fails", 0) end)
  check.results("failed", { 1, false, "it fails" }, process.select { p, NEVER })
  local k = process.spawn(process.sleep, 100)
  k:kill("enough")
  check.results("killed", { 2, false, "enough" }, process.select { NEVER, k })
end

function case.an_event_is_a_case()
  local event = process.event()
  local p = check.selecting { NEVER, event }
  event:set()
  check.results("woken", { true, 2, true }, p:join())
  check.results("set already", { 1, true }, process.select { event, NEVER })
end

function case.a_semaphore_is_taken_when_it_is_chosen_and_else_not()
  local semaphore, event = process.semaphore(1), process.event()
  check.results("taken", { 2, true }, process.select { event, semaphore })
  check.equal(semaphore:count(), 0)
  local p = check.selecting { event, semaphore }
  event:set()
  check.results("the event", { true, 1, true }, p:join())
  semaphore:signal()
  check.equal(semaphore:count(), 1, "nobody waits for it any more")
  check.that(process.select { NEVER, semaphore, semaphore } > 1)
  check.equal(semaphore:count(), 0, "one of two equal cases is chosen")
end

function case.a_waiting_select_gets_the_signal()
  local semaphore = process.semaphore()
  local p = check.selecting { NEVER, semaphore }
  semaphore:signal(2)
  check.results("woken", { true, 2, true }, p:join())
  check.equal(semaphore:count(), 1)
end

function case.a_mutex_is_locked_when_it_is_chosen()
  local mutex, held = process.mutex(), process.mutex()
  check.results("locked", { 2, true }, process.select { NEVER, mutex })
  check.raises(
    "case 2: the mutex is already locked by this process",
    process.select,
    { NEVER, mutex }
  )
  mutex:unlock()
  held:lock()
  local p = process.spawn(function()
    local i, locked = process.select { NEVER, held }
    held:unlock()
    return i, locked
  end)
  check.becomes(p, "waiting")
  held:unlock()
  check.results("handed over", { true, 2, true }, p:join())
  check.results("free again", { true }, held:lock(0))
end

function case.an_abandoned_mutex_says_so()
  local mutex = process.mutex()
  local owner = process.spawn(function() mutex:lock() process.sleep(100) end)
  check.becomes(owner, "sleeping")
  local p = check.selecting { NEVER, mutex }
  owner:kill()
  check.results("abandoned", { true, 2, true, "abandoned" }, p:join())
end

function case.a_killed_select_holds_no_mutex_and_no_unit()
  for _ = 1, 50 do
    local mutex, semaphore = process.mutex(), process.semaphore()
    mutex:lock()
    local p = check.selecting { mutex, semaphore }
    process.critical(function()
      if math.random(2) == 1 then mutex:unlock() else semaphore:signal() end
      p:kill()
    end)
    check.results("killed", { false, "killed" }, p:join())
    if semaphore:count() == 0 then check.results("free", { true }, mutex:lock(0)) end
    mutex:unlock()
  end
end

function case.a_selecting_process_lends_its_priority()
  check.without_slices()
  local mutex, go, log = process.mutex(), process.event(), {}
  local owner = process.spawn({ priority = 30 }, function()
    mutex:lock()
    go:wait()
    log[#log + 1] = "owner"
    mutex:unlock()
  end)
  check.becomes(owner, "waiting")
  local urgent = process.spawn({ priority = 60 }, function()
    process.select { NEVER, mutex }
    log[#log + 1] = "urgent"
  end)
  check.becomes(urgent, "waiting")
  local middle = process.spawn(
    { priority = 50, suspended = true },
    function() log[#log + 1] = "middle" end
  )
  process.critical(function()
    middle:resume()
    go:set()
  end)
  for _, p in ipairs { owner, urgent, middle } do p:join() end
  check.list(log, { "owner", "urgent", "middle" })
end

function case.a_timer_fires_once_and_stays_ready()
  local before = process.now()
  local timer = process.timer(0.02)
  check.equal(process.timer(1e6):has_fired(), false)
  check.results("fires", { 2, true }, process.select { NEVER, timer })
  check.within(process.now() - before, 0.02, 60)
  check.equal(timer:has_fired(), true)
  check.results("stays ready", { 1, true }, process.select({ timer }, 0))
  check.results("wait", { true }, timer:wait())
  check.equal(timer:cancel(), false)
  check.results("at once", { 1, true }, process.select({ process.timer(0) }, 0))
  check.results("before", { 1, true }, process.select({ process.timer(-1) }, 0))
end

function case.a_cancelled_timer_never_fires_until_it_is_set_again()
  local timer
  -- on a slow machine it may fire before the cancel; then try again
  repeat timer = process.timer(0.01) until timer:cancel()
  check.results("cancelled", { n = 2, nil, "timeout" }, process.select({ timer }, 0.02))
  check.equal(timer:cancel(), false)
  local p = check.selecting { timer }
  timer:set(0.005)
  check.results("set again", { true, 1, true }, p:join())
  timer:set(math.huge)
  check.results("never", { n = 2, nil, "timeout" }, timer:wait(0.005))
end

function case.a_timer_holds_up_nothing()
  local timer <const> = process.timer(1e6)
  check.that(not timer:has_fired())
  for _ = 1, 1000 do process.timer(1e6) end
  collectgarbage()
end

function case.each_of_all_that_is_ready_has_its_chance()
  local event, semaphore, channel, timer =
    process.event(), process.semaphore(1000), process.channel(1000), process.timer(0)
  event:set()
  local dead = process.spawn(function() end)
  dead:join()
  local chosen = {}
  for _ = 1, 1000 do
    local mutex = process.mutex()
    local i = process.select { event, semaphore, { channel, 1 }, timer, dead, mutex }
    if i == 6 then mutex:unlock() end
    chosen[i] = (chosen[i] or 0) + 1
  end
  for i = 1, 6 do check.within(chosen[i] or 0, 50, 400, "case " .. i) end
  check.equal(semaphore:count(), 1000 - chosen[2])
  check.equal(#channel, chosen[3])
end

function case.cases_that_cannot_be_waited_for_are_refused()
  local function refused(pattern, cases) check.raises(pattern, process.select, cases) end
  refused("case 1: .*timer, {fd=n} or an object with getfd%(%) expected, got number", { 1 })
  refused("case 2: .* expected, got table", { NEVER, {} })
  refused("case 1: .* expected, got table", { { process.event() } })
  refused("case 1: .* expected, got userdata", { io.stdout })
  refused("case 1: .* expected, got userdata", { process.after(0, print, "") })
  refused("case 1: {channel, value} expected %(nil cannot be sent%)", { { NEVER } })
  refused("case 1: the number of a descriptor expected", { { fd = "x" } })
  refused("case 1: the number of a descriptor expected", { { fd = -1 } })
  refused("case 1: the number of a descriptor expected", { { fd = 1 << 40 } })
  refused('case 1: "r", "w" or "rw" expected', { { fd = 0, "x" } })
  refused('case 1: "r", "w" or "rw" expected', { { fd = 0, 1 } })
  refused("case 1: the number of a descriptor expected", { { getfd = function() return "fd" end } })
  refused("case 2: a process cannot wait for its own end", { NEVER, process.current() })
  check.raises("getfd fails", process.select, { { getfd = function() error "getfd fails" end } })
  local many = {}
  for i = 1, 10001 do many[i] = NEVER end
  refused("too many cases %(the limit is 10000%)", many)
  many[10001] = nil
  check.results("as many as may be", { n = 2, nil, "timeout" }, process.select(many, 0.001))
  check.raises("number expected, got NaN", process.timer, 0 / 0)
  check.raises("number expected, got no value", process.timer)
  check.raises("timer expected", process.timer(1).cancel, NEVER)
end

function case.in_a_critical_section_select_takes_only_ready_cases()
  local event = process.event()
  check.raises(
    "cannot wait inside process.critical",
    process.critical,
    process.select,
    { event, NEVER }
  )
  event:set()
  check.results("ready", { 1, true }, process.critical(process.select, { event, NEVER }))
end

function case.a_thousand_selects_lose_nothing()
  local channel, semaphore, mutex = process.channel(), process.semaphore(), process.mutex()
  local counts, inside = {}, false -- each process has its own counts: `n = n + 1` is not atomic
  local all = check.spawn_all(40, function(number)
    local count = { 0, 0, 0 }
    counts[number] = count
    while true do
      local i, value = process.select { channel, semaphore, mutex }
      if i == 1 and value == "end" then return end
      count[i] = count[i] + 1
      if i == 3 then
        check.equal(inside, false)
        inside = true
        process.yield()
        inside = false
        mutex:unlock()
        process.sleep(0.0001)
      end
    end
  end)
  local function total(i)
    local sum = 0
    for number = 1, 40 do sum = sum + counts[number][i] end
    return sum
  end
  for _ = 1, 500 do
    channel:send "value"
    semaphore:signal()
  end
  check.eventually("all were taken", function() return total(2) == 500 end)
  for _ = 1, 40 do channel:send "end" end
  for _, p in ipairs(all) do check.results("join", { true }, p:join()) end
  check.equal(total(1), 500)
  check.that(total(3) > 0)
  check.equal(semaphore:count(), 0)
end

check.run(case)
