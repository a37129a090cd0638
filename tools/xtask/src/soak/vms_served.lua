-- What the VMs of the soak's pools and servers answer.
local served = {}

function served.double(n) return 2 * n end

function served.fail(n) error({ number = n }, 0) end

function served.nap(seconds) require("baton.process").sleep(seconds) end

function served.garbage(n)
  local all = {}
  for i = 1, n do all[i] = { i } end
  collectgarbage()
  return #all
end

return served
