-- Processes that borrow from a pool, in both ways, and are killed anywhere. Nothing is lost, and no
-- two have the same object.
local process = require "baton.process"

local SIZE, made, open = 2, 0, {}
local in_use = {}

local pool = process.pool {
  size = SIZE,
  make = function()
    process.yield()
    made = made + 1
    local object = { number = made }
    open[object] = true
    return object
  end,
  check = function(object)
    process.yield()
    return object.number % 5 ~= 0
  end,
  close = function(object)
    process.yield()
    assert(open[object], "closed twice")
    open[object] = nil
  end,
}

local InUse = { __close = function(use) in_use[use.object] = nil end }

local function use(object)
  local _ <close> = setmetatable({ object = object }, InUse)
  assert(open[object], "it is closed")
  assert(not in_use[object], "used twice")
  in_use[object] = true
  process.sleep(0.001)
end

local function borrow(number)
  for round = 1, 3 do
    if (number + round) % 2 == 0 then
      pool:with(use)
    else
      local loan <close> = pool:take(0.01)
      if loan then use(loan.object) end
    end
  end
end

local all = {}
for number = 1, 5 do
  all[number] = process.spawn({ quiet = true }, borrow, number)
end
local killer = process.spawn(function()
  for _, number in ipairs { 2, 4, 5 } do
    for _ = 1, number do process.yield() end
    all[number]:kill()
  end
end)
killer:join()
for number, p in ipairs(all) do
  local ok, why = p:join()
  assert(ok or why == "killed", why)
end

-- All slots can be had again, and what is open is idle.
local loans = {}
for i = 1, SIZE do loans[i] = assert(pool:take(1)) end
local stats = pool:stats()
assert(stats.lent == SIZE and stats.waiting == 0)
for i = 1, SIZE do loans[i]:give_back() end
local count = 0
for _ in pairs(open) do count = count + 1 end
assert(count == pool:stats().idle, "objects are lost")
pool:close()
assert(next(open) == nil, "objects are left")
