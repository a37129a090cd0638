-- Named native threads, and processes that are bound to them.
local check = require "check"
local process = require "baton.process"
local case = {}

-- Keeps the thread busy with a call that lasts until the returned function is called.
local function occupy(name)
  local path = check.fifo()
  local p = process.spawn({ thread = name, name = "busy" }, function() io.open(path):close() end)
  check.becomes_stuck(p, "open")
  return function()
    process.spawn(io.open, path, "w"):join()
    check.results("join", { true }, p:join())
  end
end

function case.bound_processes_run_on_the_thread_of_the_name()
  local all, goes_on = {}, process.event()
  for i = 1, 6 do
    local name = i % 2 == 0 and "even" or "odd"
    all[i] = process.spawn({ thread = name }, function()
      goes_on:wait()
      for _ = 1, 20 do
        check.equal(process.thread(), name)
        process.sleep(0.0002)
      end
    end)
    check.equal(all[i]:stats().thread, name)
  end
  check.equal(process.stats().threads_named, 2)
  goes_on:set()
  for i = 1, 6 do check.results("join", { true }, all[i]:join()) end
  check.equal(process.stats().threads_named, 0)
end

function case.a_process_binds_itself_and_others()
  local p = process.spawn(function()
    local me = process.current()
    check.equal(me:stats().thread, false)
    check.equal(me:bind "own", true)
    check.equal(process.thread(), "own")
    me:bind "another"
    check.equal(process.thread(), "another")
    me:bind(nil)
    check.equal(me:stats().thread, false)
    process.suspend()
    return process.thread()
  end)
  check.becomes(p, "suspended")
  check.equal(p:bind "third", true)
  p:resume()
  check.results("join", { true, "third" }, p:join())
end

function case.the_main_process_may_be_bound_elsewhere()
  check.equal(process.main:stats().thread, "main")
  process.main:bind "elsewhere"
  check.equal(process.thread(), "elsewhere")
  local p = process.spawn(process.thread)
  p:join()
  process.sleep(0.001)
  check.equal(process.thread(), "elsewhere")
  process.main:bind "main"
  check.equal(process.thread(), "main")
end

function case.a_busy_thread_holds_up_only_those_that_are_bound_to_it()
  local let_go = occupy "device"
  local waiting = process.spawn({ thread = "device", priority = 80 }, process.thread)
  local ticks = 0
  local ticker = process.spawn(function()
    for _ = 1, 50 do
      process.sleep(0.0005)
      ticks = ticks + 1
    end
  end)
  local elsewhere = process.spawn({ thread = "other" }, check.fib, 15)
  check.equal(ticker:join(), true)
  check.results("join", { true, 610 }, elsewhere:join())
  check.equal(waiting:status(), "runnable")
  check.matches(waiting:stats().waits_for, "^for the thread 'device'")
  check.equal(process.stats().waiting_for_thread, 1)
  let_go()
  check.results("join", { true, "device" }, waiting:join())
  check.equal(ticks, 50)
end

function case.binding_to_a_busy_thread_waits_for_that_thread()
  local let_go = occupy "device"
  local p = process.spawn(function()
    process.current():bind "device"
    return process.thread()
  end)
  check.eventually("it waits", function() return p:stats().waits_for end)
  check.results("join", { nil, "timeout", n = 2 }, p:join(0.01))
  let_go()
  check.results("join", { true, "device" }, p:join())
end

function case.a_process_that_waits_for_a_thread_can_be_unbound()
  local let_go = occupy "device"
  local p = process.spawn({ thread = "device" }, process.thread)
  process.yield()
  check.that(p:stats().waits_for)
  p:bind "free"
  check.results("join", { true, "free" }, p:join())
  let_go()
end

function case.kill_suspend_and_set_priority_reach_a_process_that_waits_for_a_thread()
  local let_go = occupy "device"
  local log = {}
  local function spawn(name)
    return process.spawn({ thread = "device" }, function() log[#log + 1] = name end)
  end
  local unstarted, suspended, late, urgent =
    spawn "unstarted", spawn "suspended", spawn "late", spawn "urgent"
  unstarted:kill "enough"
  check.results("a process that has not begun", { false, "enough" }, unstarted:join())
  suspended:suspend()
  check.equal(suspended:status(), "suspended")
  urgent:set_priority(60)
  let_go()
  late:join() urgent:join()
  suspended:resume()
  suspended:join()
  check.list(log, { "urgent", "late", "suspended" })
end

function case.close_variables_of_a_killed_process_run_on_its_thread()
  local at
  local p = process.spawn({ thread = "own" }, function()
    local _ <close> = check.closing(function() at = process.thread() end)
    process.sleep(1000)
  end)
  check.becomes(p, "sleeping")
  p:kill()
  p:join()
  check.equal(at, "own")
end

function case.those_on_one_thread_share_it_fairly()
  process.params.slice = 0.001
  local counts, over = { 0, 0, 0 }, false
  local all = {}
  for i = 1, 3 do
    all[i] = process.spawn({ thread = "shared" }, function()
      while not over do counts[i] = counts[i] + 1 end
    end)
  end
  check.eventually(
    "all have run",
    function() return counts[1] > 1000 and counts[2] > 1000 and counts[3] > 1000 end
  )
  over = true
  for i = 1, 3 do all[i]:join() end
end

function case.a_thread_ends_when_no_process_is_bound_to_it()
  process.params.thread_idle = 0.001
  for i = 1, 5 do
    process.spawn({ thread = "brief" .. i }, function() end):join()
    local p = process.spawn({ thread = "never", suspended = true }, print)
    p:kill()
    p:join()
  end
  check.equal(process.stats().threads_named, 0)
  check.eventually("all threads but main are gone", function() return process.threads() == 1 end)
end

function case.the_bound_on_threads_is_named()
  process.params.max_threads = 4
  local event = process.event()
  local function wait() event:wait() end
  local one, two = process.spawn({ thread = "one" }, wait), process.spawn({ thread = "two" }, wait)
  local refused = "no native thread for another name: of 4 %(max_threads%), 2 have names"
  check.raises("cannot bind to 'three': " .. refused, process.main.bind, process.main, "three")
  check.equal(process.thread(), "main")
  check.raises(refused, process.spawn, { thread = "three" }, wait)
  check.equal(process.spawn({ thread = "two" }, event.is_set, event):join(), true)
  process.params.max_threads = 5
  check.results(
    "join",
    { true, "three" },
    process.spawn({ thread = "three" }, process.thread):join()
  )
  event:set()
  one:join() two:join()
end

function case.other_processes_run_when_all_threads_are_named_or_in_calls()
  -- main, the two, one for calls, and one for the VM while main is in a call
  process.params.max_threads = 5
  local let_go_of_one, let_go_of_two = occupy "one", occupy "two"
  local all, paths = {}, {}
  for i = 1, 6 do
    paths[i] = check.fifo()
    all[i] = process.spawn(function() return io.open(paths[i]):close() end)
  end
  for i = 1, 6 do os.execute("echo > " .. paths[i]) end
  for i = 1, 6 do check.results("join", { true, true }, all[i]:join()) end
  let_go_of_one()
  let_go_of_two()
end

function case.wrong_names_are_reported()
  local p = process.current()
  check.raises("string expected, got number", p.bind, p, 5)
  check.raises("string expected, got table", p.bind, p, {})
  check.raises("value expected", p.bind, p)
  check.raises("1 to 63 bytes, got 0", p.bind, p, "")
  check.raises("1 to 63 bytes, got 64", p.bind, p, ("x"):rep(64))
  check.raises("no control characters", p.bind, p, "a\0b")
  check.raises("no control characters", p.bind, p, "a\n")
  check.raises("UTF%-8", p.bind, p, "\xff")
  check.raises("option 'thread': string expected, got number", process.spawn, { thread = 1 }, print)
  check.raises(
    "option 'thread': a thread's name has 1 to 63 bytes",
    process.spawn,
    { thread = "" },
    print
  )
  check.raises("UTF%-8", process.spawn, { thread = "\xff" }, print)
  local dead = process.spawn(function() end)
  dead:join()
  check.results("the dead", { false, "dead" }, dead:bind "x")
  check.equal(process.stats().threads_named, 0)
  check.results(
    "a long name",
    { true, ("x"):rep(63) },
    process.spawn({ thread = ("x"):rep(63) }, process.thread):join()
  )
end

function case.critical_sections_do_not_move()
  check.raises(
    "cannot move to another thread",
    process.critical,
    process.main.bind,
    process.main,
    "other"
  )
  check.equal(process.thread(), "main")
end

function case.generators_and_coroutines_move_with_their_process()
  local p = process.spawn(function()
    local function next_thread()
      process.current():bind(process.thread() == "a" and "b" or "a")
      coroutine.yield(process.thread())
    end
    local threads = {}
    for thread in
      coroutine.wrap(function()
        for _ = 1, 6 do
          next_thread()
        end
      end)
    do
      threads[#threads + 1] = thread
    end
    return table.concat(threads)
  end)
  check.results("join", { true, "ababab" }, p:join())
end

check.run(case)
