-- What a VM has from its start, and what it loads later.
local check = require "check"
local process = require "baton.process"
local vm = require "baton.vm"

local case = {}

-- The first VM compiles the parts that are written in Lua, the second one keeps their code, and the
-- third one loads it.
function case.each_vm_loads_the_parts_that_it_uses()
  for _ = 1, 3 do
    local w = check.that(vm.spawn(function()
      local here = require "baton.process"
      local scoped = here.scope(function(s)
        local child = s:spawn(function() return 1 end)
        return select(2, child:join())
      end)
      local name
      do
        local start = function() here.event():wait() end
        local supervisor <close> = here.supervise { { name = "worker", start = start } }
        name = supervisor:children()[1].name
      end
      local sum = 0
      for _, square in require("baton.vm").map({ 1, 2, 3 }, function(n) return n * n end) do
        sum = sum + square
      end
      return scoped, name, sum, select(2, here.timeout(1, function() return "in time" end))
    end))
    check.results("join", { true, 1, "worker", 14, "in time" }, w:join())
  end
end

function case.an_error_names_the_line_of_the_caller_whether_or_not_the_part_is_loaded()
  local w = vm.spawn(function()
    local here = require "baton.process"
    local function misuse() here.supervise(1) end
    local _, first = pcall(misuse)
    local _, second = pcall(misuse)
    return first == second, first
  end)
  local _, are_equal, message = w:join()
  check.equal(are_equal, true)
  check.matches(message, "^[^\n]*starting%.lua:%d+: bad argument #1 to 'supervise'")
end

function case.a_field_that_the_program_has_set_stays()
  local w = vm.spawn(function()
    local here = require "baton.process"
    local timeout = here.timeout
    here.scope = "mine"
    timeout(1, function() end) -- the same part has both
    return here.scope
  end)
  check.results("join", { true, "mine" }, w:join())
end

function case.a_heap_begins_small()
  local w = vm.spawn(function()
    collectgarbage()
    return collectgarbage "count"
  end)
  local _, kib = w:join()
  check.that(kib < 120, ("%.0f KiB"):format(kib))
end

check.run(case)
