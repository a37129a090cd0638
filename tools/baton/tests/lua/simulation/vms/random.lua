-- Several VMs that send, sleep, fail, are killed and are halted. It prints all that could differ
-- between two runs: addresses, orders, times and random numbers.
local process = require "baton.process"
local vm = require "baton.vm"

local log = vm.channel(10000)

local function work(log, n)
  local process = require "baton.process"
  local of_objects, sum = {}, 0
  for i = 1, 50 do of_objects[{}] = i end
  for _, i in pairs(of_objects) do sum = sum * 3 + i end -- its order is that of addresses
  for i = 1, 30 do
    local line = { n, i, tostring {}, sum, process.now(), math.random(1000), os.time() }
    log:send(table.concat(line, " "))
    if i % 7 == 0 then process.sleep(0.001 * n) end
  end
  if n == 4 then error("on purpose " .. tostring {}) end
  return n, tostring {}
end

local all = {}
for n = 1, 5 do all[n] = assert(vm.spawn({ name = "worker " .. n, quiet = true }, work, log, n)) end

local killed = assert(vm.spawn({ name = "killed", quiet = true }, function(log)
  local process = require "baton.process"
  local guard <close> = setmetatable({}, {
    __close = function() log:send("closed at " .. process.now()) end,
  })
  while true do
    log:send "still there"
    process.sleep(0.0005)
  end
end, log))
local halted = assert(vm.spawn({ name = "halted", quiet = true }, function()
  require("baton.process").critical(function() while true do end end)
end))
process.sleep(0.004)
killed:kill "enough"
halted:kill("enough", 0.01)
print("killed", killed:join())
print("halted", halted:join())
for n = 1, 5 do print(n, all[n]:join()) end

local options = { workers = 3, chunk = 1, ordered = false }
for i, square, object in vm.map({ 1, 2, 3, 4, 5, 6, 7, 8 }, function(x)
  return x * x, tostring {}
end, options) do
  print("map", i, square, object)
end

local pool = vm.pool { module = "vms.modules.functions", size = 2 }
local calls = {}
for i = 1, 8 do
  calls[i] = process.spawn(function() return pool:call("double", i), process.now() end)
end
for i = 1, 8 do print("pool", calls[i]:join()) end
pool:close()

log:close()
for line in log:values() do print(line) end
print(process.now(), os.clock())
