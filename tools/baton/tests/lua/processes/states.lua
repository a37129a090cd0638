-- The status of a process in each of its states, its traceback and its counters.
local check = require "check"
local process = require "baton.process"
local case = {}

function case.the_running_process_is_running()
  check.equal(process.current():status(), "running")
  local p = process.spawn(function() return process.current():status() end)
  check.results("join", { true, "running" }, p:join())
end

function case.a_process_that_waits_for_its_turn_is_runnable()
  check.without_slices()
  local p = process.spawn(function() end)
  check.equal(p:status(), "runnable")
  p:join()
end

function case.a_process_on_a_channel_is_waiting()
  local ch = process.channel()
  local p = process.spawn(function() return ch:receive() end)
  check.eventually("waiting", function() return p:status() == "waiting" end)
  ch:send(true)
  check.equal(p:join(), true)
end

function case.a_process_that_joins_is_waiting()
  local gate = process.event()
  local p = process.spawn(function() gate:wait() end)
  local q = process.spawn(function() return p:join() end)
  check.eventually("waiting", function() return q:status() == "waiting" end)
  gate:set()
  q:join()
end

function case.a_sleeping_process_is_sleeping()
  local p = process.spawn(function() process.sleep(60) end)
  check.eventually("sleeping", function() return p:status() == "sleeping" end)
  p:kill()
  p:join()
end

function case.a_suspended_process_is_suspended()
  local p = process.spawn({ suspended = true }, function() end)
  check.equal(p:status(), "suspended")
  p:resume()
  p:join()
end

function case.a_process_in_a_long_c_call_is_foreign()
  local fifo = check.fifo()
  local p = process.spawn(function()
    local file <close> = assert(io.open(fifo))
    return file:read "l"
  end)
  check.eventually("foreign", function() return p:status() == "foreign" end)
  check.write_file(fifo, "done\n")
  check.results("join", { true, "done" }, p:join())
end

function case.an_ended_process_is_dead()
  local p = process.spawn(function() end)
  local q = process.spawn({ quiet = true }, error)
  local r = process.spawn({ suspended = true }, function() end)
  r:kill()
  p:join() q:join() r:join()
  check.equal(p:status(), "dead")
  check.equal(q:status(), "dead")
  check.equal(r:status(), "dead")
end

function case.the_traceback_of_a_waiting_process_names_its_functions()
  local ch = process.channel()
  local function inner_function() return (ch:receive()) end
  local function outer_function() return (inner_function()) end
  local p = process.spawn(function() local v = outer_function() return v end)
  check.eventually("waiting", function() return p:status() == "waiting" end)
  local text = p:traceback()
  check.matches(text, "stack traceback:")
  check.matches(text, "inner_function.*outer_function")
  check.matches(text, "states%.lua:%d+:")
  ch:close()
  p:join()
end

function case.the_traceback_of_an_endless_loop_names_it()
  local turns = 0
  local function endless_loop() while true do turns = turns + 1 end end
  local p = process.spawn(function() endless_loop() end)
  check.eventually("it turns", function() return turns > 0 end)
  check.matches(p:traceback(), "endless_loop")
  p:kill()
  p:join()
end

function case.the_traceback_of_a_failed_process_shows_where_it_failed()
  local function failing_function() error("reason") end
  local p = process.spawn({ quiet = true }, function() failing_function() end)
  p:join()
  check.matches(p:traceback(), "failing_function")
end

function case.a_process_can_print_its_own_traceback()
  local function looking_function() local text = process.current():traceback() return text end
  check.matches(looking_function(), "looking_function")
end

function case.a_traceback_of_a_process_inside_a_coroutine_is_text()
  local ch = process.channel()
  local p = process.spawn(function() coroutine.wrap(function() ch:receive() end)() end)
  check.eventually("waiting", function() return p:status() == "waiting" end)
  check.matches(p:traceback(), "stack traceback:")
  ch:close()
  p:join()
end

-- If the machine stops while a process runs, that time is counted. So a sleeping process sometimes
-- seems to work. The median of five is judged.
function case.the_running_time_of_a_process_counts_its_work()
  local of_sleepers = {}
  for i = 1, 5 do
    local p = process.spawn(function()
      local until_then = os.clock() + 0.05
      while os.clock() < until_then do end
    end)
    local idle = process.spawn(function() process.sleep(0.02) end)
    p:join() idle:join()
    check.within(p:stats().running, 0.02, 60)
    of_sleepers[i] = idle:stats().running
  end
  check.within(check.middle(of_sleepers), 0, 0.01, "one that sleeps uses less than it has slept")
end

-- The shell stops the whole program for a while, as a busy machine does.
function case.the_cpu_time_of_a_process_excludes_time_off_the_processor()
  local before = os.clock()
  local p = process.spawn(function()
    local pipe <close> = io.popen("kill -STOP $PPID; sleep 0.3; kill -CONT $PPID; echo done")
    local until_then = process.now() + 0.6
    while process.now() < until_then do end
    check.equal(pipe:read("l"), "done")
  end)
  p:join()
  local computed, stats = os.clock() - before, p:stats()
  check.within(stats.running, 0.5, 60)
  check.within(stats.cpu, 0, stats.running - 0.2)
  check.within(stats.cpu, computed / 2, computed * 1.5 + 0.02)
end

function case.a_process_in_a_call_that_sleeps_neither_runs_nor_computes()
  local running, others = {}, {}
  for i = 1, 5 do -- the median, since a stop of the machine is counted too
    local p = process.spawn(os.execute, "sleep 0.2")
    local own = process.current():stats()
    p:join()
    local stats, mine = p:stats(), process.current():stats()
    check.within(stats.cpu, 0, stats.running)
    check.within(mine.cpu - own.cpu, 0, mine.running)
    running[i], others[i] = stats.running, mine.running - own.running
  end
  check.within(check.middle(running), 0, 0.1)
  check.within(check.middle(others), 0, 0.1, "others are charged for nothing")
end

function case.stats_has_the_most_stack_that_a_process_has_used()
  local function descend(n)
    if n == 0 then return process.suspend() end
    string.gsub("x", ".", function() descend(n - 1) end)
  end
  local p = process.spawn(function()
    process.suspend()
    descend(100)
    process.suspend()
  end)
  local used = {}
  for i = 1, 3 do
    check.becomes(p, "suspended")
    used[i] = p:stats().stack_used
    p:resume()
  end
  check.equal(p:join(), true)
  check.that(used[1] > 0)
  check.that(used[2] > used[1], "it grows with the depth")
  check.equal(used[3], used[2], "the most is kept")
  check.that(used[3] < process.params.stack_size)
end

function case.the_parameter_sets_the_stack_size_of_later_processes()
  local function size(p) return p:stats().stack_size end
  local former = process.params.stack_size
  local before = process.spawn(process.suspend)
  check.becomes(before, "suspended")
  process.params.stack_size = 448 * 1024
  local after = process.spawn(process.suspend)
  check.becomes(after, "suspended")
  process.params.stack_size = former
  local again = process.spawn(process.suspend)
  check.becomes(again, "suspended")
  check.that(size(before) >= former and size(again) >= former)
  check.that(size(after) >= 448 * 1024 and size(after) < former)
  for _, p in ipairs { before, after, again } do
    p:resume()
    check.equal(p:join(), true)
  end
end

function case.the_counters_of_the_program_are_numbers_and_grow()
  local before = process.stats()
  for _ = 1, 100 do process.spawn(function() process.yield() end):join() end
  local after, grown = process.stats(), 0
  for name, value in pairs(after) do
    check.equal(type(name), "string")
    if
      math.type(value) == "integer"
      and math.type(before[name]) == "integer"
      and value >= before[name] + 100
    then
      grown = grown + 1
    end
  end
  check.that(grown >= 1, "a counter of switches grew by a hundred")
end

function case.threads_are_counted_and_main_runs_on_main()
  check.equal(process.thread(), "main")
  check.within(process.threads(), 1, 1000)
end

function case.bind_to_main_keeps_a_process_on_the_first_thread()
  local p = process.spawn(function()
    process.current():bind("main")
    for _ = 1, 20 do
      check.equal(process.thread(), "main")
      process.sleep(0.0005)
    end
    process.current():bind(nil)
    return "released"
  end)
  check.results("join", { true, "released" }, p:join())
end

function case.features_returns_a_table()
  local features = process.features()
  check.equal(type(features), "table")
  check.that(next(features) ~= nil)
end

function case.parameters_are_read_and_written()
  local params = process.params
  check.equal(params.slice, 0.010)
  check.equal(params.window, 0.0001)
  check.equal(params.warn_blocked, 0.1)
  check.equal(params.thread_idle, 10)
  check.equal(params.preemptive, true)
  check.that(params.max_threads >= 64, "the default is at least 64")
  check.that(params.stack_size >= 512 * 1024)
  params.slice, params.warn_blocked, params.max_threads = 0.002, 5, 70
  check.equal(params.slice, 0.002)
  check.equal(params.warn_blocked, 5)
  check.equal(params.max_threads, 70)
end

check.run(case)
