-- The option `name` of constructors, and how reports describe waits.
local check = require "check"
local process = require "baton.process"
local case = {}

local function waits_for(f, ...)
  local p = process.spawn({ daemon = true }, f, ...)
  check.eventually("it waits", function() return p:stats().waits_for end)
  local text = p:stats().waits_for
  p:kill()
  return text
end

function case.every_constructor_takes_a_name_that_is_shown()
  local mutex = process.mutex { name = "the mutex" }
  for kind, object in pairs {
    channel = process.channel { 2, name = "a channel" },
    semaphore = process.semaphore { 1, name = "a semaphore" },
    mutex = mutex,
    condition = process.condition { mutex, name = "a condition" },
    event = process.event { name = "an event" },
    rwlock = process.rwlock { name = "an rwlock" },
    barrier = process.barrier { 2, name = "a barrier" },
    alarm = process.timer { 1, name = "a timer" },
  } do
    check.matches(tostring(object), "^baton%." .. kind .. "%*: 0x%x+ %(%a+ %a+%)$")
  end
  check.matches(tostring(process.channel(3)), "^baton%.channel%*: 0x%x+$")
  check.matches(tostring(process.mutex {}), "^baton%.mutex%*: 0x%x+$")
end

function case.the_argument_comes_first_in_the_table()
  local channel = process.channel { 2, name = "x" }
  check.results("room", { true }, channel:send(1, 0))
  check.results("for two", { true }, channel:send(2, 0))
  check.results("not for three", { n = 2, nil, "timeout" }, channel:send(3, 0))
  check.equal(process.semaphore({ 7 }):count(), 7)
  check.equal(process.semaphore({ name = "none" }):count(), 0)
  local mutex = process.mutex()
  mutex:lock()
  check.results(
    "condition",
    { n = 2, nil, "timeout" },
    process.condition({ mutex, name = "c" }):wait(0.001)
  )
  check.results("barrier", { true, "last" }, process.barrier({ 1 }):wait())
  check.results("timer", { true }, process.timer({ 0 }):wait())
end

function case.mistakes_in_the_table_raise()
  check.raises("unknown option 'nam'", process.mutex, { nam = "x" })
  check.raises("unknown option '2'", process.channel, { 1, 2 })
  check.raises("option 'name': string expected, got number", process.event, { name = 1 })
  check.raises("number expected, got string", process.channel, { "x" })
  check.raises("capacity must not be negative", process.channel, { -1, name = "x" })
  check.raises("number expected, got nil", process.barrier, { name = "x" })
  check.raises("number expected, got no value", process.barrier)
  check.raises("mutex expected, got nil", process.condition, { name = "x" })
  check.raises("number of seconds expected", process.after, { name = "x" }, print)
  check.raises("unknown option 'nam'", process.every, { 1, nam = "x" }, print)
end

function case.timers_name_their_processes()
  local names = process.channel(8)
  local timer = process.every(
    { 0.001, name = "tick" },
    function() names:send(process.current().name, 0) end
  )
  check.equal(names:receive(), "tick")
  check.equal(names:receive(), "tick")
  timer:cancel()
  process.after({ 0, name = "once" }, function() names:close() end)
  for name in names:values() do check.equal(name, "tick") end
end

function case.a_wait_is_described_by_kind_name_and_holder()
  local mutex, lock = process.mutex { name = "accounts" }, process.rwlock { name = "cache" }
  mutex:lock()
  lock:read()
  local channel = process.channel { name = "jobs" }
  local function tells(wanted, f, ...) check.equal(waits_for(f, ...), wanted) end
  tells("for the mutex 'accounts', held by process 1 'main'", mutex.lock, mutex)
  tells("to write under the lock 'cache', held by process 1 'main'", lock.write, lock)
  tells("to receive from the channel 'jobs'", channel.receive, channel)
  tells("to send to the channel 'jobs'", channel.send, channel, 1)
  tells("to receive from a channel", function() process.channel():receive() end)
  tells("for the semaphore 's'", function() process.semaphore({ name = "s" }):wait() end)
  tells("for an event", function() process.event():wait() end)
  tells("for the event 'e'", function() process.event({ name = "e" }):wait() end)
  tells("for others at the barrier 'b'", function() process.barrier({ 2, name = "b" }):wait() end)
  tells("for the timer 't'", function() process.timer({ 1e6, name = "t" }):wait() end)
  tells("for the end of process 1 'main' (join)", process.main.join, process.main)
  tells("until a time", process.sleep, 1e6)
  tells(
    "in a select of 2 cases: the channel 'jobs'; the mutex 'accounts', held by process 1 'main'",
    process.select,
    { channel, mutex }
  )
  tells("for the mutex 'accounts', held by process 1 'main'", process.select, { mutex })
  check.matches(
    waits_for(process.select, { channel, channel, channel, channel, mutex }),
    "^in a select of 5 cases: .*; %.%.%.$"
  )
end

function case.a_name_is_shown_escaped_and_cut()
  local channel = process.channel { name = "a\n\27[2J'b" }
  check.that(not tostring(channel):find "[\n\27]")
  check.that(not waits_for(channel.receive, channel):find "[\n\27]")
  local long = process.channel { name = ("x"):rep(1000) }
  check.that(#tostring(long) < 200)
  check.matches(waits_for(long.receive, long), "x%.%.%.'$")
end

function case.a_name_goes_with_its_object()
  for _ = 1, 2000 do process.channel { name = "gone" } end
  collectgarbage()
  collectgarbage()
  for _ = 1, 100 do check.that(not tostring(process.channel()):find "gone") end
end

function case.a_process_knows_where_it_was_spawned()
  local function spawned_at(p) return p:stats().spawned_at end
  local here = debug.getinfo(1, "l").currentline
  local p = process.spawn(process.sleep, 1e6)
  check.matches(spawned_at(p), "names%.lua:" .. here + 1 .. "$")
  p:kill()
  check.equal(process.main:stats().spawned_at, false)
  process.scope(function(scope)
    local child = scope:spawn(function() end)
    check.matches(
      spawned_at(child),
      "names%.lua:" .. here + 6 .. "$",
      "and not in what the scope is written in"
    )
  end)
  local timed = process.channel()
  local timer = process.every(0.001, function() timed:send(process.current()) end)
  for _ = 1, 3 do check.matches(spawned_at(timed:receive()), "names%.lua:" .. here + 14 .. "$") end
  timer:cancel()
  timed:close() -- so that a fourth one does not wait
  local from_text = load("return (...).spawn(function() end)", "=(a text)")(process)
  collectgarbage()
  check.equal(spawned_at(from_text), "(a text):1")
  local in_coroutine = coroutine.wrap(function() return process.spawn(function() end) end)()
  check.matches(spawned_at(in_coroutine), "names%.lua:" .. here + 21 .. "$")
end

check.run(case)
