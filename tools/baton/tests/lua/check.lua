-- Assertions for the Lua side of the tests, and the runner of a file's cases.
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

-- NaN-proof: lo <= value <= hi.
function check.within(value, lo, hi, what)
  if not (value >= lo and value <= hi) then
    fail(1, what, string.format("a number from %s to %s expected, got %s", lo, hi, show(value)))
  end
end

-- The values of one call against a packed or plain list: check.results("what", {true, 1},
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

-- Two lists element by element.
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

-- f must raise an error whose text matches.
function check.raises(pattern, f, ...)
  local ok, message = pcall(f, ...)
  if ok then fail(1, nil, "an error like " .. show(pattern) .. " expected, but none came") end
  if not tostring(message):find(pattern) then
    fail(1, nil, "an error like " .. show(pattern) .. " expected, got " .. show(message))
  end
  return message
end

-- Waits until predicate() holds; its first argument says what is awaited.
function check.eventually(what, predicate)
  local process = require "baton.process"
  local deadline = process.now() + 120 -- a machine may stand still for a while
  while not predicate() do
    if process.now() > deadline then fail(1, nil, "never came true: " .. what) end
    process.sleep(0.001)
  end
end

-- Waits until the process has this status.
function check.becomes(p, status)
  check.eventually("the process is " .. status, function() return p:status() == status end)
end

-- A process that waits in a select, and is there when this returns.
function check.selecting(cases, timeout)
  local process = require "baton.process"
  local p = process.spawn(function() return process.select(cases, timeout) end)
  check.becomes(p, "waiting")
  return p
end

-- The main process waits in `wait`, which `give` of another process ends; before it goes on an
-- interrupt comes, and `wait` raises. `prepare`, if it is there, is called by that other process
-- first. Once in a program.
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
      -- for a safepoint of a simulated run; else the next instruction is one
      local until_then = process.now() + 0.005
      while process.now() < until_then do end
    end)
  end)
  is_prepared:wait()
  check.raises("interrupted!", wait)
  check.equal(other:join(), true)
end

-- The numbers of system calls in which a process may be stuck.
local CALLS = { open = { x86_64 = 257, aarch64 = 56 }, read = { x86_64 = 0, aarch64 = 63 } }

-- Whether a native thread of this program waits in the system's call of this number. The one that
-- asks is in a call, too, but runs.
local function somebody_calls(pid, number)
  local threads <close> = io.popen("ls /proc/" .. pid .. "/task")
  for thread in threads:lines() do
    -- gone when the thread is
    local file <close> = io.open("/proc/self/task/" .. thread .. "/syscall")
    local stat <close> = io.open("/proc/self/task/" .. thread .. "/stat")
    if file and stat and file:read "n" == number and (stat:read "a" or ""):find "%) S" then
      return true
    end
  end
  return false
end

-- Waits until the process waits in the system, in "open" or "read". Its call is foreign before
-- that, when its thread was kept from running, and enters the VM again.
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

-- A function that says for how many seconds the machine has kept the threads of this program from
-- a processor so far: those that are there now. From here on no call is retaken, so that none is
-- added. Source: proc(5), schedstat: the second number.
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

-- The middle one of a list of numbers.
function check.middle(values)
  local sorted = table.move(values, 1, #values, 1, {})
  table.sort(sorted)
  return sorted[(#sorted + 1) // 2]
end

-- Equals take turns only where the program says so: for tests of exact order.
function check.without_slices()
  require("baton.process").params.slice = 3600
end

-- n processes, each in f(i).
function check.spawn_all(n, f)
  local all = {}
  for i = 1, n do all[i] = require("baton.process").spawn(f, i) end
  return all
end

-- Each must return nothing, and not fail.
function check.join_all(all)
  for i, p in ipairs(all) do check.results("process " .. i, { true }, p:join()) end
end

-- A process that ticks once a millisecond; the function that is returned answers how often it has.
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

-- An object whose <close> calls f(error).
function check.closing(f)
  return setmetatable({}, { __close = function(_, err) f(err) end })
end

-- The program that runs this, as it was called.
function check.interpreter()
  local first = 0
  while arg[first - 1] do first = first - 1 end
  return arg[first]
end

local scratch_count = 0

-- The path of a new file in the directory of this run.
function check.scratch(name)
  scratch_count = scratch_count + 1
  return os.getenv "SCRATCH" .. "/" .. (name or "file") .. scratch_count
end

-- The path of a new FIFO.
function check.fifo()
  local path = check.scratch "fifo"
  assert(os.execute("mkfifo '" .. path .. "'"))
  return path
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

-- A C-free computation whose answer is known: used to see that state survives switches.
function check.fib(n)
  if n < 2 then return n end
  return check.fib(n - 1) + check.fib(n - 2)
end

-- A call that takes the pattern matcher longer than any test lasts.
-- The program ends without waiting for it: how daemons are awaited is tested elsewhere.
function check.endless_match()
  calls_left_out = true
  return string.match(("a"):rep(60), ("a-"):rep(60) .. "b")
end

-- Runs the case that the command line names.
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
