-- Copying while the collector, other processes and kills are about.
local check = require "check"
local process = require "baton.process"
local vm = require "baton.vm"
local case = {}

local class = vm.class("pressed", {})

local function message(i)
  local shared = { "shared", i }
  return {
    id = i, name = "name " .. i, list = { 1, 2.5, "text", shared, { shared } },
    object = setmetatable({ value = i }, class), long = ("long %d "):format(i):rep(20),
    f = function() return shared, i end, [shared] = shared,
  }
end

local function check_message(got, i)
  check.equal(got.id, i)
  check.equal(got.name, "name " .. i)
  check.equal(got.list[5][1], got.list[4])
  check.equal(got[got.list[4]], got.list[4])
  check.equal(got.list[4][2], i)
  check.equal(getmetatable(got.object), class)
  check.equal(got.object.value, i)
  check.equal(got.long, ("long %d "):format(i):rep(20))
  local shared, number = got.f()
  check.equal(shared, got.list[4])
  check.equal(number, i)
end

function case.the_collector_finds_nothing_amiss_in_any_mode()
  local kept = {}
  local function rounds(n)
    for i = 1, n do
      local block = copy_out(message(i))
      collectgarbage "step"
      kept[i % 50] = copy_in(block)
      collectgarbage "step"
      check_message(kept[i % 50], i)
      if i > 50 then check_message(kept[(i + 1) % 50], i - 49) end
    end
    kept = {}
  end
  for _, pause in ipairs { 0, 100, 200 } do
    collectgarbage("incremental", pause, 100, 1)
    rounds(500)
  end
  collectgarbage "generational"
  rounds(1000)
  collectgarbage("generational", 1, 1)
  rounds(1000)
  collectgarbage "incremental"
  rounds(200)
end

function case.processes_copy_beside_each_other()
  process.params.slice = 0.0001
  check.join_all(check.spawn_all(4, function(n)
    local blocks = {}
    for i = 1, 2000 do
      blocks[i % 10] = copy_out(message(n * 10000 + i), message(i))
      if i > 10 then
        local first, second = copy_in(blocks[(i + 1) % 10])
        check_message(first, n * 10000 + i - 9)
        check_message(second, i - 9)
      end
    end
  end))
end

function case.a_killed_process_leaves_nothing_behind()
  local function resident()
    collectgarbage()
    collectgarbage()
    local file <close> = io.open "/proc/self/statm"
    file:read "n"
    return file:read "n" * 4096
  end
  local big = {}
  for i = 1, 20000 do big[i] = { i, "text " .. i } end
  local function round()
    local p = process.spawn({ quiet = true }, function()
      while true do copy(big) end
    end)
    process.sleep(0.002)
    p:kill()
    check.equal(p:join(), false)
  end
  for _ = 1, 20 do round() end
  local before = resident()
  for _ = 1, 40 do round() end
  check.within(resident() - before, -math.huge, 60 << 20)
  check.equal(copy(big)[20000][2], "text 20000")
end

-- Calls f with all memory, and with each smaller number of blocks until that is enough.
local function with_less_and_less(f)
  local needed = 0
  f()
  collectgarbage "stop" -- so that the number does not depend on it
  while true do
    fail_after(needed)
    local ok, result = pcall(f)
    fail_after()
    if ok then break end
    check.equal(result, "not enough memory", "after " .. needed)
    needed = needed + 1
    if needed % 7 == 0 then collectgarbage() end
  end
  collectgarbage "restart"
  collectgarbage()
  return needed
end

function case.without_memory_for_a_copy_there_is_luas_error()
  local sent, frozen = message(1), vm.freeze { 1, text = "text", { 2 } }
  sent.frozen = frozen
  local function copied()
    local got = copy(sent, sent.list)
    return check_message(got, 1)
  end
  check.within(with_less_and_less(copied), 20, 200)
  for _ = 1, 100 do copied() end
  local class = { __gc = function(self) self.is_finalized = true end }
  vm.class("finalized", class)
  local object = setmetatable({ x = { 1 } }, class)
  check.within(with_less_and_less(function() copy { object, object.x } end), 3, 50)
end

function case.without_memory_for_a_frozen_value_there_is_luas_error()
  local plain = { x = { 1, "a text", ("long "):rep(20) }, name = "name" }
  check.within(with_less_and_less(function() return vm.freeze(plain) end), 1, 50)
  local frozen = vm.freeze { inner = { 1, ("long "):rep(30) }, name = "short " .. 1 }
  check.within(with_less_and_less(function()
    collectgarbage() -- so that the parts have to be made again
    return frozen.inner[2], frozen.name
  end), 1, 50)
  check.within(with_less_and_less(function() return vm.thaw(frozen) end), 1, 50)
  check.equal(frozen.inner[2], ("long "):rep(30))
end

function case.too_many_values_are_a_stack_overflow()
  local list = {}
  for i = 1, 200000 do list[i] = i end
  local block = copy_out(table.unpack(list))
  for i = 200001, 850000 do list[i] = i end
  local function beside_many(...)
    local got = copy_in(block)
    return got, ...
  end
  check.raises("stack overflow", function() beside_many(table.unpack(list)) end)
  check.raises("the block was read", copy_in, block)
  check.equal(copy(1), 1)
end

check.run(case)
