-- Assertions for tests in Lua, and the runner of a file's cases.
local check = {}
local calls_left_out = false

local function show(value)
  return type(value) == "string" and string.format("%q", value) or tostring(value)
end

local function fail(level, what, message)
  error((what and what .. ": " or "") .. message, level + 2)
end

function check.that(value, what)
  if not value then fail(1, what, "true expected, got " .. show(value)) end
  return value
end

function check.equal(got, wanted, what)
  if got ~= wanted then fail(1, what, show(wanted) .. " expected, got " .. show(got)) end
end

-- Checks lo <= value <= hi; fails for NaN.
function check.within(value, lo, hi, what)
  if not (value >= lo and value <= hi) then
    fail(1, what, string.format("a number from %s to %s expected, got %s", lo, hi, show(value)))
  end
end

-- Compares the results of one call with a list, packed or plain: check.results("what", {true, 1},
-- p:join()).
function check.results(what, wanted, ...)
  local got, n = { ... }, select("#", ...)
  if n ~= (wanted.n or #wanted) then
    fail(
      1,
      what,
      (wanted.n or #wanted)
        .. " values expected, got "
        .. n
        .. " ("
        .. show(got[1])
        .. ", "
        .. show(got[2])
        .. ")"
    )
  end
  for i = 1, n do
    if got[i] ~= wanted[i] then
      fail(1, what, "value " .. i .. ": " .. show(wanted[i]) .. " expected, got " .. show(got[i]))
    end
  end
end

-- Compares two lists element by element.
function check.list(got, wanted, what)
  local g, w = {}, {}
  for i = 1, #got do g[i] = show(got[i]) end
  for i = 1, #wanted do w[i] = show(wanted[i]) end
  g, w = table.concat(g, " "), table.concat(w, " ")
  if g ~= w then fail(1, what, "[" .. w .. "] expected, got [" .. g .. "]") end
end

function check.matches(text, pattern, what)
  if type(text) ~= "string" or not text:find(pattern) then
    fail(1, what, "a match of " .. show(pattern) .. " expected, got " .. show(text))
  end
  return text
end

-- f must raise an error whose message matches.
function check.raises(pattern, f, ...)
  local ok, message = pcall(f, ...)
  if ok then fail(1, nil, "an error like " .. show(pattern) .. " expected, but none came") end
  if not tostring(message):find(pattern) then
    fail(1, nil, "an error like " .. show(pattern) .. " expected, got " .. show(message))
  end
  return message
end

-- Waits until predicate() holds. The first argument is the description for the error message.
function check.eventually(what, predicate)
  local process = require "baton.process"
  local deadline = process.now() + 120 -- a busy machine may stop for a while
  while not predicate() do
    if process.now() > deadline then fail(1, nil, "never came true: " .. what) end
    process.sleep(0.001)
  end
end

-- Waits until the process has this status.
function check.becomes(p, status)
  check.eventually("the process is " .. status, function() return p:status() == status end)
end

-- Spawns a process that waits in a select. Returns once it waits.
function check.selecting(cases, timeout)
  local process = require "baton.process"
  local p = process.spawn(function() return process.select(cases, timeout) end)
  check.becomes(p, "waiting")
  return p
end

-- The main process waits in `wait`, and another process ends this wait by `give`. Before the main
-- process continues, an interrupt arrives, and `wait` raises. The other process first calls
-- `prepare`, if given. Use it once per program.
function check.interrupted(wait, give, prepare)
  local process, ffi = require "baton.process", require "baton.ffi"
  ffi.cdef "int raise(int);"
  local is_prepared = process.event()
  local other = process.spawn(function()
    if prepare then prepare() end
    is_prepared:set()
    check.becomes(process.main, "waiting")
    process.critical(function()
      give()
      check.equal(ffi.C.raise(2), 0)
      -- a simulated run needs a safepoint; otherwise the next instruction is one
      local until_then = process.now() + 0.005
      while process.now() < until_then do end
    end)
  end)
  is_prepared:wait()
  check.raises("interrupted!", wait)
  check.equal(other:join(), true)
end

-- Numbers of the system calls that a process may be stuck in.
local CALLS = { open = { x86_64 = 257, aarch64 = 56 }, read = { x86_64 = 0, aarch64 = 63 } }

-- Returns whether a native thread of this program waits in the system call of this number. The
-- thread that runs this function is in a system call, too, but it is running.
local function somebody_calls(pid, number)
  local threads <close> = io.popen("ls /proc/" .. pid .. "/task")
  for thread in threads:lines() do
    -- the thread has ended
    local file <close> = io.open("/proc/self/task/" .. thread .. "/syscall")
    local stat <close> = io.open("/proc/self/task/" .. thread .. "/stat")
    if file and stat and file:read "n" == number and (stat:read "a" or ""):find "%) S" then
      return true
    end
  end
  return false
end

-- Waits until the process waits in the system, in "open" or "read". It may be in state "foreign"
-- earlier: if its thread was kept from running before the call, and then enters the VM again.
function check.becomes_stuck(p, call)
  check.becomes(p, "foreign")
  local number = CALLS[call][io.popen("uname -m"):read "l"]
  local pid = io.open("/proc/self/stat"):read "n"
  if number and io.open "/proc/self/syscall" then
    check.eventually(
      "a thread waits in " .. call,
      function() return somebody_calls(pid, number) end
    )
  end
  check.becomes(p, "foreign")
end

-- Returns a function that returns for how many seconds the machine has kept the present threads of
-- this program from a processor. From here on no call is retaken, so no thread is added. Source:
-- proc(5), schedstat, the second number.
function check.time_kept()
  require("baton.process").params.window = 3600
  local pid, files = io.open("/proc/self/stat"):read "n", {}
  for thread in io.popen(("ls /proc/%d/task"):format(pid)):lines() do
    files[#files + 1] = ("/proc/self/task/%s/schedstat"):format(thread)
  end
  return function()
    local sum = 0
    for _, name in ipairs(files) do
      local file <close> = io.open(name)
      local _, waited = file:read("n", "n")
      sum = sum + waited
    end
    return sum / 1e9
  end
end

-- The median of a list of numbers.
function check.middle(values)
  local sorted = table.move(values, 1, #values, 1, {})
  table.sort(sorted)
  return sorted[(#sorted + 1) // 2]
end

-- Turns slices off, so that equals alternate only where the program says so: for tests of exact
-- order.
function check.without_slices()
  require("baton.process").params.slice = 3600
end

-- Spawns n processes; each calls f(i).
function check.spawn_all(n, f)
  local all = {}
  for i = 1, n do all[i] = require("baton.process").spawn(f, i) end
  return all
end

-- Joins them. Each must return nothing, and not fail.
function check.join_all(all)
  for i, p in ipairs(all) do check.results("process " .. i, { true }, p:join()) end
end

-- Spawns a process that ticks once per millisecond. Returns a function that returns the number of
-- ticks.
function check.ticker(options)
  local process = require "baton.process"
  local ticks = 0
  process.spawn({ daemon = true, priority = options and options.priority }, function()
    while true do
      process.sleep(0.001)
      ticks = ticks + 1
    end
  end)
  return function() return ticks end
end

-- Returns an object whose __close calls f(error).
function check.closing(f)
  return setmetatable({}, { __close = function(_, err) f(err) end })
end

-- The interpreter that runs this program, as it was called.
function check.interpreter()
  local first = 0
  while arg[first - 1] do first = first - 1 end
  return arg[first]
end

local scratch_count = 0

-- Returns the path of a new file in the directory of this run.
function check.scratch(name)
  scratch_count = scratch_count + 1
  return os.getenv "SCRATCH" .. "/" .. (name or "file") .. scratch_count
end

-- Returns the path of a new FIFO.
function check.fifo()
  local path = check.scratch "fifo"
  assert(os.execute("mkfifo '" .. path .. "'"))
  return path
end

-- The number of descriptors that the program has open.
function check.descriptors()
  local count = 0
  for descriptor = 0, 1023 do
    local file = io.open("/proc/self/fdinfo/" .. descriptor)
    if file then
      count = count + 1
      file:close()
    end
  end
  return count
end

function check.write_file(path, text)
  local file = assert(io.open(path, "w"))
  assert(file:write(text))
  assert(file:close())
end

function check.read_file(path)
  local file = assert(io.open(path))
  local text = file:read "a"
  file:close()
  return text
end

-- A computation in Lua with a known result: shows that state survives switches.
function check.fib(n)
  if n < 2 then return n end
  return check.fib(n - 1) + check.fib(n - 2)
end

-- A call that keeps the pattern matcher busy for longer than any test.
-- The program ends without waiting for it; other tests check how daemons end.
function check.endless_match()
  calls_left_out = true
  return string.match(("a"):rep(60), ("a-"):rep(60) .. "b")
end

-- Runs the case named on the command line.
function check.run(cases)
  local name = arg[1]
  local body = cases[name] or error("no such case: " .. tostring(name))
  body()
  print("passed " .. name)
  if calls_left_out then
    io.stdout:flush()
    os.exit(0)
  end
end

return check
