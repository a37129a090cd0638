-- Child programs of fork: one process runs there, and can do everything that a process can do. The
-- parent notices nothing.
local check = require "check"
local process = require "baton.process"
local forker = require "forker"
local case = {}

process.params.warn_blocked = 3600

local function await(pid)
  local status
  check.eventually("the end of a child", function()
    status = forker.reap(pid)
    return status
  end)
  return status
end

-- As check.fifo, but the paths of parent and child differ.
local fifos = 0
local function new_fifo()
  fifos = fifos + 1
  local path = ("%s/fifo-%d-%d"):format(os.getenv "SCRATCH", forker.getpid(), fifos)
  assert(os.execute("mkfifo '" .. path .. "'"))
  return path
end

-- If this is the child, runs body and ends the child.
local function live_as_child(body)
  local ok, message = pcall(body)
  if not ok then io.stderr:write("in the child: ", tostring(message), "\n") end
  os.exit(ok and 42 or 1)
end

-- Forks; the child runs body.
local function fork(body)
  local pid = forker.fork()
  if pid == 0 then live_as_child(body) end
  return pid
end

local function in_child(body)
  check.equal(await(fork(body)), 42, "the child's status")
end

-- Runs the same test in a process and in the main process.
local function from_both(test)
  check.results("join", { true }, process.spawn(test):join())
  test()
end

-- Spawns daemons that compute without end.
local function start_loops(count)
  for i = 1, count do
    process.spawn({ daemon = true, name = "loop " .. i }, function()
      local t = {}
      for n = 1, math.huge do t[n % 100 + 1] = { n } end
    end)
  end
end

-- Does everything that a process can do, in the only process of the child.
local function do_everything()
  local me = process.current()
  check.list(process.list(), { me }, "the only process")
  check.equal(me:status(), "running")
  process.sleep(0.01)
  process.params.slice = 0.001
  local stop, turns = false, 0
  local loop = process.spawn(function() while not stop do turns = turns + 1 end end)
  check.eventually("turns of a loop", function() return turns > 1000 end)
  local before = turns
  while turns == before do end -- only preemption lets the other process run
  stop = true
  check.results("join a loop", { true }, loop:join())
  local ticks = 0
  process.spawn({ daemon = true }, function()
    while true do
      process.sleep(0.001)
      ticks = ticks + 1
    end
  end)
  local fifo = new_fifo()
  local writer = process.spawn(function()
    check.eventually("ticks beside a read that blocks", function() return ticks > 10 end)
    check.write_file(fifo, "text")
  end)
  check.equal(check.read_file(fifo), "text")
  check.results("join a writer", { true }, writer:join())
  check.equal(io.popen "echo answer":read "l", "answer")
  local channel = process.channel()
  process.spawn(function() channel:send "value" end)
  check.equal(channel:receive(10), "value")
  local fired = process.event()
  process.after(0.001, function() fired:set() end)
  check.equal(fired:wait(10), true)
  collectgarbage()
end

function case.the_child_can_do_everything()
  start_loops(2)
  from_both(function() in_child(do_everything) end)
end

function case.the_child_of_an_idle_program_can_do_everything()
  process.spawn({ daemon = true }, function() process.sleep(1000) end)
  from_both(function() in_child(do_everything) end)
end

function case.a_child_may_fork_again()
  start_loops(1)
  from_both(function()
    in_child(function()
      in_child(do_everything)
      check.results("join", { true }, process.spawn(in_child, do_everything):join())
      do_everything()
    end)
  end)
end

function case.a_fork_inside_a_coroutine_goes_on_there()
  local resume = coroutine.wrap(function()
    in_child(function()
      coroutine.yield "in the child"
      error "not reached"
    end)
    return "in the parent"
  end)
  local side = resume()
  if side == "in the child" then live_as_child(do_everything) end
  check.equal(side, "in the parent")
end

function case.the_others_are_dead_in_the_child()
  local gate, mutex = process.event(), process.mutex()
  local others = {
    process.spawn({ daemon = true }, function() gate:wait() end),
    process.spawn({ daemon = true }, function() mutex:lock() process.sleep(1000) end),
    process.spawn({ daemon = true }, function() os.execute "sleep 1" end),
    process.spawn({ daemon = true }, function() process.main:join() end),
    process.spawn({ daemon = true, suspended = true }, print),
  }
  local closed = false
  others[6] = process.spawn({ daemon = true }, function()
    local _ <close> = check.closing(function() closed = true end)
    gate:wait()
  end)
  check.becomes(others[3], "waiting")
  check.results("join", { true }, process.spawn(function()
    in_child(function()
      others[#others + 1] = process.main
      for i, p in ipairs(others) do
        check.equal(p:status(), "dead", i)
        check.results("kill", { false, "dead" }, p:kill())
        check.results("join", { false, "killed" }, p:join())
      end
      check.equal(closed, false)
      check.results("lock", { true, "abandoned" }, mutex:lock(10))
      gate:set()
      others = nil
      for _ = 1, 5 do collectgarbage() end
      do_everything()
    end)
  end):join())
  check.equal(others[1]:status(), "waiting")
  check.equal(mutex:lock(0), nil)
end

function case.timers_fire_in_the_parent_only()
  local here, fired = forker.getpid(), 0
  local timer = process.every(0.001, function()
    check.equal(forker.getpid(), here)
    fired = fired + 1
  end)
  from_both(function()
    in_child(function()
      local before = fired
      process.sleep(0.03)
      check.equal(fired, before)
      timer:cancel()
    end)
  end)
  local before = fired
  check.eventually("firings in the parent", function() return fired > before + 5 end)
  timer:cancel()
end

function case.fifty_forks_in_a_row_beside_loops_and_calls()
  start_loops(2)
  local sleeper = process.spawn(os.execute, "sleep 2")
  local fifo = new_fifo()
  local reader = process.spawn(check.read_file, fifo)
  for i = 1, 50 do
    local function once()
      in_child(function()
        process.sleep(0.001)
        check.results("join", { true, i }, process.spawn(function() return i end):join())
      end)
    end
    if i % 2 == 0 then once() else check.results("join", { true }, process.spawn(once):join()) end
  end
  check.write_file(fifo, "still read")
  check.results("join", { true, "still read" }, reader:join())
  check.results("join", { true, true, "exit", 0 }, sleeper:join())
end

function case.many_processes_fork_at_once()
  start_loops(1)
  local all = {}
  for i = 1, 16 do
    all[i] = process.spawn(in_child, function()
      check.equal(#process.list(), 1)
      check.results(
        "join",
        { true, i },
        process
          .spawn(function()
            process.yield()
            return i
          end)
          :join()
      )
    end)
  end
  for i = 1, 16 do check.results("join", { true }, all[i]:join()) end
end

function case.a_child_that_never_comes_back_costs_nothing()
  start_loops(1)
  for i = 1, 20 do check.equal(await(forker.fork_and_exit(i)), i) end
  check.results("join", { true }, process.spawn(function()
    for i = 1, 20 do check.equal(await(forker.fork_and_exit(i)), i) end
  end):join())
end

-- Reads from a stream whose read forks after `helper` has released it. By then the call was
-- retaken.
local function fork_in_a_retaken_call(helper)
  local retakes = process.stats().retakes
  local stream = forker.forking_stream()
  local p = process.spawn(function()
    local pid = stream:read "n"
    if pid == 0 then live_as_child(do_everything) end
    return pid
  end)
  check.becomes(p, "foreign")
  helper()
  local ok, pid = p:join()
  check.that(ok and math.type(pid) == "integer", pid)
  check.equal(await(pid), 42, "the child's status")
  check.that(process.stats().retakes > retakes, "the call was retaken")
end

function case.a_retaken_call_may_fork_beside_loops()
  start_loops(2)
  fork_in_a_retaken_call(forker.release)
end

function case.a_retaken_call_may_fork_while_the_others_sleep()
  fork_in_a_retaken_call(function()
    process.sleep(0.005)
    forker.release()
    process.sleep(0.02)
  end)
end

function case.a_retaken_call_may_fork_while_the_owner_is_out()
  fork_in_a_retaken_call(forker.release_and_wait)
end

function case.a_retaken_call_may_fork_while_the_owner_cannot_be_preempted()
  fork_in_a_retaken_call(function()
    process.spawn({ preemptible = false }, function()
      forker.release()
      while not forker.has_forked() do end
    end)
  end)
end

function case.a_child_of_a_bound_process_is_bound_to_its_only_thread()
  local p = process.spawn({ thread = "own" }, function()
    in_child(function()
      check.equal(process.thread(), "main")
      check.equal(process.current():stats().thread, "main")
      check.equal(process.stats().threads_named, 0)
      check.results(
        "another thread",
        { true, "own" },
        process.spawn({ thread = "own" }, process.thread):join()
      )
      process.current():bind "elsewhere"
      check.equal(process.thread(), "elsewhere")
    end)
    return process.thread()
  end)
  local fifo = new_fifo()
  local busy = process.spawn({ thread = "busy" }, io.open, fifo)
  check.becomes(busy, "foreign")
  local waiting = process.spawn({ thread = "busy" }, process.thread)
  check.results("the parent", { true, "own" }, p:join())
  in_child(function()
    check.equal(busy:status(), "dead")
    check.equal(waiting:status(), "dead")
    check.results(
      "a thread of that name",
      { true, "busy" },
      process.spawn({ thread = "busy" }, process.thread):join()
    )
  end)
  process.spawn(io.open, fifo, "w"):join()
  check.equal(busy:join(), true)
  check.results("the parent's", { true, "busy" }, waiting:join())
end

-- The parent's waiting processes are dead in the child, so nothing is reserved for them there.
function case.a_child_has_what_is_in_shared_objects_and_none_of_their_waits()
  local vm = require "baton.vm"
  local full, empty, words = vm.channel(1), vm.channel(1), vm.shared(1)
  full:send "before"
  local receiver = process.spawn(function() return empty:receive() end)
  local sender = process.spawn(function() return full:send "behind" end)
  local sleeper = process.spawn(function() return words:wait(1, 0) end)
  for _, p in ipairs { receiver, sender, sleeper } do check.becomes(p, "waiting") end
  in_child(function()
    check.equal(words:wake(1, 9), 0)
    check.equal(empty:send("mine", 0), true)
    check.equal(empty:receive(0), "mine")
    check.equal(full:receive(0), "before")
    check.equal(full:send("mine", 0), true)
  end)
  check.equal(full:receive(), "before")
  check.equal(full:receive(), "behind")
  empty:send "v"
  check.equal(words:wake(1, 9), 1)
  check.results("receiver", { true, "v" }, receiver:join())
  check.equal(sender:join(), true)
  check.equal(sleeper:join(), true)
end

check.run(case)
