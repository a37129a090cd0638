-- VMs: start, end, results, errors, what they get, and what they leave.
local check = require "check"
local process = require "baton.process"
local vm = require "baton.vm"

local case = {}

function case.a_function_runs_in_another_vm_and_its_results_come_back()
  local w = check.that(vm.spawn(function(a, b) return a + b, { nested = { a, b } } end, 3, 4))
  local ok, sum, list = w:join()
  check.equal(ok, true)
  check.equal(sum, 7)
  check.list(list.nested, { 3, 4 })
end

function case.nothing_of_the_heap_is_shared()
  global_of_this_vm = 1
  local upvalue = { 1 }
  local w = vm.spawn(function()
    upvalue[1] = 2
    return global_of_this_vm, upvalue[1]
  end)
  check.results("join", { n = 3, true, nil, 2 }, w:join())
  check.equal(upvalue[1], 1)
end

function case.nil_results_and_arguments_keep_their_places()
  local w = vm.spawn(function(...) return select("#", ...), ... end, nil, 2, nil)
  check.results("join", { n = 5, true, 3, nil, 2, nil }, w:join())
end

function case.a_module_is_required_there_and_its_function_called()
  local w = check.that(vm.spawn("vms.modules.doubling", 20))
  check.results("join", { true, 40 }, w:join())
end

function case.a_module_with_functions_serves_calls_until_it_is_killed()
  local w = check.that(vm.spawn("vms.modules.functions"))
  check.equal(w:call("double", 21), 42)
  check.equal(w:call("count"), 1)
  check.equal(w:call("count"), 2)
  check.that(w:status() ~= "dead")
  check.equal(w:kill "enough", true)
  check.results("join", { false, "enough" }, w:join())
  check.equal(w:status(), "dead")
  check.results("call", { n = 2, nil, "dead" }, w:call "count")
  check.results("kill", { false, "dead" }, w:kill())
end

function case.a_module_that_is_not_there_is_an_answer()
  local w, why = vm.spawn "vms.modules.missing"
  check.equal(w, nil)
  check.matches(why, "module 'vms.modules.missing' not found")
end

function case.a_module_that_fails_to_load_gives_its_error_and_traceback()
  local w, why = vm.spawn "vms.modules.failing"
  check.equal(w, nil)
  check.matches(why, "cannot load this")
  check.matches(why, "in VM 'vms.modules.failing'")
end

function case.a_module_that_returns_neither_function_nor_table_is_refused()
  local w, why = vm.spawn "vms.modules.number"
  check.equal(w, nil)
  check.matches(why, "returned a number: a VM needs a function, or a table with functions")
end

function case.an_error_reaches_the_joiner_with_both_places()
  local w = vm.spawn({ quiet = true, name = "faulty" }, function() error "this went wrong" end)
  local ok, why = w:join()
  check.equal(ok, false)
  check.matches(why, "this went wrong")
  check.matches(why, "in VM 'faulty':\nstack traceback:")
end

function case.an_error_that_is_a_table_is_copied()
  local w = vm.spawn({ quiet = true }, function() error { code = 5 } end)
  local ok, why = w:join()
  check.equal(ok, false)
  check.equal(why.code, 5)
end

function case.results_that_cannot_be_sent_are_an_error_that_names_them()
  local w = vm.spawn({ quiet = true }, function() return { list = { io.stdout } } end)
  local ok, why = w:join()
  check.equal(ok, false)
  check.matches(why, "cannot send .*list%[1%]")
end

function case.arguments_that_cannot_be_sent_raise_and_start_nothing()
  local job = { handle = { 1, 2, io.stdout } }
  check.raises("cannot send .*handle%[3%]: userdata", vm.spawn, print, job)
  check.raises("cannot send .*: thread", vm.spawn, print, coroutine.create(print))
end

function case.wrong_arguments_raise()
  check.raises("name of a module or function expected, got number", vm.spawn, 1)
  check.raises("name of a module or function expected, got no value", vm.spawn, {})
  check.raises("unknown option 'colour'", vm.spawn, { colour = "x" }, print)
  check.raises("^[^:]*spawn.lua:%d+: bad argument #1 to 'spawn' %(unknown option", function()
    vm.spawn({ colour = "x" }, print)
  end)
  check.raises("calling 'spawn' on bad self", function() vm:spawn(print) end)
  local w = vm.spawn(function() require("baton.process").event():wait() end)
  check.raises(
    "spawn.lua:%d+: bad argument #1 to 'call' %(VM expected, got string; .*object:call%)",
    function() w.call "f" end
  )
  check.raises("bad argument #1 to 'call' %(name .* got no value%)", function() w:call() end)
  check.raises("bad argument #1 to 'join' %(VM expected, got number", function() w.join(1) end)
  w:kill()
  w:join()
  check.raises("option 'memory': integer expected, got string", vm.spawn, { memory = "1" }, print)
  check.raises("option 'memory': positive integer expected", vm.spawn, { memory = 0 }, print)
end

function case.the_search_paths_arg_and_parameters_are_those_of_the_program()
  process.params.slice = 0.02
  local w = vm.spawn(function()
    local params = require("baton.process").params
    return package.path, package.cpath, arg and arg[0], params.slice
  end)
  check.results("join", { true, package.path, package.cpath, arg[0], 0.02 }, w:join())
  process.params.slice = 0.010
end

function case.a_vm_knows_itself_and_the_others()
  local w = vm.spawn({ name = "knows" }, function()
    local vm = require "baton.vm"
    return vm.current().name, vm.current().id, vm.cores()
  end)
  local ok, name, id, cores = w:join()
  check.equal(ok, true)
  check.equal(name, "knows")
  check.equal(id, w.id)
  check.equal(cores, vm.cores())
  check.equal(vm.current().id, 1)
  check.equal(vm.current().name, "main")
end

function case.a_vm_starts_vms()
  local w = vm.spawn(function(depth)
    local function descend(depth)
      if depth == 0 then return 1 end
      local vm = require "baton.vm"
      local ok, below = assert(vm.spawn(descend, depth - 1)):join()
      return below + 1
    end
    return descend(depth)
  end, 4)
  check.results("join", { true, 5 }, w:join())
end

function case.a_vm_ends_when_its_processes_have_ended()
  local before = process.now()
  local w = vm.spawn(function()
    local process = require "baton.process"
    process.spawn(function() process.sleep(0.05) end)
    return "first"
  end)
  check.results("join", { true, "first" }, w:join())
  check.that(process.now() - before >= 0.04)
end

function case.a_join_with_a_timeout_times_out_and_the_vm_lives_on()
  local w = vm.spawn "vms.modules.functions"
  check.results("join", { n = 2, nil, "timeout" }, w:join(0.01))
  check.equal(w:call("double", 1), 2)
  w:kill()
  w:join()
end

function case.two_vms_compute_at_the_same_time()
  -- Each waits for the other inside a loop without a safepoint of its own VM's other processes.
  local words = vm.shared(2)
  local function meet(words, mine, other)
    words:store(mine, 1)
    while words:load(other) == 0 do end
    return "met"
  end
  local one, two = vm.spawn(meet, words, 1, 2), vm.spawn(meet, words, 2, 1)
  check.results("one", { true, "met" }, one:join())
  check.results("two", { true, "met" }, two:join())
end

function case.a_heap_with_a_limit_runs_out_of_memory_alone()
  local w = vm.spawn({ memory = 4 << 20, quiet = true }, function()
    local list = {}
    for i = 1, 1e7 do list[i] = { i } end
  end)
  local ok, why = w:join()
  check.equal(ok, false)
  check.matches(why, "not enough memory")
  local huge = string.rep("x", 8 << 20) -- this VM has no limit
  check.equal(#huge, 8 << 20)
end

-- The processors that the calling thread may use.
local function allowed()
  for line in io.lines "/proc/thread-self/status" do
    local list = line:match "^Cpus_allowed_list:%s*(.*)$"
    if list then return list end
  end
end

-- The first processor that the program may use.
local function first_core() return tonumber(allowed():match "^%d+") end

function case.a_bound_vm_runs_on_its_processor_only()
  local w = vm.spawn({ cpu = first_core() }, function() return allowed() end)
  -- With the portable poller, the system counts as one that binds no threads.
  local can_bind = process.features().poller ~= "polling"
  local expected = can_bind and tostring(first_core()) or allowed()
  check.results("join", { true, expected }, w:join())
end

function case.a_vm_that_a_bound_vm_starts_is_not_bound()
  local w = vm.spawn({ cpu = first_core() }, function()
    local vm = require "baton.vm"
    local ok, list = vm.spawn(function() return allowed() end):join()
    return list, vm.cores()
  end)
  check.results("join", { true, allowed(), vm.cores() }, w:join())
end

function case.a_core_that_is_not_there_is_an_answer_that_names_those_there_are()
  for _, core in ipairs { 1 << 20, 1 << 32, -1 } do
    local w, why = vm.spawn({ cpu = core }, function() end)
    check.equal(w, nil)
    local expected = ("no core %d: the program may use %s"):format(core, allowed())
    check.equal((why:gsub(", ", ",")), (expected:gsub(", ", ",")))
  end
end

function case.fifty_vms_at_once_answer_and_end()
  local all = {}
  for i = 1, 50 do all[i] = check.that(vm.spawn(function(i) return i * i end, i)) end
  for i, w in ipairs(all) do check.results("join", { true, i * i }, w:join()) end
end

-- Blocks return to the VM that made them while it sends others, and shapes come and go.
function case.messages_between_several_vms_keep_their_contents()
  local SENDERS, EACH = 4, 3000
  local there, sums = vm.channel(16), vm.channel()
  local function send(there, sender, each)
    for i = 1, each do
      local text = ("%d of %d "):format(i, sender):rep(i % 40 + 1)
      local shape = i % 5
      local message = { sender = sender, number = i, text = text }
      for field = 1, shape do message["field" .. field] = i * field end
      if i % 100 == 0 then message.inner = { text = text, list = { i, text } } end
      there:send(message)
    end
  end
  local function receive(there, sums)
    local count, sum = 0, 0
    for message in there:values() do
      local i = message.number
      local text = ("%d of %d "):format(i, message.sender):rep(i % 40 + 1)
      assert(message.text == text)
      for field = 1, 5 do
        assert(message["field" .. field] == (field <= i % 5 and i * field or nil))
      end
      assert((message.inner ~= nil) == (i % 100 == 0))
      assert(not message.inner or message.inner.list[2] == text)
      count, sum = count + 1, sum + i
    end
    sums:send { count, sum }
  end
  local receivers, senders = {}, {}
  for i = 1, 2 do receivers[i] = assert(vm.spawn(receive, there, sums)) end
  for i = 1, SENDERS do senders[i] = assert(vm.spawn(send, there, i, EACH)) end
  for i = 1, SENDERS do assert(senders[i]:join()) end
  there:close()
  local first, second = sums:receive(), sums:receive()
  for i = 1, 2 do assert(receivers[i]:join()) end
  check.equal(first[1] + second[1], SENDERS * EACH)
  check.equal(first[2] + second[2], SENDERS * EACH * (EACH + 1) // 2)
end

function case.a_vm_with_too_little_memory_for_its_start_is_an_answer()
  local memory, began = 1, 0
  while memory <= 1 << 20 do
    local w, why = vm.spawn({ memory = memory, quiet = true }, function() return 1 end)
    if w then
      local ok, result = w:join()
      check.that(ok and result == 1 or result == "not enough memory", tostring(result))
      began = began + 1
    else
      check.matches(why, "not enough memory$")
    end
    memory = memory < 65536 and memory * 2 or memory + 4096
  end
  check.that(began > 0)
end

function case.a_quiet_vm_may_fail_with_an_error_that_has_no_text()
  local w = vm.spawn({ quiet = true }, function()
    error(setmetatable({}, { __tostring = function() error "no text" end }))
  end)
  check.results("join", { false, "(error object is a table value)" }, (function(ok, err)
    return ok, err:match "^[^\n]*"
  end)(w:join()))
end

function case.a_module_that_kills_its_process_while_it_loads_is_an_answer()
  local w, why = vm.spawn({ name = "its own end" }, "vms.modules.ending_itself")
  check.equal(w, nil)
  check.equal(why, "VM 'its own end' could not begin: killed (by itself)")
end

check.run(case)
