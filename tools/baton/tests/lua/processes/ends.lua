-- The end of a process: its outcome is set last, when its Lua thread is dead.
local check = require "check"
local process = require "baton.process"
local case = {}

-- An error value whose __tostring never returns. `seen` is set when it is called.
local function endless(seen)
  return setmetatable({}, { __tostring = function() seen:set() while true do end end })
end

function case.a_process_whose_error_is_being_printed_is_alive_and_can_be_killed()
  local seen = process.event()
  local p = process.spawn(error, endless(seen))
  seen:wait()
  check.that(p:status() ~= "dead", "it is alive")
  check.results("join", { n = 2, nil, "timeout" }, p:join(0.01))
  check.results("kill", { true }, p:kill("enough"))
  check.results("join", { false, "enough" }, p:join())
  check.equal(p:status(), "dead")
end

function case.the_end_of_the_program_kills_a_daemon_whose_error_is_being_printed()
  local seen = process.event()
  process.spawn({ daemon = true }, error, endless(seen))
  seen:wait()
end

function case.one_that_waits_while_its_error_is_printed_is_joined_after_it()
  local seen, go = process.event(), process.event()
  local p = process.spawn(
    error,
    setmetatable({}, {
      __tostring = function()
        seen:set()
        go:wait()
        error "no text"
      end,
    })
  )
  seen:wait()
  local joined = process.spawn(function() return p:join() end)
  check.becomes(joined, "waiting")
  p:kill("late")
  check.results("join", { true, false, "late" }, joined:join())
end

-- Returns the Lua thread of a process that has returned these results.
local function ended(...)
  local thread
  local p = process.spawn(function(...) thread = coroutine.running() return ... end, ...)
  check.becomes(p, "dead")
  return thread, p
end

function case.the_thread_of_a_dead_process_is_dead()
  local thread, p = ended(1, print, 3)
  check.equal(coroutine.status(thread), "dead")
  check.results(
    "resume",
    { false, "cannot resume dead coroutine" },
    coroutine.resume(thread, "more", "and more")
  )
  check.results("close", { true }, coroutine.close(thread))
  check.equal(coroutine.status(thread), "dead")
  check.raises("level out of range", debug.getlocal, thread, 0, 1)
  check.equal(debug.getinfo(thread, 0, "l"), nil)
  check.equal(debug.traceback(thread), "stack traceback:")
  check.results("join", { true, 1, print, 3 }, p:join())
end

function case.a_function_among_the_results_is_not_called_by_a_resume()
  local called = false
  local thread, p = ended(function() called = true end)
  coroutine.resume(thread)
  check.that(not called, "it is not called")
  local _, result = p:join()
  result()
  check.that(called, "it is the result")
end

function case.the_thread_of_a_failed_or_killed_process_is_dead()
  local thread
  local failed = process.spawn({ quiet = true }, function()
    thread = coroutine.running()
    error("no", 0)
  end)
  check.becomes(failed, "dead")
  check.equal(coroutine.status(thread), "dead")
  check.results("close", { true }, coroutine.close(thread))
  check.results("join", { false, "no" }, failed:join())
  local killed = process.spawn(function() thread = coroutine.running() process.sleep(1000) end)
  check.becomes(killed, "sleeping")
  killed:kill()
  check.results("join", { false, "killed" }, killed:join())
  check.equal(coroutine.status(thread), "dead")
  check.results(
    "resume",
    { false, "cannot resume dead coroutine" },
    coroutine.resume(thread, print)
  )
end

function case.the_thread_of_a_living_process_can_be_neither_resumed_nor_closed()
  local thread
  local p = process.spawn(function() thread = coroutine.running() process.sleep(1000) end)
  check.becomes(p, "sleeping")
  check.equal(coroutine.status(thread), "normal")
  check.results(
    "resume",
    { false, "cannot resume non-suspended coroutine" },
    coroutine.resume(thread)
  )
  check.raises("cannot close a normal coroutine", coroutine.close, thread)
  p:kill()
  p:join()
end

function case.a_join_waits_for_a_retaken_call_of_a_failing_process()
  local name = check.fifo()
  local seen = process.event()
  local p = process.spawn(
    error,
    setmetatable({}, {
      __tostring = function()
        seen:set()
        return io.open(name):read("a"), error "no"
      end,
    })
  )
  seen:wait()
  check.becomes(p, "foreign")
  check.results("join", { n = 2, nil, "timeout" }, p:join(0.01))
  p:kill("late")
  io.open(name, "w"):close()
  check.results("join", { false, "late" }, p:join())
end

function case.a_yield_at_the_base_of_a_process_is_outside_of_a_coroutine()
  check.raises("attempt to yield from outside a coroutine", coroutine.yield)
  local p = process.spawn({ quiet = true }, coroutine.yield)
  check.results("join", { false, "attempt to yield from outside a coroutine" }, p:join())
  p = process.spawn({ quiet = true }, function() table.sort({ 1, 2, 3 }, coroutine.yield) end)
  check.results("join", { false, "attempt to yield from outside a coroutine" }, p:join())
  local co = coroutine.create(function() table.sort({ 1, 2, 3 }, coroutine.yield) end)
  check.results(
    "resume",
    { false, "attempt to yield across a C-call boundary" },
    coroutine.resume(co)
  )
  check.results(
    "in a process",
    { true, false, "attempt to yield across a C-call boundary" },
    process
      .spawn(function()
        return coroutine.resume(
          coroutine.create(function() table.sort({ 1, 2, 3 }, coroutine.yield) end)
        )
      end)
      :join()
  )
end

check.run(case)
