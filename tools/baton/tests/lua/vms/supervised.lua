-- VMs that supervisors start again.
local check = require "check"
local process = require "baton.process"
local vm = require "baton.vm"

local case = {}

local function child_of(s) return s:children()[1] end

-- Waits until the child's VM is there, and is not the one given.
local function next_vm(s, before)
  check.eventually("there is a VM", function()
    local w = child_of(s).vm
    return w and w ~= before
  end)
  return child_of(s).vm
end

function case.a_supervised_vm_is_called_and_ends_with_its_supervisor()
  local s = process.supervise { { name = "worker", vm = "vms.modules.functions" } }
  local w = next_vm(s)
  check.equal(w.name, "worker")
  check.equal(w:call("double", 4), 8)
  s:kill()
  s:join()
  check.equal(w:status(), "dead")
end

function case.arguments_are_sent_and_a_vm_that_returns_is_not_started_again()
  local ends = vm.channel()
  local s = process.supervise {
    { vm = { function(ends, n) ends:send(n) end, ends, 3 } },
  }
  check.results("join", { true }, s:join())
  check.equal(ends:receive(0), 3)
  check.equal(child_of(s).ended, "returned")
end

function case.a_vm_that_fails_is_started_again_and_its_error_is_known()
  local count = vm.shared(1)
  local s = process.supervise({
    {
      name = "flaky",
      vm = {
        function(count)
          if count:add(1) < 3 then error "this is wrong" end
        end,
        count,
      },
    },
  }, { quiet = true })
  check.results("join", { true }, s:join())
  check.equal(count:load(1), 3)
  check.equal(child_of(s).restarts, 2)
end

function case.a_supervisor_of_vms_gives_up_with_the_error_of_the_vm()
  local s = process.supervise(
    { { name = "faulty", vm = { function() error "this is wrong" end } } },
    { max = 1, quiet = true }
  )
  local ok, why = s:join()
  check.equal(ok, false)
  check.matches(why, "this is wrong")
  check.matches(why, "in VM 'faulty':")
end

function case.a_module_that_is_not_there_is_a_failure()
  local s = process.supervise({ { vm = "vms.modules.missing" } }, { max = 0, quiet = true })
  local ok, why = s:join()
  check.equal(ok, false)
  check.matches(why, "module 'vms.modules.missing' not found")
end

function case.a_vm_that_is_killed_by_others_has_ended_as_killed()
  local s = process.supervise { { vm = "vms.modules.functions" } }
  next_vm(s):kill "enough"
  check.results("join", { true }, s:join())
  check.equal(child_of(s).ended, "killed")
  check.equal(child_of(s).reason, "enough")
end

function case.a_restarted_child_has_another_vm()
  local s = process.supervise { { name = "worker", vm = "vms.modules.functions" } }
  local before = next_vm(s)
  check.that(s:restart "worker")
  check.equal(before:status(), "dead")
  check.equal(next_vm(s, before):call("double", 5), 10)
  s:kill()
  s:join()
end

function case.close_variables_of_a_supervised_vm_run_at_its_stop()
  local notes = vm.channel()
  local s = process.supervise {
    {
      name = "careful",
      vm = {
        function(notes)
          local guard <close> = setmetatable({}, { __close = function() notes:send "closed" end })
          notes:send "ready"
          require("baton.process").sleep(3600)
        end,
        notes,
      },
    },
  }
  check.equal(notes:receive(), "ready")
  check.equal(s:stop "careful", true)
  check.equal(notes:receive(0), "closed")
end

function case.a_vm_that_does_not_end_is_halted_within_the_time_of_its_child()
  local notes = vm.channel()
  local s = process.supervise {
    {
      name = "stubborn",
      stop = 0.2,
      vm = {
        function(notes)
          local guard <close> = setmetatable({}, {
            __close = function() require("baton.process").sleep(3600) end,
          })
          notes:send "ready"
          require("baton.process").sleep(3600)
        end,
        notes,
      },
    },
  }
  check.equal(notes:receive(), "ready")
  local w = next_vm(s)
  check.equal(s:stop "stubborn", true)
  check.equal(w:join(30), false)
  s:kill()
  s:join()
end

function case.wrong_descriptions_raise()
  local expected = "'start', 'vm' or 'children' expected"
  check.raises(expected, process.supervise, { { vm = "m", start = print } })
  check.raises(expected, process.supervise, { {} })
  expected = "option 'vm': name of a module, function, or {main, arguments...}, expected, got"
  check.raises(expected .. " number", process.supervise, { { vm = 3 } })
  check.raises(expected .. " table", process.supervise, { { vm = {} } })
end

check.run(case)
