-- Ends of VMs: by kill, in every state, and with the program.
local check = require "check"
local process = require "baton.process"
local vm = require "baton.vm"

local case = {}

local function killed(w, reason)
  check.equal(w:kill(reason), true)
  check.results("join", { false, reason or "killed" }, w:join(30))
end

function case.a_sleeping_vm_is_killed()
  killed(vm.spawn(function() require("baton.process").sleep(3600) end))
end

function case.a_busy_vm_is_killed()
  killed(vm.spawn(function()
    while true do end
  end), "too busy")
end

function case.a_vm_that_catches_everything_is_killed()
  killed(vm.spawn(function()
    while true do
      pcall(function()
        while true do end
      end)
    end
  end))
end

function case.a_vm_whose_processes_all_wait_is_killed()
  killed(vm.spawn(function()
    local process = require "baton.process"
    local channel = process.channel()
    for _ = 1, 10 do process.spawn(function() channel:receive() end) end
    channel:receive()
  end))
end

function case.close_variables_run_before_the_end()
  local ends = vm.channel()
  local w = vm.spawn(function(ends)
    local guard <close> = setmetatable({}, { __close = function() ends:send "closed" end })
    ends:send "ready"
    require("baton.process").sleep(3600)
  end, ends)
  check.equal(ends:receive(), "ready")
  killed(w)
  check.equal(ends:receive(0), "closed")
end

-- Guards against a zombie for each VM that is halted while it waits for a command.
function case.a_command_of_a_halted_vm_is_waited_for()
  local path = check.scratch "pid"
  local w = vm.spawn({ quiet = true }, function(path)
    local script = "echo $$ > %s.new; mv %s.new %s; while [ ! -e %s.go ]; do sleep 0.01; done"
    os.execute((script:gsub("%%s", path)))
  end, path)
  local function is_there(name)
    local file <close> = io.open(name)
    return file ~= nil
  end
  check.eventually("the command runs", function() return is_there(path) end)
  check.equal(w:kill("halted", 0.01), true)
  check.equal(w:join(30), false)
  local stat = "/proc/" .. tonumber(check.read_file(path)) .. "/stat"
  check.that(is_there(stat), "it goes on")
  check.write_file(path .. ".go", "")
  check.eventually("nothing is left of it", function() return not is_there(stat) end)
end

function case.a_vm_that_still_loads_its_module_is_killed_with_its_close_variables()
  arg.loading = vm.channel(1)
  local answer = process.channel(1)
  process.spawn(function()
    answer:send { vm.spawn({ name = "slow" }, "vms.modules.loading_for_ever") }
  end)
  check.equal(arg.loading:receive(), "loading")
  local listed = vm.list()[2]
  check.equal(listed:kill "enough", true)
  check.equal(arg.loading:receive(), "closed")
  local result = answer:receive()
  check.equal(result[1], nil)
  check.equal(result[2], "VM 'slow' could not begin: killed (enough)")
end

function case.a_call_of_a_vm_that_still_loads_its_module_waits_for_that()
  arg.loading = vm.channel(1)
  local answer = process.channel(1)
  process.spawn(function() answer:send { vm.spawn "vms.modules.loading_slowly" } end)
  check.equal(arg.loading:receive(), "loading")
  local listed = vm.list()[2]
  local called = process.spawn(function() return listed:call "loaded" end)
  check.eventually("it has asked", function() return called:status() == "waiting" end)
  arg.loading:send "go on"
  check.results("call", { true, true }, called:join(30))
  killed(answer:receive()[1])
end

function case.a_vm_that_has_ended_is_dead_to_everybody()
  local w = vm.spawn(function() return 1 end)
  w:join()
  check.equal(w:status(), "dead")
  check.results("kill", { false, "dead" }, w:kill())
  check.results("call", { n = 2, nil, "dead" }, w:call "f")
  check.results("stats", { n = 2, nil, "dead" }, w:stats())
  check.results("join", { true, 1 }, w:join())
end

function case.a_monitor_hears_of_the_end()
  local ends = process.channel(4)
  local w = vm.spawn({ quiet = true }, function() error "wrong" end)
  w:monitor(ends)
  local message = ends:receive()
  check.equal(message.ended, "failed")
  check.matches(message.reason, "wrong")
end

function case.a_vm_outlives_the_process_that_started_it()
  local w
  local spawner = process.spawn({ quiet = true }, function()
    w = vm.spawn "vms.modules.functions"
    w:join()
  end)
  check.eventually("it is there", function() return w end)
  spawner:kill()
  spawner:join()
  check.equal(w:call("double", 3), 6)
  killed(w)
end

function case.two_hundred_vms_are_killed_in_every_moment()
  for round = 1, 200 do
    local w = vm.spawn(function()
      local process = require "baton.process"
      for _ = 1, 3 do
        process.spawn(function()
          while true do
            process.yield()
            process.sleep(0.0001)
          end
        end)
      end
      local n = 0
      while true do n = n + 1 end
    end)
    if round % 3 == 0 then process.sleep(round % 10 * 0.0003) end
    w:kill()
    check.equal(w:join(30), false)
  end
end

function case.nothing_is_left_of_five_hundred_vms()
  local function used()
    local threads, kib
    for line in io.lines "/proc/self/status" do
      threads = tonumber(line:match "^Threads:%s*(%d+)") or threads
      kib = tonumber(line:match "^VmRSS:%s*(%d+)") or kib
    end
    local list = io.popen("ls /proc/" .. io.open("/proc/self/stat"):read "n" .. "/fd | wc -l")
    local descriptors = list:read "n"
    list:close()
    return threads, descriptors, kib
  end
  local function round(count)
    for i = 1, count do
      local w = vm.spawn(function(i)
        local t = {}
        for k = 1, 100 do t[k] = { k } end
        return i, require("baton.vm").channel(1)
      end, i)
      check.equal(select(2, w:join()), i)
    end
    collectgarbage()
    collectgarbage()
  end
  round(50)
  local threads, descriptors, kib = used()
  round(500)
  check.eventually("the last one has gone, too", function()
    local threads_now, descriptors_now, kib_now = used()
    return threads_now <= threads and descriptors_now <= descriptors and kib_now <= kib + 4096
  end)
end

-- Blocks of messages return to VMs. Those of VMs that have ended must not become more and more.
function case.what_vms_have_sent_is_freed_when_it_was_received()
  local ffi = require "baton.ffi"
  ffi.cdef [[
    struct mallinfo2 {
      size_t arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
    };
    struct mallinfo2 mallinfo2(void);
  ]]
  local function used()
    collectgarbage()
    collectgarbage()
    return ffi.C.mallinfo2().uordblks
  end
  local VMS, EACH = 300, 64
  local function round(vms)
    local c = vm.channel(VMS * EACH)
    for _ = 1, vms do
      local w = vm.spawn(function(c, each)
        for i = 1, each do c:send(i) end
      end, c, EACH)
      check.results("join", { true }, w:join())
    end
    for _ = 1, vms * EACH do c:receive() end
  end
  round(1)
  local before = used()
  round(VMS)
  check.eventually("the blocks that are left are few", function()
    return used() - before < 4 << 20
  end)
end

-- Guards against types of C that are kept for each VM that has ended: 19 KB.
function case.vms_with_the_ffi_leave_nothing_behind()
  local function resident()
    for line in io.lines "/proc/self/status" do
      local kib = tonumber(line:match "^VmRSS:%s*(%d+)")
      if kib then return kib end
    end
  end
  local function run(count)
    for _ = 1, count do
      vm.spawn(function()
        local ffi = require "baton.ffi"
        ffi.cdef "struct left_behind { int x; double y[10]; };"
        return ffi.new("struct left_behind").x
      end):join()
    end
    collectgarbage()
    return resident()
  end
  local before = run(50)
  check.within(run(200) - before, -math.huge, 2500, "KiB more")
end

check.run(case)
