-- Which calls park, and that those that do answer as the system's own.
local check = require "check"
local process = require "baton.process"
local case = {}

local function lines(text)
  local list = {}
  for line in text:gmatch("[^\n]+") do list[#list + 1] = line end
  return list
end

local function waits_so_far() return process.stats().descriptor_waits end

-- f(5) waits for five milliseconds, and parks: unless they are over before it comes to that, as they may be on a busy machine.
local function parks(f)
  check.eventually("it parks", function()
    local before = waits_so_far()
    check.equal(f(5), 0)
    check.within(waits_so_far() - before, 0, 1)
    return waits_so_far() > before
  end)
end

function case.the_answers_are_those_of_the_system()
  local conformance = require "conformance"
  local of_system = lines(conformance.run())
  check.equal(waits_so_far(), 0)
  process.concurrent("conformance", "serial", { parks = true })
  local ours = lines(conformance.run())
  check.that(waits_so_far() > 30)
  for i = 1, math.max(#of_system, #ours) do check.equal(ours[i], of_system[i], "answer " .. i) end
end

-- A byte wakes whoever waits for it, in both programs: who comes too late waits on, and keeps no thread meanwhile.
function case.what_another_program_has_taken_keeps_no_thread()
  process.concurrent("rivals", "concurrent", { parks = true })
  local rivals = require "rivals"
  for _, kind in ipairs { "pipe", "socket" } do
    rivals.begin(kind)
    local all, each, pauses = {}, { 0, 0, 0 }, 0
    for i = 1, 3 do
      all[i] = process.spawn(function()
        while rivals.take() == 1 do each[i] = each[i] + 1 end
      end)
    end
    local function taken() return each[1] + each[2] + each[3] + rivals.taken() end
    all[4] = process.spawn(function()
      while true do
        rivals.pause(1)
        pauses = pauses + 1
      end
    end)
    for _ = 1, 1000 do
      check.equal(rivals.give(), true)
      process.sleep(0.0001)
    end
    while taken() < 1000 do process.sleep(0.001) end
    local before = pauses
    repeat process.sleep(0.001) until pauses > before + 3
    for i = 1, 4 do all[i]:kill() end
    for i = 1, 4 do all[i]:join() end
    check.equal(taken(), 1000, kind)
    rivals.finish()
  end
end

function case.a_declared_module_parks_and_an_undeclared_one_does_not()
  local bystander = require "bystander"
  local before = waits_so_far()
  check.equal(bystander.wait(5), 0)
  process.concurrent("bystander", "concurrent")
  check.equal(bystander.wait(5), 0)
  check.equal(waits_so_far(), before)
  process.concurrent("bystander", "concurrent", { parks = true })
  parks(bystander.wait)
  local all, began = {}, process.now()
  for i = 1, 50 do all[i] = process.spawn(bystander.wait, 1000) end
  for i = 1, 50 do check.results("wait", { true, 0 }, all[i]:join()) end
  check.within(process.now() - began, 0.5, 40, "seconds, one after the other it were 50")
  check.within(process.threads(), 1, 16)
end

function case.a_module_that_holds_a_mutex_across_a_wait_does_not_deadlock()
  local holder = require "holder"
  process.concurrent("holder", "concurrent")
  local all = {}
  for i = 1, 10 do all[i] = process.spawn(holder.wait, 5) end
  for i = 1, 10 do check.equal(all[i]:join(), true) end
  check.equal(holder.wait(0), 11)
end

function case.other_threads_children_and_signal_handlers_get_the_systems_calls()
  local socket = require "socket"
  process.concurrent("bystander", "concurrent", { parks = true })
  local bystander = require "bystander"
  local none = waits_so_far()
  check.equal(bystander.signal(), true)
  check.equal(bystander.signal_here(), true)
  check.equal(bystander.old_signal(), true)
  check.equal(waits_so_far(), none)
  local server = assert(socket.bind("127.0.0.1", 0))
  local _, port = server:getsockname()
  local client = assert(socket.connect("127.0.0.1", port))
  local peer = assert(server:accept())
  local reader = process.spawn(function() return (client:receive()) end)
  check.becomes(reader, "waiting")
  local descriptor, before = client:getfd(), waits_so_far()
  check.equal(bystander.thread(), true)
  check.equal(bystander.vfork(descriptor), 7)
  check.equal(bystander.spawn(descriptor), 9)
  check.equal(bystander.fork(descriptor), 8)
  check.equal(waits_so_far(), before)
  check.equal(reader:status(), "waiting")
  peer:send("still there\n")
  check.results("reader", { true, "still there" }, reader:join())
end

function case.a_handler_that_was_left_by_a_jump_keeps_nobody_from_parking()
  process.concurrent("bystander", "concurrent", { parks = true })
  local bystander = require "bystander"
  for _ = 1, 3 do parks(bystander.jump) end
end

function case.a_handler_ends_the_waits_of_its_thread_and_no_sleep_of_baton()
  process.concurrent("bystander", "concurrent", { parks = true })
  local bystander = require "bystander"
  local began = process.now()
  local waiter = process.spawn(bystander.wait, 30000)
  local sleeper = process.spawn(function() process.sleep(0.05) end)
  check.becomes(waiter, "waiting")
  check.equal(bystander.signal_here(), true)
  check.results("waiter", { true, -1 }, waiter:join())
  check.results("sleeper", { true }, sleeper:join())
  check.within(process.now() - began, 0.05, 20)
end

function case.whatever_closes_a_descriptor_ends_the_waits_for_it()
  process.concurrent("bystander", "concurrent", { parks = true })
  local bystander = require "bystander"
  for _, how in ipairs { "close", "fclose", "freopen", "closefrom" } do
    local mine, its = bystander.pair()
    local reader = process.spawn(bystander.read, mine)
    check.becomes(reader, "waiting")
    check.equal(bystander[how](mine), true)
    check.results(how, { true, "Bad file descriptor" }, reader:join())
    check.equal(bystander.close(its), true)
  end
end

function case.a_kill_ends_a_parked_wait_at_once()
  process.concurrent("bystander", "concurrent", { parks = true })
  local bystander = require "bystander"
  local answer
  local victim = process.spawn(function()
    pcall(function() answer = bystander.wait(60000) end)
    answer = "went on"
  end)
  check.becomes(victim, "waiting")
  victim:kill()
  check.results("victim", { false, "killed" }, victim:join())
  check.equal(answer, nil)
end

function case.wrong_options_are_refused()
  check.raises("unknown option 'park'", process.concurrent, "x", "object", { park = true })
  check.raises("unknown option '1'", process.concurrent, "x", "object", { "parks" })
  check.raises("table expected", process.concurrent, "x", "object", true)
end

check.run(case)
