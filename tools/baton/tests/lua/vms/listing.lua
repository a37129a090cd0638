-- vm.list, and what VMs say of themselves.
local check = require "check"
local process = require "baton.process"
local vm = require "baton.vm"

local case = {}

local function names(list)
  local all = {}
  for i, w in ipairs(list) do all[i] = w.name end
  return all
end

local function starting(name)
  return check.that(vm.spawn({ name = name, daemon = true }, "vms.modules.functions"))
end

local function names_there()
  local all = {}
  for i, w in ipairs(require("baton.vm").list()) do all[i] = w.name end
  return all
end

function case.all_vms_that_live_are_in_the_list_of_each()
  check.list(names(vm.list()), { "main" })
  local one, two = starting "one", starting "two"
  check.list(names(vm.list()), { "main", "one", "two" })
  check.list(one:call(names_there), { "main", "one", "two" })
  check.list(two:call(names_there), { "main", "one", "two" })
  one:kill()
  one:join()
  check.list(names(vm.list()), { "main", "two" })
  check.list(two:call(names_there), { "main", "two" })
end

function case.a_listed_vm_can_be_called_and_killed()
  local one, two = starting "one", starting "two"
  local sum = one:call(function()
    local sum = 0
    for _, w in ipairs(require("baton.vm").list()) do
      if w.name == "two" then sum = sum + w:call("double", 4) end
      if w.name == "main" then sum = sum + w:call("math.max", 1, 100) end
    end
    return sum
  end)
  check.equal(sum, 108)
  one:call(function()
    for _, w in ipairs(require("baton.vm").list()) do
      if w.name == "two" then w:kill "by one" end
    end
  end)
  check.results("join", { false, "by one" }, two:join())
end

function case.a_listed_vm_that_was_started_here_gives_its_results()
  local w = vm.spawn(function()
    require("baton.process").event():wait(0.01)
    return "result"
  end)
  local listed = vm.list()[2]
  check.that(listed == w)
  check.that(vm.list()[1] == vm.current())
  check.that(listed ~= vm.current())
  -- A VM that was sent away and came back is another table, and the same VM.
  local one = starting "one"
  local back = one:call("apply", function(w) return w end, w)
  check.that(back == w and not rawequal(back, w))
  check.results("join", { true, "result" }, back:join())
  check.results("join", { true, "result" }, listed:join())
end

function case.the_list_is_complete_while_vms_start_and_end()
  local stays = starting "stays"
  local churning = process.spawn(function()
    for _ = 1, 50 do vm.spawn(function() end):join() end
  end)
  while churning:status() ~= "dead" do
    local list = vm.list()
    check.equal(list[1].name, "main")
    check.equal(list[2], stays)
    process.yield()
  end
  check.equal(churning:join(), true)
end

function case.a_vm_that_waits_says_so()
  local w = starting "one"
  check.eventually("it waits", function() return w:status() == "waiting" end)
  local busy = process.spawn({ quiet = true }, function() w:call "spin" end)
  check.eventually("it runs", function() return w:status() == "running" end)
  busy:kill()
  busy:join()
  check.equal(vm.current():status(), "running")
  check.eventually("the first one waits", function()
    return w:call("apply", function(first)
      local process = require "baton.process"
      for _ = 1, 1000 do
        if first:status() == "waiting" then return true end
        process.sleep(0.001)
      end
    end, vm.current())
  end)
  w:kill()
  w:join()
  check.equal(w:status(), "dead")
end

check.run(case)
