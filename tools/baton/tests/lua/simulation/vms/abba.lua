-- Two VMs take two forks in opposite orders.
local vm = require "baton.vm"

local left, right = vm.channel(1), vm.channel(1)
left:send "fork"
right:send "fork"
local function eat(first, second)
  for _ = 1, 40 do -- so often that some of 500 seeds meet, whatever the start of a VM takes
    local one = first:receive()
    local two = second:receive()
    first:send(one)
    second:send(two)
  end
end
local one = vm.spawn({ name = "one" }, eat, left, right)
local two = vm.spawn({ name = "two" }, eat, right, left)
one:join()
two:join()
