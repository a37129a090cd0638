-- For tests of vm.move.
local check = require "check"
local vm = require "baton.vm"

-- A VM that gives each value back that it gets, after `f` has used it.
return function(f)
  local inbox, outbox = vm.channel(), vm.channel()
  local w = check.that(vm.spawn(function(inbox, outbox, f)
    local move = require("baton.vm").move
    for value in inbox:values() do
      outbox:send { f(value), move(value) }
    end
  end, inbox, outbox, f))
  return inbox, outbox, function()
    inbox:close()
    check.results("join", { true }, w:join())
  end
end
