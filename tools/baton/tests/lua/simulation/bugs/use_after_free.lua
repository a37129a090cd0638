-- Use after free: a reader keeps a slot of a pool that is freed, and used again for something else.
local process = require "baton.process"

local pool = { {}, {} }
local function take(value)
  local slot = table.remove(pool)
  slot.value = value
  return slot
end
local function free(slot) pool[#pool + 1] = slot end

local setting = take("setting")
local reader = process.spawn(function()
  for _ = 1, 3 do
    local slot = setting
    assert(slot.value == "setting", "a slot was read after it was freed")
  end
end)
local writer = process.spawn(function()
  for _ = 1, 3 do
    local old = setting
    setting = take("setting")
    free(old)
    free(take("scratch"))
  end
end)
assert(reader:join())
writer:join()
