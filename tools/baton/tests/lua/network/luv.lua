-- luv: the loop runs in one process. Meanwhile other processes wait, compute and use plain
-- LuaSocket.
local check = require "check"
local process = require "baton.process"
local socket = require "socket"
local uv = require "luv"
local case = {}

local function listen(answer)
  local server = uv.new_tcp()
  server:bind("127.0.0.1", 0)
  server:listen(64, function(why)
    assert(not why, why)
    local peer = uv.new_tcp()
    server:accept(peer)
    peer:read_start(function(_, data)
      if data then peer:write(answer(data)) else peer:close() end
    end)
  end)
  return server, server:getsockname().port
end

local function ask(port, text)
  local client = assert(socket.connect("127.0.0.1", port))
  client:send(text .. "\n")
  local answer = client:receive()
  client:close()
  return answer
end

function case.others_run_while_the_loop_waits()
  local ticks, fired = check.ticker(), 0
  local timer = uv.new_timer()
  timer:start(10, 10, function()
    fired = fired + 1
    if ticks() > 20 then timer:close() end
  end)
  check.equal(uv.run(), false)
  check.that(fired > 0)
end

function case.processes_talk_to_a_server_of_the_loop()
  local server, port = listen(string.upper)
  local runner = process.spawn({ name = "loop" }, uv.run)
  local all = {}
  for i = 1, 30 do
    all[i] = process.spawn(function() check.equal(ask(port, "line " .. i), "LINE " .. i) end)
  end
  for i = 1, 30 do check.results("client", { true }, all[i]:join()) end
  check.becomes(runner, "waiting")
  check.within(process.threads(), 1, process.features().poller == "polling" and 64 or 8, "threads")
  local wake = uv.new_async(function() server:close() end)
  wake:unref()
  wake:send() -- a waiting loop does not see changes by other processes
  check.results("loop", { true, false }, runner:join())
end

function case.a_callback_may_wait_for_another_process()
  local asked, answered = process.channel(0), process.channel(0)
  process.spawn({ daemon = true }, function()
    for text in asked:values() do answered:send(text:lower()) end
  end)
  local _, port = listen(function(data)
    asked:send(data)
    return (answered:receive())
  end)
  process.spawn({ daemon = true }, uv.run)
  check.equal(ask(port, "Question"), "question")
end

function case.stopping_ends_the_run_and_leaves_the_rest()
  local timer, late = uv.new_timer(), uv.new_timer()
  local log = {}
  timer:start(5, 0, function()
    log[#log + 1] = "stop"
    uv.stop()
  end)
  late:start(50, 0, function() log[#log + 1] = "late" end)
  check.equal(uv.run(), true)
  check.list(log, { "stop" })
  check.equal(uv.run "default", false)
  check.list(log, { "stop", "late" })
  uv.stop()
  timer:start(0, 0, function() log[#log + 1] = "again" end)
  check.equal(uv.run(), true) -- stopped before it began
  check.equal(uv.run(), false)
  check.list(log, { "stop", "late", "again" })
end

function case.once_and_nowait_are_as_ever()
  local fired = 0
  local timer = uv.new_timer()
  check.equal(uv.run "once", false)
  timer:start(20, 20, function() fired = fired + 1 end)
  check.equal(uv.run "nowait", true)
  check.equal(fired, 0)
  check.equal(uv.run "once", true)
  check.equal(fired, 1)
  local late, came = uv.new_timer(), false
  late:start(3600000, 0, function() end)
  local async
  async = uv.new_async(function()
    came = true
    async:close()
  end)
  async:send()
  repeat uv.run "once" until came -- handles exactly one event at a time
  late:close()
  timer:close()
  check.equal(uv.run "nowait", false)
  check.raises("invalid option .for ever.", uv.run, "for ever")
end

-- A regression test: coroutine.running said that a callback ran in a coroutine, so it tried to
-- yield. And the loop did not know its mode.
function case.a_callback_knows_that_it_may_not_yield_and_how_the_loop_runs()
  local told
  local function tell(mode)
    told = nil
    local timer = uv.new_timer()
    timer:start(1, 0, function()
      local thread, is_main = coroutine.running()
      told = { thread, is_main, coroutine.isyieldable(), uv.loop_mode() }
      timer:close()
    end)
    repeat uv.run(mode) until told
    return told
  end
  local main = coroutine.running()
  for mode, name in pairs { default = "default", once = "once", nowait = "nowait" } do
    check.results(mode, { main, true, false, name }, table.unpack(tell(mode)))
  end
  check.results("no mode", { main, true, false, "default" }, table.unpack(tell()))
  check.results(
    "within a coroutine",
    { main, true, false, "default" },
    table.unpack(coroutine.wrap(tell)())
  )
  local own, own_is_main
  local answers = { process.spawn(function()
    own, own_is_main = coroutine.running()
    return table.unpack(tell())
  end):join() }
  check.equal(own_is_main, false)
  check.results("another process", { true, own, true, false, "default" }, table.unpack(answers))
  check.equal(uv.loop_mode(), nil)
  local wrapped = coroutine.wrap(function() return select(2, coroutine.running()) end)
  check.equal(wrapped(), false)
end

function case.another_process_can_run_the_loop_after_a_kill()
  local server, port = listen(string.upper)
  local first = process.spawn(uv.run)
  check.equal(ask(port, "one"), "ONE")
  check.becomes(first, "waiting")
  first:kill()
  check.results("first", { false, "killed" }, first:join())
  local question = process.spawn(ask, port, "two")
  check.becomes(question, "waiting")
  local second = process.spawn({ daemon = true }, uv.run)
  check.results("question", { true, "TWO" }, question:join())
  check.becomes(second, "waiting")
  -- luv itself crashes when a handle is being closed as the program ends
  check.equal(server:is_closing(), false)
end

function case.the_pool_of_threads_wakes_the_loop()
  local path = check.scratch "text"
  check.write_file(path, "content")
  local text, result
  uv.fs_open(path, "r", 438, function(why, file)
    assert(not why, why)
    uv.fs_read(file, 100, 0, function(_, data)
      text = data
      uv.fs_close(file, function() end)
    end)
  end)
  local work = uv.new_work(function(n) return n * 2 end, function(doubled) result = doubled end)
  uv.run()
  work:queue(21)
  uv.run()
  check.equal(text, "content")
  check.equal(result, 42)
end

function case.two_runners_take_turns()
  local timer, fired = uv.new_timer(), 0
  timer:start(1, 1, function()
    fired = fired + 1
    process.yield()
    if fired == 20 then timer:close() end
  end)
  local runners = {}
  for i = 1, 3 do runners[i] = process.spawn(uv.run) end
  for i = 1, 3 do check.results("runner", { true, false }, runners[i]:join()) end
  check.equal(fired, 20)
end

function case.a_callback_that_computes_is_preempted()
  local ticks = check.ticker()
  local timer = uv.new_timer()
  timer:start(0, 0, function()
    while ticks() <= 5 do end
    timer:close()
  end)
  check.equal(uv.run(), false)
end

function case.a_kill_waits_for_the_callback()
  local inside, finished = process.event(), false
  local timer = uv.new_timer()
  timer:start(0, 0, function()
    inside:set()
    process.sleep(0.05)
    finished = true
    timer:close()
  end)
  local runner = process.spawn(uv.run)
  inside:wait()
  runner:kill()
  check.results("runner", { false, "killed" }, runner:join())
  check.equal(finished, true)
  check.equal(uv.run(), false)
end

function case.timers_count_from_now_after_a_long_callback()
  local first, second, fired = uv.new_timer(), uv.new_timer(), nil
  local before = process.now()
  uv.update_time() -- timers start at the time that the loop saw last, in whole milliseconds
  second:start(300, 0, function()
    fired = process.now() - before
    second:close()
  end)
  first:start(0, 0, function()
    first:close()
    while process.now() - before < 0.25 do end
  end)
  uv.run()
  check.within(fired, 0.299, 60)
end

function case.a_timer_gives_up_a_connection_that_is_silent()
  local silent = assert(socket.bind("127.0.0.1", 0))
  local _, port = silent:getsockname()
  local other = assert(socket.connect("127.0.0.1", port))
  local peer = assert(silent:accept())
  local reader = process.spawn(function() return (other:receive()) end)
  check.becomes(reader, "waiting")
  local client, timer, log = uv.new_tcp(), uv.new_timer(), {}
  client:connect("127.0.0.1", port, function(why)
    assert(not why, why)
    client:read_start(function() log[#log + 1] = "data" end)
    timer:start(50, 0, function()
      log[#log + 1] = "timeout"
      client:close()
      timer:close()
    end)
  end)
  check.equal(uv.run(), false)
  check.list(log, { "timeout" })
  check.equal(reader:status(), "waiting")
  peer:send "x\n"
  check.results("reader", { true, "x" }, reader:join())
end

function case.callbacks_nest_without_a_word()
  local timer, walked = uv.new_timer(), 0
  timer:start(0, 0, function()
    uv.walk(function() walked = walked + 1 end)
    timer:close()
  end)
  uv.run()
  check.equal(walked, 1)
end

check.run(case)
