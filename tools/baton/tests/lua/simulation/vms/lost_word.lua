-- Two VMs count in a shared word, and do not add, but load and store.
local vm = require "baton.vm"

local words = vm.shared(2)
local function work(words)
  words:add(2, 1)
  while words:load(2) < 2 do end -- both have begun
  for _ = 1, 3 do words:store(1, words:load(1) + 1) end
end
local first, second = vm.spawn(work, words), vm.spawn(work, words)
first:join()
second:join()
assert(words:load(1) == 6, "an update is lost")
