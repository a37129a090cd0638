-- A queue with a wrong bound: `if` in place of `while`. A producer that was woken does not check
-- again whether another one has been faster.
local process = require "baton.process"

local CAPACITY = 1
local items, mutex = {}, process.mutex()
local has_room, has_items = process.condition(mutex), process.condition(mutex)
local function put(item)
  mutex:lock()
  if #items >= CAPACITY then has_room:wait() end
  items[#items + 1] = item
  assert(#items <= CAPACITY, "the queue holds too much")
  has_items:signal()
  mutex:unlock()
end
local function take()
  mutex:lock()
  while #items == 0 do has_items:wait() end
  table.remove(items, 1)
  has_room:signal()
  mutex:unlock()
end
local all = {}
for i = 1, 3 do
  all[#all + 1] = process.spawn(put, i)
  all[#all + 1] = process.spawn(take)
end
for _, p in ipairs(all) do assert(p:join()) end
