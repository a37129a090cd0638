-- Wrong arguments to every function and method: the form of the message is that of Lua's own
-- library.
local check = require "check"
local process = require "baton.process"
local case = {}

local nan = 0 / 0

-- f must raise "bad argument #number to 'name' (...)", with `detail` in the parentheses.
local function bad(number, name, detail, f)
  local ok, message = pcall(f)
  if ok then error(name .. ": no error for argument " .. number .. " (" .. detail .. ")", 2) end
  local got_number, got_name, got_detail =
    tostring(message):match "bad argument #(%d+) to '([^']*)' %((.+)%)"
  if
    tonumber(got_number) ~= number
    or not got_name:find(name .. "$")
    or not got_detail:lower():find(detail)
  then
    error(
      ("bad argument #%d to '%s' (%s...) expected, got: %s"):format(
        number,
        name,
        detail,
        tostring(message)
      ),
      2
    )
  end
end

-- Returns f as a function of that name, which its error messages then use.
local function named(name, f)
  local text = "local %s = ... return function(...) local result = %s(...) return result end"
  return load(text:format(name, name))(f)
end

local function idle() return process.spawn({ suspended = true }, function() end) end

function case.spawn_wants_options_and_a_function()
  bad(1, "spawn", "function expected", function() process.spawn() end)
  bad(1, "spawn", "expected, got number", function() process.spawn(42) end)
  bad(1, "spawn", "expected, got string", function() process.spawn("print") end)
  bad(2, "spawn", "function expected", function() process.spawn({}) end)
  bad(2, "spawn", "function expected, got number", function() process.spawn({}, 1) end)
  bad(2, "spawn", "function expected, got table", function() process.spawn({}, {}) end)
end

function case.spawn_refuses_options_that_it_does_not_know()
  bad(1, "spawn", "colour", function() process.spawn({ colour = "red" }, print) end)
  bad(1, "spawn", "", function() process.spawn({ "positional" }, print) end)
  bad(1, "spawn", "", function() process.spawn({ [true] = 1 }, print) end)
end

function case.spawn_refuses_options_of_the_wrong_type_or_range()
  for _, options in ipairs {
    { priority = 0 }, { priority = 81 }, { priority = -1 }, { priority = 1.5 },
    { priority = "high" },
    { priority = nan }, { priority = math.huge }, { priority = {} },
    { name = {} }, { name = true },
    { stack_size = -1 }, { stack_size = "big" }, { stack_size = nan }, { stack_size = {} },
  } do
    local key = next(options)
    bad(1, "spawn", key, function() process.spawn(options, print) end)
  end
  check.equal(#process.list(), 1, "nothing was spawned")
end

function case.process_methods_want_a_process()
  local p = idle()
  for _, name in ipairs {
    "join",
    "kill",
    "suspend",
    "resume",
    "priority",
    "set_priority",
    "bind",
    "status",
    "traceback",
    "stats",
  } do
    check.equal(type(p[name]), "function", name)
    local method = named(name, p[name])
    bad(1, name, "expected, got table", function() method({}) end)
    bad(1, name, "expected, got no value", function() method() end)
    bad(1, name, "expected, got", function() method(process.channel()) end)
  end
  p:kill()
end

function case.process_methods_refuse_wrong_arguments()
  local p = idle()
  bad(1, "join", "number expected, got string", function() p:join("soon") end)
  bad(1, "join", "", function() p:join(nan) end)
  bad(1, "set_priority", "number expected, got no value", function() p:set_priority() end)
  bad(1, "set_priority", "number expected, got string", function() p:set_priority("high") end)
  for _, n in ipairs { 0, 81, -40, 1.5, nan, math.huge } do
    bad(1, "set_priority", "", function() p:set_priority(n) end)
  end
  bad(1, "bind", "", function() p:bind({}) end)
  check.equal(p:priority(), 40)
  p:kill()
end

function case.sleeping_wants_a_number()
  bad(1, "sleep", "number expected, got no value", function() process.sleep() end)
  bad(1, "sleep", "number expected, got string", function() process.sleep("a while") end)
  bad(1, "sleep", "", function() process.sleep(nan) end)
  bad(1, "sleep_until", "number expected, got no value", function() process.sleep_until() end)
  bad(1, "sleep_until", "number expected, got table", function() process.sleep_until({}) end)
  bad(1, "sleep_until", "", function() process.sleep_until(nan) end)
end

function case.timers_want_a_time_and_a_function()
  for _, name in ipairs { "after", "every" } do
    local timed = named(name, process[name])
    bad(1, name, "number expected", function() timed() end)
    bad(1, name, "number expected, got string", function() timed("soon", print) end)
    bad(2, name, "function expected", function() timed(1) end)
    bad(2, name, "function expected, got number", function() timed(1, 2) end)
    bad(1, name, "", function() timed(nan, print) end)
  end
  bad(1, "every", "at least 1e%-0?9 seconds expected, got 1e%-10", function()
    process.every(1e-10, print)
  end)
  bad(1, "every", "at least .* got 0", function() process.every(0, print) end)
  bad(1, "every", "at most 9e9 seconds expected, got inf", function()
    process.every(math.huge, print)
  end)
  process.after(math.huge, print):cancel() -- as sleep: it never fires
  process.after(9.1e9, print):cancel()
  local timer = process.after(1000, print)
  local cancel = timer.cancel
  bad(1, "cancel", "expected, got number", function() cancel(1) end)
  timer:cancel()
end

function case.channels_refuse_wrong_arguments()
  bad(1, "channel", "number expected, got string", function() process.channel("big") end)
  for _, n in ipairs { -1, 1.5, nan, math.huge } do
    bad(1, "channel", "", function() process.channel(n) end)
  end
  local ch = process.channel(1)
  bad(1, "send", "", function() ch:send() end)
  bad(1, "send", "", function() ch:send(nil, 1) end)
  bad(2, "send", "number expected, got string", function() ch:send(1, "soon") end)
  bad(2, "send", "", function() ch:send(1, nan) end)
  bad(1, "receive", "number expected, got table", function() ch:receive({}) end)
  bad(1, "receive", "", function() ch:receive(nan) end)
  check.equal(#ch, 0, "nothing was sent")
  for _, name in ipairs { "send", "receive", "close", "values" } do
    local method = named(name, ch[name])
    bad(1, name, "expected, got number", function() method(1, 2) end)
    bad(1, name, "expected, got", function() method(process.mutex(), 2) end)
  end
end

function case.select_refuses_wrong_cases()
  local ch = process.channel(1)
  bad(1, "select", "table expected, got no value", function() process.select() end)
  bad(1, "select", "table expected, got number", function() process.select(1) end)
  bad(1, "select", "", function() process.select { 42 } end)
  bad(1, "select", "", function() process.select { ch, "x" } end)
  bad(1, "select", "", function() process.select { {} } end)
  bad(1, "select", "", function() process.select { { 1, 2 } } end)
  bad(1, "select", "", function() process.select { { ch } } end)
  bad(1, "select", "", function() process.select { process.barrier(2) } end)
  for length, detail in pairs {
    [-1] = "negative",
    [math.mininteger] = "negative",
    [10001] = "too many",
    [1 << 32] = "too many",
    [math.maxinteger] = "too many",
  } do
    local cases = setmetatable({}, { __len = function() return length end })
    bad(1, "select", detail, function() process.select(cases, 0) end)
  end
  bad(2, "select", "number expected, got string", function() process.select({ ch }, "soon") end)
  bad(2, "select", "", function() process.select({ ch }, nan) end)
  check.equal(#ch, 0, "nothing was sent")
end

function case.semaphores_refuse_wrong_arguments()
  bad(1, "semaphore", "number expected, got string", function() process.semaphore("many") end)
  for _, n in ipairs { -1, 1.5, nan } do
    bad(1, "semaphore", "", function() process.semaphore(n) end)
  end
  local s = process.semaphore(0)
  local full = process.semaphore(math.maxinteger - 1)
  full:signal()
  check.raises("count would be more than math.maxinteger", full.signal, full)
  check.equal(full:count(), math.maxinteger)
  bad(1, "wait", "number expected, got string", function() s:wait("soon") end)
  bad(1, "wait", "", function() s:wait(nan) end)
  bad(1, "signal", "number expected, got string", function() s:signal("many") end)
  for _, n in ipairs { -1, 1.5, nan } do bad(1, "signal", "", function() s:signal(n) end) end
  check.equal(s:count(), 0)
end

function case.mutexes_conditions_and_events_refuse_wrong_arguments()
  local m, e = process.mutex(), process.event()
  bad(1, "lock", "number expected, got string", function() m:lock("soon") end)
  bad(1, "lock", "", function() m:lock(nan) end)
  bad(1, "with", "function expected", function() m:with() end)
  bad(1, "with", "function expected, got number", function() m:with(1) end)
  bad(1, "condition", "mutex expected", function() process.condition() end)
  bad(1, "condition", "mutex expected, got nil", function() process.condition({}) end)
  bad(1, "condition", "mutex expected", function() process.condition(process.channel()) end)
  local c = process.condition(m)
  check.equal(m:lock(0), true, "the failed calls did not lock")
  bad(1, "wait", "number expected, got string", function() c:wait("soon") end)
  bad(1, "wait", "", function() c:wait(nan) end)
  bad(1, "wait", "number expected, got string", function() e:wait("soon") end)
  bad(1, "wait", "", function() e:wait(nan) end)
  for object, names in pairs {
    [m] = { "lock", "unlock", "with" },
    [c] = { "wait", "signal", "broadcast" },
    [e] = { "set", "clear", "wait", "is_set" },
  } do
    for _, name in ipairs(names) do
      local method = named(name, object[name])
      bad(1, name, "expected, got table", function() method({}) end)
      bad(1, name, "expected, got", function() method(process.main) end)
    end
  end
end

function case.a_condition_waits_only_under_its_mutex()
  local c = process.condition(process.mutex())
  check.raises("", function() c:wait() end)
end

function case.finalizers_refuse_foreign_objects_and_may_be_called_twice()
  local mutex, timer = process.mutex(), process.after(1000, print)
  for _, object in ipairs {
    mutex,
    process.semaphore(1),
    process.condition(mutex),
    process.event(),
    process.channel(1),
    process.rwlock(),
    process.barrier(2),
    timer,
  } do
    local gc = named("gc", getmetatable(object).__gc)
    bad(1, "gc", "expected, got no value", gc)
    bad(1, "gc", "expected, got number", function() gc(1) end)
    bad(1, "gc", "expected, got file*", function() gc(io.stdout) end)
    gc(object)
    gc(object)
  end
  check.results("lock", { n = 2, nil, "closed" }, mutex:lock())
  timer:cancel()
end

function case.parameters_refuse_unknown_names_and_wrong_values()
  local params = process.params
  check.raises("no_such_parameter", function() params.no_such_parameter = 1 end)
  for name, values in pairs {
    slice = { "short", nan, -1, {} },
    window = { "short", nan, -1 },
    max_threads = { "many", nan, -1, 0, 1.5 },
    thread_idle = { "long", nan, -1 },
    stack_size = { "big", nan, -1, 1 },
    warn_blocked = { "late", nan, -1 },
    preemptive = { 5, "perhaps", {} },
  } do
    local before = params[name]
    for _, value in ipairs(values) do check.raises(name, function() params[name] = value end) end
    check.equal(params[name], before, name)
  end
end

function case.an_error_in_a_wrong_call_leaves_the_caller_sound()
  for _ = 1, 2000 do
    pcall(process.spawn, 1)
    pcall(process.sleep, "x")
    pcall(process.select, { 1 })
  end
  check.results("join", { true, "works" }, process.spawn(function() return "works" end):join())
end

function case.misuse_inside_a_process_is_an_ordinary_error()
  local p = process.spawn({ quiet = true }, function() process.sleep("x") end)
  local ok, message = p:join()
  check.equal(ok, false)
  check.matches(
    message,
    "misuse%.lua:%d+: bad argument #1 to 'sleep' %(number expected, got string%)"
  )
end

check.run(case)
