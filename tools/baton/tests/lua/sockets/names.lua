-- Other processes run during a look-up of a name (tests/modules/slow_names.c is preloaded).
local check = require "check"
local process = require "baton.process"
local ffi = require "baton.ffi"
local socket = require "socket"
local case = {}

local most, all = ffi.fn "int slow_names_most(void)", ffi.fn "int slow_names_all(void)"

local function let_look_ups_end() check.write_file(os.getenv "SLOW_NAMES", "") end

local function server()
  local listening = assert(socket.bind("127.0.0.1", 0, 100))
  process.spawn({ daemon = true }, function()
    while true do
      local client = listening:accept()
      process.spawn({ daemon = true }, function()
        for line in function() return client:receive() end do client:send(line .. "\n") end
      end)
    end
  end)
  return select(2, listening:getsockname())
end


-- Returns the program's descriptors, as another program lists them. That fails if one is closed
-- meanwhile, and is then repeated.
local function list()
  for _ = 1, 100 do
    local pipe = io.popen(("ls -l /proc/%d/fd 2>/dev/null"):format(ffi.fn "int getpid(void)"()))
    local lines = pipe:read "a"
    if pipe:close() then return lines end
  end
  error "the descriptors could not be listed"
end

-- Leaves out the files that the monitor opens for a moment, one at a time, to read about a thread.
local function descriptors()
  collectgarbage()
  local count, of_monitor = 0, 0
  for line in list():gmatch "[^\n]+" do
    if line:find "/proc/%d+/task/" then of_monitor = of_monitor + 1 else count = count + 1 end
  end
  return count + math.max(of_monitor - 1, 0)
end

function case.other_processes_run_during_a_look_up()
  local port = server()
  local client = assert(socket.connect("127.0.0.1", port))
  local slow = process.spawn(function() return assert(socket.connect("slow.example", port)) end)
  check.becomes(slow, "waiting")
  check.eventually("a helper looks it up", function() return all() == 1 end)
  for i = 1, 100 do
    client:send(i .. "\n")
    check.equal(client:receive(), tostring(i))
  end
  check.equal(slow:status(), "waiting")
  let_look_ups_end()
  local ok, connection = slow:join()
  check.equal(ok, true)
  connection:send "here\n"
  check.equal(connection:receive(), "here")
end

function case.a_killed_look_up_is_abandoned()
  local before = descriptors()
  for _ = 1, 20 do
    local p = process.spawn(socket.connect, "slow.example", 1)
    check.becomes(p, "waiting")
    p:kill "enough"
    check.results("join", { false, "enough" }, p:join(20))
  end
  let_look_ups_end()
  check.eventually("nothing is left", function() return descriptors() == before end)
end

function case.look_ups_beyond_the_number_of_helpers_wait()
  local port, waiting = server(), {}
  for i = 1, 50 do
    waiting[i] = process.spawn(function() return (assert(socket.connect("slow" .. i, port))) end)
  end
  for i = 1, 50 do check.becomes(waiting[i], "waiting") end
  check.eventually("all helpers are at it", function() return all() == 16 end)
  let_look_ups_end()
  for i = 1, 50 do check.equal(waiting[i]:join(), true) end
  check.equal(all(), 50)
  check.equal(most(), 16)
end

function case.answers_and_failures_are_the_systems()
  let_look_ups_end()
  local function ask(f, ...)
    local answers = table.pack(process.spawn(f, ...):join())
    return table.unpack(answers, 2, answers.n)
  end
  check.equal(ask(socket.dns.toip, "localhost"), "127.0.0.1")
  check.results(
    "connect",
    { n = 2, nil, "host or service not provided, or not known" },
    ask(function()
      local _, why = socket.connect("none.example", 1)
      return nil, why
    end)
  )
  local found = ask(socket.dns.getaddrinfo, "slow.example")
  check.equal(found[1].addr, "127.0.0.1")
  local names = ask(socket.dns.getnameinfo, "127.0.0.1")
  check.equal(names[1], "127.0.0.1")
  local host = ask(socket.dns.tohostname, "127.0.0.1")
  check.that(type(host) == "string" and #host > 0)
end

check.run(case)
