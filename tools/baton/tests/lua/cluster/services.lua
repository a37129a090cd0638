-- Tests services and calls.
local check = require "check"
local process = require "baton.process"
local connect = require "cluster.connected"

local case = {}

-- A number that several processes add to.
local function counter()
  local value = 0
  return function(n)
    return process.critical(function()
      value = value + (n or 0)
      return value
    end)
  end
end

function case.a_call_returns_what_the_method_returns()
  local server <close> = connect()
  local client <close> = connect()
  local service <close> = server:serve("calculator", {
    add = function(a, b) return a + b end,
    many = function(...) return select("#", ...), ... end,
    nothing = function() end,
  })
  check.results("add", { 3 }, client:call("calculator", "add", 1, 2))
  check.results("many", { 3, nil, 2, nil, n = 4 }, client:call("calculator", "many", nil, 2, nil))
  check.results("nothing", {}, client:call("calculator", "nothing"))
  local limit = { timeout = 5 }
  check.results("a limit", { 1, "a", n = 2 }, client:call("calculator", "many", "a", limit))
end

function case.nobody_serves_is_known_at_once()
  local c <close> = connect()
  local began = process.now()
  check.results("a call", { nil, "no service", n = 2 }, c:call("nobody", "add", 1, 2))
  check.within(process.now() - began, 0, 4)
end

function case.an_error_travels_with_its_traceback()
  local server <close> = connect()
  local client <close> = connect()
  local function deep() error("it is broken") end
  local service <close> = server:serve("broken", {
    fail = function() deep() end,
    value = function() error { code = 7 } end,
    unsendable = function() return print end,
  })
  local trace
  local is_done, failure = xpcall(client.call, function(failure)
    trace = debug.traceback(failure)
    return failure
  end, client, "broken", "fail")
  check.that(not is_done)
  check.that(failure:find "it is broken$", failure)
  check.that(trace:find("raised in service 'broken':", 1, true), trace)
  check.that(trace:find("in upvalue 'deep'", 1, true), trace)
  is_done, failure = pcall(client.call, client, "broken", "value")
  check.that(not is_done)
  check.equal(failure.code, 7)
  is_done, failure = pcall(client.call, client, "broken", "unsendable")
  check.that(not is_done)
  check.that(failure:find("cannot send result 2: function", 1, true), failure)
  is_done, failure = pcall(client.call, client, "broken", "absent")
  check.that(not is_done)
  check.that(failure:find("the service 'broken' has no method 'absent'", 1, true), failure)
  is_done, failure = pcall(client.call, client, "broken", "fail", print)
  check.that(not is_done)
  check.that(failure:find("cannot send argument 2: function", 1, true), failure)
end

function case.requests_run_beside_each_other_up_to_the_concurrency()
  local server <close> = connect()
  local client <close> = connect()
  local running, most, gate = counter(), 0, process.event()
  local service <close> = server:serve("slow", {
    work = function()
      local now = running(1)
      process.critical(function() most = math.max(most, now) end)
      gate:wait()
      process.sleep(0.01)
      running(-1)
      return true
    end,
  }, { concurrency = 3 })
  local callers = {}
  for i = 1, 8 do
    callers[i] = process.spawn(function() return client:call("slow", "work") end)
  end
  while running() < 3 do process.sleep(0.001) end
  gate:set()
  for i = 1, 8 do check.results("caller " .. i, { true, true }, callers[i]:join(20)) end
  check.equal(most, 3)
end

function case.a_busy_instance_passes_calls_to_a_free_one()
  local one <close> = connect()
  local other <close> = connect()
  local client <close> = connect()
  local gate, began = process.event(), counter()
  local function block()
    began(1)
    gate:wait()
    return true
  end
  local a <close> = one:serve("shared", { block = block }, { concurrency = 1 })
  local b <close> = other:serve("shared", { block = block }, { concurrency = 1 })
  local callers = {}
  for i = 1, 2 do
    callers[i] = process.spawn(function() return client:call("shared", "block") end)
  end
  while began() < 2 do process.sleep(0.001) end
  local limit = { timeout = 0.1 }
  check.results("both are busy", { nil, "timeout", n = 2 }, client:call("shared", "block", limit))
  gate:set()
  for i = 1, 2 do check.results("caller " .. i, { true, true }, callers[i]:join(10)) end
end

function case.a_caller_may_give_up()
  local server <close> = connect()
  local client <close> = connect()
  local gate = process.event()
  local service <close> = server:serve("slow", { wait = function() gate:wait() end })
  local limit = { timeout = 0.05 }
  check.results("a timeout", { nil, "timeout", n = 2 }, client:call("slow", "wait", limit))
  local caller = process.spawn(function() return client:call("slow", "wait") end)
  process.sleep(0.02)
  caller:kill "enough"
  check.results("a kill", { false, "enough" }, caller:join(5))
  gate:set()
end

function case.a_killed_request_is_an_error_of_the_caller()
  local server <close> = connect()
  local client <close> = connect()
  local victim
  local service <close> = server:serve("mortal", {
    die = function()
      victim = process.current()
      process.suspend()
    end,
  })
  local caller = process.spawn(function() return pcall(client.call, client, "mortal", "die") end)
  while not victim do process.sleep(0.001) end
  victim:kill()
  local _, is_done, failure = caller:join(5)
  check.equal(is_done, false)
  check.that(failure:find "the request was killed", failure)
end

function case.a_closed_service_finishes_what_it_has_begun()
  local server <close> = connect()
  local client <close> = connect()
  local gate, has_begun = process.event(), process.event()
  local service = server:serve("closing", {
    wait = function()
      has_begun:set()
      gate:wait()
      return "done"
    end,
  })
  local caller = process.spawn(function() return client:call("closing", "wait") end)
  has_begun:wait()
  service:close()
  gate:set()
  check.results("the call", { true, "done" }, caller:join(5))
  check.results("the next", { nil, "no service", n = 2 }, client:call("closing", "wait"))
end

function case.a_call_has_the_context_and_the_deadline_of_its_caller()
  local server <close> = connect()
  local client <close> = connect()
  local service <close> = server:serve("context", {
    fields = function(...) return process.context "user", process.context "request", ... end,
    left = function() return process.time_left() end,
    fail = function() error("failed for " .. process.context "user", 0) end,
  })
  check.results("none", { nil, nil, 1, n = 3 }, client:call("context", "fields", 1))
  process.with_context({ user = "ann", request = 7 }, function()
    check.results("both", { "ann", 7, 1 }, client:call("context", "fields", 1))
    local is_done, why = pcall(client.call, client, "context", "fail")
    check.that(not is_done and tostring(why):find "failed for ann", tostring(why))
  end)
  check.equal(client:call("context", "left"), nil)
  process.timeout(100, function()
    check.within(client:call("context", "left"), 50, 100)
    check.within(client:call("context", "left", { timeout = 20 }), 5, 20)
    check.within(client:call("context", "left", { timeout = 5000 }), 50, 100)
  end)
end

check.run(case)
