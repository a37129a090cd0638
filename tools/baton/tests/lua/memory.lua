-- Memory: processes and objects that have ended leave nothing behind.
local check = require "check"
local ffi = require "baton.ffi"
local process = require "baton.process"
local case = {}

ffi.cdef "int malloc_trim(size_t);"

local function heap()
  collectgarbage()
  collectgarbage()
  return collectgarbage "count"
end

-- The resident memory of the program in KiB, if the system reports it. It excludes pages of files,
-- such as code that runs for the first time, and free memory: how much of that the C library keeps
-- depends on where the last small block lies, and on the threads that the VM has run on
-- (docs/adr/0032).
local function resident()
  local file = io.open "/proc/self/status"
  if not file then return nil end
  ffi.C.malloc_trim(0)
  local text = file:read "a"
  file:close()
  return tonumber(text:match "RssAnon:%s*(%d+)")
end

-- For the message of a failure: the mappings that hold most of it, in KiB.
local function large_mappings()
  local lines, name = {}, nil
  for line in io.lines "/proc/self/smaps" do
    name = line:match "^%x+%-%x+ .*" or name
    local size = tonumber(line:match "^Rss:%s*(%d+)")
    if size and size >= 256 then lines[#lines + 1] = ("%8d  %s"):format(size, name) end
  end
  return table.concat(lines, "\n")
end

-- How much more may be resident, in KiB, when the same memory lies on other pages.
local PAGES_APART = 128

-- Runs five waves. After the fifth, heap and resident memory are at most 1.05 times those after the
-- first. Slices are off, so each wave has the same number of live processes at once, and only what
-- waves leave behind is compared.
local function five_waves(wave)
  local first_heap, first_resident
  process.params.preemptive = false
  for i = 1, 5 do
    wave()
    local heap_now, resident_now = heap(), resident()
    if i == 1 then first_heap, first_resident = heap_now, resident_now end
    if i == 5 then
      check.within(heap_now, 0, first_heap * 1.05, "KiB of heap, after " .. first_heap)
      if
        resident_now
        and resident_now > math.max(first_resident * 1.05, first_resident + PAGES_APART)
      then
        error(
          ("%d KiB are resident, after %d\n%s"):format(
            resident_now,
            first_resident,
            large_mappings()
          )
        )
      end
    end
  end
end

function case.twenty_thousand_failing_processes_five_times()
  five_waves(function()
    local all = {}
    for i = 1, 20000 do all[i] = process.spawn({ quiet = true }, error, "failure") end
    for i = 1, 20000 do
      local ok, message = all[i]:join()
      if ok ~= false or message ~= "failure" then check.equal(message, "failure") end
    end
  end)
end

function case.twenty_thousand_unjoined_failures_five_times()
  five_waves(function()
    local gate = process.semaphore(0)
    for _ = 1, 20000 do
      process.spawn({ quiet = true }, function()
        local guard <close> = check.closing(function() gate:signal() end)
        error "failure"
      end)
    end
    for _ = 1, 20000 do gate:wait() end
    process.sleep(0.01)
  end)
  print "passed twenty_thousand_unjoined_failures_five_times"
  os.exit(0, true)
end

function case.ten_thousand_processes_spawned_and_killed_five_times()
  five_waves(function()
    for _ = 1, 10000 do
      local p = process.spawn(function() process.sleep(1000) end)
      process.yield()
      p:kill()
      p:join()
    end
  end)
end

function case.ten_thousand_processes_killed_before_their_start_five_times()
  five_waves(function()
    for _ = 1, 10000 do process.spawn({ suspended = true }, print):kill() end
  end)
end

function case.a_hundred_thousand_objects_five_times()
  five_waves(function()
    for i = 1, 20000 do
      local ch, m = process.channel(i % 3), process.mutex()
      local c, s, e = process.condition(m), process.semaphore(1), process.event()
      if i % 3 > 0 then ch:send { ch } end
      m:lock()
      c:wait(0)
      process.select({ ch, { ch, 1 } }, 0)
      s:wait()
      e:set()
    end
  end)
end

function case.ten_thousand_timers_five_times()
  five_waves(function()
    for _ = 1, 10000 do process.after(1000, print):cancel() end
    local s = process.semaphore(0)
    for _ = 1, 1000 do process.after(0, function() s:signal() end) end
    for _ = 1, 1000 do s:wait() end
    process.sleep(0.005)
  end)
end

function case.a_long_lived_process_that_waits_often_grows_nothing()
  local ch, s = process.channel(), process.semaphore(0)
  local echo = process.spawn({ daemon = true }, function()
    for v in ch:values() do s:signal() end
  end)
  five_waves(function()
    for i = 1, 20000 do
      ch:send(i)
      s:wait()
      ch:receive(0)
    end
  end)
  echo:kill()
end

function case.deep_recursion_in_many_processes_gives_its_stack_back()
  local function deep(n) if n == 0 then return 0 end return 1 + deep(n - 1) end
  five_waves(function()
    local all = {}
    for i = 1, 20 do all[i] = process.spawn(deep, 50000) end
    for i = 1, 20 do all[i]:join() end
    all = nil
  end)
end

function case.commands_and_pipes_leave_no_descriptors()
  local function descriptors()
    local n = 0
    for _ in io.popen("ls /proc/$PPID/fd 2>/dev/null"):lines() do n = n + 1 end
    collectgarbage()
    collectgarbage()
    return n
  end
  descriptors()
  local before = descriptors()
  for _ = 1, 5 do
    local all = {}
    for i = 1, 10 do
      all[i] = process.spawn(function()
        os.execute "true"
        local pipe <close> = io.popen "echo x"
        return pipe:read "a"
      end)
    end
    for i = 1, 10 do check.results("pipe", { true, "x\n" }, all[i]:join()) end
  end
  check.within(descriptors(), 0, before + 2)
end

function case.values_held_by_the_dead_are_collected()
  local weak = setmetatable({}, { __mode = "k" })
  local function make()
    local value = {}
    weak[value] = true
    local p = process.spawn(function() local held = value process.sleep(1000) return held end)
    process.yield()
    p:kill()
    p:join()
  end
  for _ = 1, 100 do make() end
  heap()
  local left = 0
  for _ in pairs(weak) do left = left + 1 end
  check.within(left, 0, 2, "values left")
end

check.run(case)
