-- Calls into other VMs, and functions of a VM that others call.
local check = require "check"
local process = require "baton.process"
local vm = require "baton.vm"

local case = {}

local function serving() return check.that(vm.spawn "vms.modules.functions") end

local function ended(w)
  w:kill()
  w:join()
end

function case.a_call_runs_there_and_its_results_come_back()
  local w = serving()
  check.equal(w:call("double", 4), 8)
  check.results("several", { n = 3, 1, nil, 3 }, w:call(function() return 1, nil, 3 end))
  check.that(w:call "id" ~= vm.current().id)
  ended(w)
end

function case.a_name_with_a_dot_is_a_field_of_a_module()
  local w = vm.spawn(function() require("baton.process").sleep(3600) end)
  check.equal(w:call("vms.modules.functions.double", 3), 6)
  check.equal(w:call("string.rep", "ab", 2), "abab")
  local nothing = "vms.modules.functions.nothing"
  check.raises("has no function '" .. nothing .. "'", w.call, w, nothing)
  ended(w)
end

function case.an_error_is_raised_here_with_the_traceback_of_there()
  local w = serving()
  local why = check.raises("this is wrong", w.call, w, "fail", "this is wrong")
  check.matches(why, "in VM 'vms.modules.functions':\nstack traceback:")
  check.raises("has no function 'nothing'", w.call, w, "nothing")
  check.equal(w:call("double", 1), 2)
  ended(w)
end

function case.what_cannot_be_sent_is_named_on_the_way_there_and_back()
  local w = serving()
  check.raises("cannot send", w.call, w, "double", io.stdout)
  check.raises("cannot send", w.call, w, "file")
  check.raises("name of a function or function expected, got no value", w.call, w)
  ended(w)
end

function case.calls_run_beside_each_other()
  local w = serving()
  local slow = process.spawn({ quiet = true }, function() w:call "wait" end)
  process.yield()
  check.equal(w:call("double", 5), 10)
  slow:kill()
  slow:join()
  ended(w)
end

function case.a_killed_caller_kills_its_call()
  local w = serving()
  local before = w:stats().processes
  local caller = process.spawn({ quiet = true }, function() w:call "wait" end)
  check.eventually("the call runs", function() return w:stats().processes > before end)
  caller:kill()
  check.eventually("the call has ended", function() return w:stats().processes == before end)
  ended(w)
end

function case.the_end_of_a_vm_ends_the_calls_that_wait_for_it()
  local w = serving()
  local before = w:stats().processes
  local caller = process.spawn(function() return w:call "wait" end)
  check.eventually("the call runs", function() return w:stats().processes > before end)
  w:kill()
  check.results("caller", { n = 3, true, nil, "dead" }, caller:join())
  w:join()
end

function case.a_busy_vm_answers_a_call()
  local w = serving()
  local busy = process.spawn({ quiet = true }, function() w:call "spin" end)
  process.yield()
  for i = 1, 20 do check.equal(w:call("double", i), 2 * i) end
  busy:kill()
  busy:join()
  ended(w)
end

function case.a_vm_is_sent_to_another_one_which_calls_it()
  local one, two = serving(), serving()
  local id = two:call("apply", function(other) return other:call "id" end, one)
  check.equal(id, one.id)
  check.equal(two:call("apply", function(other) return other:call("double", 8) end, one), 16)
  ended(one)
  local function ask(other) return other:call "id" end
  check.results("dead", { n = 2, nil, "dead" }, two:call("apply", ask, one))
  ended(two)
end

function case.a_proxy_runs_where_it_was_made()
  local here = {}
  local w = serving()
  local note = vm.proxy(function(...)
    here[#here + 1] = { ... }
    return vm.current().id, #here
  end)
  check.results("there", { 1, 1 }, w:call("apply", note, "a", 2))
  check.results("again", { 1, 2 }, w:call("apply", note))
  check.results("here", { 1, 3 }, note())
  check.list(here[1], { "a", 2 })
  ended(w)
end

-- Guards against a table of all functions that ever had a proxy.
function case.the_function_of_a_proxy_that_nobody_has_is_collected()
  local w = serving()
  local alive = setmetatable({}, { __mode = "k" })
  local function count()
    collectgarbage()
    local number = 0
    for _ in pairs(alive) do number = number + 1 end
    return number
  end
  local function new()
    local f = function() return "alive" end
    alive[f] = true
    return vm.proxy(f)
  end
  local kept = w:call("keep", new())
  for _ = 1, 20 do
    for _ = 1, 100 do new() end
    collectgarbage()
  end
  check.that(count() < 1000, count())
  check.equal(w:call("kept"), "alive")
  check.equal(kept, true)
  ended(w)
end

function case.errors_of_a_proxy_are_raised_at_its_caller()
  local w = serving()
  local fails = vm.proxy(function() error "not here" end)
  check.raises("not here", w.call, w, "apply", fails)
  ended(w)
end

function case.a_proxy_of_a_vm_that_has_ended_is_dead()
  local w = serving()
  local proxy = w:call(function()
    return require("baton.vm").proxy(function() return 1 end)
  end)
  check.equal(proxy(), 1)
  ended(w)
  check.results("dead", { n = 2, nil, "dead" }, proxy())
end

function case.many_processes_call_many_vms()
  local all, sum = {}, 0
  for i = 1, 4 do all[i] = serving() end
  process.scope(function(scope)
    for i = 1, 20 do
      scope:spawn(function()
        for round = 1, 25 do
          local got = all[(i + round) % 4 + 1]:call("double", 1)
          sum = sum + got
        end
      end)
    end
  end)
  check.equal(sum, 1000)
  for _, w in ipairs(all) do ended(w) end
end

check.run(case)
