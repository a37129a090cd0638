-- Two VMs take a task that is there once: each checks whether it is free before it takes it.
local vm = require "baton.vm"

local words = vm.shared(3) -- begun, taken, how often it was done
local function work(words)
  words:add(1, 1)
  while words:load(1) < 2 do end
  if words:load(2) == 0 then
    words:store(2, 1)
    words:add(3, 1)
  end
end
local first, second = vm.spawn(work, words), vm.spawn(work, words)
first:join()
second:join()
assert(words:load(3) == 1, "the task is done twice")
