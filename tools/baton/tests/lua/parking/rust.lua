-- Rust's standard library inside of a module: on threads of its own it gets the system's calls, whatever is declared of the module; in a process it parks
-- where that is declared. Who waits notices no difference.
local check = require "check"
local process = require "baton.process"
local socket = require "socket"
local case = {}

local function waits_so_far() return process.stats().descriptor_waits end

-- A process that waits for a socket all the while, and what ends its wait.
local function waiting_reader()
  local server = assert(socket.bind("127.0.0.1", 0))
  local client = assert(socket.connect("127.0.0.1", (select(2, server:getsockname()))))
  local peer = assert(server:accept())
  server:close()
  local reader = process.spawn(function() return (client:receive()) end)
  check.becomes(reader, "waiting")
  return function()
    check.equal(reader:status(), "waiting")
    peer:send "still there\n"
    check.results("reader", { true, "still there" }, reader:join())
  end
end

function case.threads_get_the_systems_calls_of_a_library_that_parks()
  process.concurrent("rust_std", "concurrent", { parks = true })
  local rust_std = require "rust_std"
  local end_wait = waiting_reader()
  local before = waits_so_far()
  check.equal(rust_std.in_threads(8), true)
  check.equal(waits_so_far(), before)
  end_wait()
end

function case.threads_run_beside_processes_that_park_in_the_same_library()
  process.concurrent("rust_std", "concurrent", { parks = true })
  local rust_std = require "rust_std"
  local all = {}
  for i = 1, 5 do
    all[i] = process.spawn(rust_std.here)
    all[i + 5] = process.spawn(rust_std.in_threads, 3)
  end
  for i = 1, 10 do check.results("process " .. i, { true, true }, all[i]:join()) end
end

function case.a_process_gets_the_systems_calls_of_a_library_that_does_not_park()
  local rust_std = require "rust_std"
  local end_wait = waiting_reader()
  local before = waits_so_far()
  process.params.warn_blocked = 3600
  check.equal(rust_std.here(), true)
  process.concurrent("rust_std", "concurrent")
  local is_over = false
  local caller = process.spawn(function()
    repeat check.equal(rust_std.here(), true) until is_over
  end)
  check.becomes(caller, "foreign") -- and this one runs
  is_over = true
  check.results("caller", { true }, caller:join())
  check.equal(waits_so_far(), before)
  end_wait()
end

function case.a_process_parks_in_a_library_of_which_that_is_declared()
  process.concurrent("rust_std", "concurrent", { parks = true })
  local rust_std = require "rust_std"
  local end_wait = waiting_reader()
  local before = waits_so_far()
  local all = {}
  for i = 1, 10 do all[i] = process.spawn(rust_std.here) end
  for i = 1, 10 do check.results("process " .. i, { true, true }, all[i]:join()) end
  check.that(waits_so_far() >= before + 10)
  end_wait()
end

check.run(case)
