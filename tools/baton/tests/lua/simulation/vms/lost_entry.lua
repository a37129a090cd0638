-- Two VMs count in a dictionary, and do not use incr, but get and set.
local vm = require "baton.vm"

local dict, begun = vm.dict { bytes = 65536 }, vm.shared(1)
dict:set("count", 0)
local function work(dict, begun)
  begun:add(1, 1)
  while begun:load(1) < 2 do end
  for _ = 1, 3 do dict:set("count", dict:get "count" + 1) end
end
local first, second = vm.spawn(work, dict, begun), vm.spawn(work, dict, begun)
first:join()
second:join()
assert(dict:get "count" == 6, "an update is lost")
