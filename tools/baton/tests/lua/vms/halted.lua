-- What is left of VMs that are halted: nothing, when none of their calls goes on.
local check = require "check"
local process = require "baton.process"
local vm = require "baton.vm"

local case = {}

local MANY, SOME = 200, 60
local WARM = 20
local SIZE = 400000 -- bytes
local MORE = 12288 -- KiB; in each of the places, even some VMs hold 23000

local function used()
  local threads, kib, descriptors = 0, 0, 0
  for line in io.lines "/proc/self/status" do
    threads = tonumber(line:match "^Threads:%s*(%d+)") or threads
    kib = tonumber(line:match "^VmRSS:%s*(%d+)") or kib
  end
  local list = io.popen("ls /proc/" .. io.open("/proc/self/stat"):read "n" .. "/fd | wc -l")
  descriptors = list:read "n"
  list:close()
  collectgarbage()
  return threads, descriptors, kib
end

-- Starts a VM that runs `f` and holds some memory in its heap and outside of all heaps. When `f`
-- has said that it is there, kills the VM, and halts it soon after.
local function halt_one(f)
  local ready = vm.channel(1)
  local w = vm.spawn({ quiet = true }, function(ready, f)
    local vm = require "baton.vm"
    local held = { ("x"):rep(SIZE), vm.buffer(("y"):rep(SIZE)), vm.channel(1) }
    held[3]:send(held[1])
    f(ready)
  end, ready, f)
  check.equal(ready:receive(), "ready")
  w:kill("enough", 0.002)
  check.that(w:join(30) ~= nil)
end

local function leaves_nothing(f, rounds)
  for _ = 1, WARM do halt_one(f) end
  local threads, descriptors, kib = used()
  for _ = 1, rounds or SOME do halt_one(f) end
  check.eventually("the last one has gone, too", function()
    local threads_now, descriptors_now, kib_now = used()
    return threads_now <= threads and descriptors_now <= descriptors and kib_now <= kib + MORE
  end)
end

function case.nothing_is_left_of_vms_that_sleep_in_a_close_variable()
  leaves_nothing(function(ready)
    local process = require "baton.process"
    local guard <close> = setmetatable({}, { __close = function() process.sleep(3600) end })
    ready:send "ready"
    process.sleep(3600)
  end, MANY)
end

function case.nothing_is_left_of_vms_that_compute_in_a_close_variable()
  leaves_nothing(function(ready)
    local guard <close> = setmetatable({}, { __close = function() while true do end end })
    ready:send "ready"
    require("baton.process").sleep(3600)
  end)
end

function case.nothing_is_left_of_vms_that_compute_in_a_critical_section()
  leaves_nothing(function(ready)
    ready:send "ready"
    require("baton.process").critical(function() while true do end end)
  end)
end

function case.nothing_is_left_of_vms_that_compute_in_a_finalizer()
  leaves_nothing(function(ready)
    setmetatable({}, { __gc = function()
      ready:send "ready"
      while true do end
    end })
    collectgarbage()
  end)
end

function case.nothing_is_left_of_vms_that_compute_in_a_finalizer_at_their_end()
  leaves_nothing(function(ready)
    kept = setmetatable({}, { __gc = function() while true do end end })
    ready:send "ready"
  end)
end

function case.nothing_is_left_of_a_buffer_that_the_library_was_filling()
  leaves_nothing(function(ready)
    local process = require "baton.process"
    local count, piece, pieces = 0, ("z"):rep(10000), ("."):rep(20)
    pieces:gsub(".", function()
      count = count + 1
      if count < 20 then return piece end
      local guard <close> = setmetatable({}, { __close = function() process.sleep(3600) end })
      ready:send "ready"
      process.sleep(3600)
    end)
  end)
end

function case.nothing_is_left_of_vms_that_end_just_as_their_grace_does()
  leaves_nothing(function(ready)
    local process = require "baton.process"
    local guard <close> = setmetatable({}, { __close = function() process.sleep(0.001) end })
    ready:send "ready"
    process.sleep(3600)
  end, MANY)
end

-- The bytes that malloc has given out.
local function given_out()
  local ffi = require "baton.ffi"
  ffi.cdef [[
    struct mallinfo2 {
      size_t arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
    };
    struct mallinfo2 mallinfo2(void);
  ]]
  return function()
    collectgarbage()
    local info = ffi.C.mallinfo2()
    return tonumber(info.uordblks + info.hblkhd)
  end
end

-- Guards against records of what calls use, which nobody freed: 6 KiB for each of these VMs.
function case.nothing_is_left_of_calls_of_modules_that_called_back()
  local function called_back(ready)
    local process, kept = require "baton.process", require "kept"
    local function nest(depth)
      if depth > 0 then return kept.in_thread(function() nest(depth - 1) end, depth) end
      local guard <close> = setmetatable({}, { __close = function() process.sleep(3600) end })
      ready:send "ready"
      process.sleep(3600)
    end
    nest(80)
  end
  local bytes = given_out()
  for _ = 1, WARM do halt_one(called_back) end
  local before = bytes()
  for _ = 1, SOME do halt_one(called_back) end
  check.eventually("the records are gone, too", function() return bytes() < before + 200000 end)
end

-- Objects of another VM go on: the halted one only gives its references back.
function case.what_is_shared_with_a_halted_vm_stays()
  local words, bytes, ready = vm.shared(1), vm.dict(), vm.channel(1)
  words:store(1, 7)
  bytes:set("key", "value")
  local w = vm.spawn({ quiet = true }, function(words, bytes, ready)
    local guard <close> = setmetatable({}, { __close = function() while true do end end })
    ready:send(words:load(1) == 7 and bytes:get "key" == "value" and "ready")
    require("baton.process").sleep(3600)
  end, words, bytes, ready)
  check.equal(ready:receive(), "ready")
  w:kill("enough", 0)
  check.equal(w:join(30), false)
  check.equal(words:load(1), 7)
  check.equal(bytes:get "key", "value")
  check.equal(ready:send "there", true)
  check.equal(ready:receive(), "there")
end

check.run(case)
