-- Critical sections and directed yields. Slices are off where a test expects an exact order.
local check = require "check"
local process = require "baton.process"
local case = {}

local forbidden = "cannot wait inside process.critical"

-- A process that counts whenever it runs. Returns the count and the process.
local function counter(options)
  local count = { n = 0 }
  local p = process.spawn(options or {}, function()
    while true do
      count.n = count.n + 1
      process.yield()
    end
  end)
  check.eventually("it counts", function() return count.n > 0 end)
  return count, p
end

local function see_others_run(count)
  local before = count.n
  check.eventually("others run", function() return count.n > before end)
end

local function spin(seconds)
  local stop = process.now() + seconds
  while process.now() < stop do end
end

function case.critical_passes_arguments_and_results()
  check.results(
    "results",
    { n = 4, 1, nil, "x", nil },
    process.critical(function(...) return ... end, 1, nil, "x", nil)
  )
  check.results("nothing", {}, process.critical(function() end))
end

function case.no_other_process_runs_during_a_critical_section()
  process.params.slice = 0.001
  local count, p = counter()
  local urgent = process.spawn(
    { priority = 80, suspended = true },
    function() count.n = count.n + 1 end
  )
  process.critical(function()
    local before = count.n
    urgent:resume()
    spin(0.03)
    process.yield()
    process.yield_to(p)
    process.sleep(0)
    check.equal(count.n, before)
    check.equal(urgent:status(), "runnable")
  end)
  check.equal(urgent:status(), "dead", "the more urgent one runs as soon as the section ends")
  p:kill()
end

function case.critical_sections_nest()
  local count, p = counter()
  process.critical(function()
    local before = count.n
    process.critical(process.yield)
    pcall(process.critical, error)
    process.yield()
    check.equal(count.n, before)
  end)
  p:kill()
end

function case.an_error_ends_the_section()
  local count, p = counter()
  check.raises("inside", process.critical, function() error "inside" end)
  see_others_run(count)
  local co = coroutine.create(function()
    process.critical(function() error "in a coroutine" end)
  end)
  check.equal(coroutine.resume(co), false)
  see_others_run(count)
  p:kill()
end

function case.only_a_wait_that_would_block_raises()
  local full, empty, m, set =
    process.semaphore(1), process.semaphore(), process.mutex(), process.event()
  local ch, buffered = process.channel(), process.channel(1)
  local c = process.condition(m)
  local p = process.spawn({ suspended = true }, function() end)
  set:set()
  process.critical(function()
    check.equal(full:wait(), true)
    check.equal(m:lock(), true)
    check.equal(set:wait(), true)
    check.equal(buffered:send(7), true)
    check.equal(buffered:receive(), 7)
    check.equal(process.sleep(0), true)
    check.results("poll", { n = 2, nil, "timeout" }, empty:wait(0))
    check.raises(forbidden, empty.wait, empty)
    check.raises(forbidden, empty.wait, empty, 1)
    check.raises(forbidden, ch.send, ch, 1)
    check.raises(forbidden, ch.receive, ch)
    check.raises(forbidden, process.select, { ch, { ch, 1 } })
    check.raises(forbidden, c.wait, c)
    check.raises(forbidden, process.sleep, 60) -- too long to be over before it begins
    check.raises(forbidden, p.join, p)
    m:unlock()
  end)
  check.equal(#ch, 0)
  check.equal(m:lock(0), true, "the mutex was left free")
  p:kill()
end

function case.a_mutex_of_another_cannot_be_waited_for_inside()
  local m = process.mutex()
  local owner = process.spawn(function() m:lock() process.suspend() m:unlock() end)
  check.becomes(owner, "suspended")
  check.raises(forbidden, process.critical, m.lock, m)
  check.raises(forbidden, process.critical, m.with, m, print)
  owner:resume()
  check.equal(m:lock(), true)
end

function case.timers_that_are_due_inside_fire_after()
  local fired = 0
  process.after(0.001, function() fired = fired + 1 end)
  process.critical(function()
    local before = fired
    spin(0.01)
    check.equal(fired, before)
  end)
  check.eventually("the timer has fired", function() return fired == 1 end)
end

function case.suspending_oneself_leaves_the_section_and_takes_it_again()
  process.params.slice = 0.001
  local count, other = counter()
  local p = process.spawn(function()
    return process.critical(function()
      return process.critical(function()
        process.suspend()
        local before = count.n
        spin(0.01)
        process.yield()
        return count.n == before
      end)
    end)
  end)
  check.becomes(p, "suspended")
  see_others_run(count)
  p:resume()
  check.results("join", { true, true }, p:join())
  other:kill()
end

function case.a_kill_is_held_back_inside_a_section()
  local log = {}
  local p = process.spawn(function()
    process.critical(function()
      process.current():kill("enough")
      log[#log + 1] = "still inside"
    end)
    log[#log + 1] = "not reached"
  end)
  check.results("join", { false, "enough" }, p:join())
  check.list(log, { "still inside" })
end

function case.a_process_suspended_out_of_its_section_can_be_killed()
  local closed = false
  local p = process.spawn(function()
    process.critical(function()
      local guard <close> = setmetatable({}, { __close = function() closed = true end })
      process.suspend()
      error "not reached"
    end)
  end)
  check.becomes(p, "suspended")
  p:kill("gone")
  check.results("join", { false, "gone" }, p:join(10))
  check.equal(closed, true)
  process.yield()
end

function case.a_foreign_call_inside_a_section_is_not_retaken()
  local count, p = counter()
  process.params.warn_blocked = 60 -- on a busy machine the command takes long
  process.critical(function()
    local before = count.n
    local pipe <close> = io.popen("sleep 0.02; echo done")
    check.equal(pipe:read("l"), "done")
    check.equal(count.n, before)
  end)
  p:kill()
end

function case.a_coroutine_cannot_leave_a_section_by_a_yield()
  local co = coroutine.wrap(function() return pcall(process.critical, coroutine.yield) end)
  local ok, message = co()
  check.equal(ok, false)
  check.matches(message, "attempt to yield across a C%-call boundary")
  check.equal(process.sleep(0.001), true, "the section has ended")
end

function case.an_interrupt_that_comes_inside_is_raised_after()
  process.params.warn_blocked = 60 -- on a busy machine the command takes long
  local finished = false
  local ok, message = pcall(function()
    process.critical(function()
      local parent <close> = io.popen("kill -INT $PPID; echo sent")
      check.equal(parent:read("l"), "sent")
      spin(0.005)
      finished = true
    end)
    spin(60) -- the signal comes at once, unless the machine is slow
  end)
  check.equal(finished, true)
  check.equal(ok, false)
  check.matches(message, "interrupted!")
end

function case.exit_from_inside_a_section_closes_the_others()
  local script = [[
    local process = require "baton.process"
    local other = process.spawn(function()
      local guard <close> = setmetatable({}, { __close = function() io.write "closed\n" end })
      process.suspend()
    end)
    repeat process.yield() until other:status() == "suspended"
    process.critical(os.exit, true, true)
  ]]
  local name = check.scratch "exit"
  local file <close> = io.open(name, "w")
  file:write(script)
  file:flush()
  local pipe <close> = io.popen("'" .. check.interpreter() .. "' " .. name .. " 2>&1")
  check.equal(pipe:read("a"), "closed\n")
end

function case.misuse_of_critical_and_yield_to_raises()
  check.raises(
    "bad argument #1 to 'critical' %(function expected, got no value%)",
    function() process.critical() end
  )
  check.raises(
    "bad argument #1 to 'critical' %(function expected, got number%)",
    function() process.critical(1) end
  )
  check.raises(
    "bad argument #1 to 'yield_to' %(process expected, got no value%)",
    function() process.yield_to() end
  )
  check.raises(
    "bad argument #1 to 'yield_to' %(process expected, got table%)",
    function() process.yield_to({}) end
  )
  check.raises(
    "cannot move to another thread",
    process.critical,
    process.main.bind,
    process.main,
    "main"
  )
  check.equal(process.sleep(0.001), true)
end

function case.a_directed_yield_ignores_the_order_of_equals()
  check.without_slices()
  local log = {}
  local all = {}
  for i = 1, 3 do all[i] = process.spawn(function() log[#log + 1] = i end) end
  check.equal(process.yield_to(all[3]), true)
  for i = 1, 3 do all[i]:join() end
  check.list(log, { 3, 1, 2 })
end

function case.a_directed_yield_falls_back_to_the_next()
  check.without_slices()
  local log = {}
  local function note(what) return function() log[#log + 1] = what end end
  local low = process.spawn({ priority = 10 }, note "low")
  local held = process.spawn({ suspended = true }, note "held")
  local next = process.spawn(note "next")
  process.yield_to(low)
  check.list(log, { "next" }, "the less urgent one does not run")
  local another = process.spawn(note "another")
  process.yield_to(held)
  check.list(log, { "next", "another" }, "nor does a suspended one")
  check.results("dead", { false, "dead" }, process.yield_to(next))
  check.equal(process.yield_to(process.current()), true)
  held:kill()
  low:join()
  another:join()
end

function case.a_process_that_is_not_preemptible_runs_until_it_waits()
  process.params.slice = 0.001
  local log = {}
  local p = process.spawn({ preemptible = false }, function()
    local urgent = process.spawn({ priority = 70 }, function() log[#log + 1] = "urgent" end)
    spin(0.02)
    log[#log + 1] = "cooperative"
    process.yield()
    log[#log + 1] = "again"
    urgent:join()
  end)
  p:join()
  check.list(log, { "cooperative", "urgent", "again" })
end

check.run(case)
