-- A program that waits in one of several ways: `idle.lua case`. Prints "ready" when it only has to
-- wait.
local process = require "baton.process"
local ffi = require "baton.ffi"

-- Waits at a listening socket to which nothing connects. The process waits in LuaSocket's accept
-- without using a native thread.
local function listen()
  local found, socket = pcall(require, "socket")
  assert(found, "no LuaSocket: install lua-socket")
  local server = assert(socket.bind("127.0.0.1", 0))
  process.spawn(function() assert(server:accept()) end)
  process.yield()
end

-- Two processes that preempt each other.
local function compute()
  local start = process.now()
  local function loop()
    while process.now() - start < 1 do end
  end
  local beside = process.spawn(loop)
  loop()
  beside:join()
end

local cases = {
  nothing = function() end,
  second = function() process.every(1, function() end) end,
  -- One process that waits for each time, like Go's ticker. `every` would start a process for each
  -- firing.
  kilohertz = function()
    process.spawn(function()
      local due, sleep_until = process.now(), process.sleep_until
      while true do
        due = due + 0.001
        sleep_until(due)
      end
    end)
  end,
  listen = listen,
  crowd = function()
    local never = process.event()
    for _ = 1, 10000 do process.spawn(never.wait, never) end
    process.yield()
  end,
  hour = function() process.after(3600, function() end) end,
  busy = compute,
}

cases[arg[1]]()
print("ready")
io.stdout:flush()

-- The main process waits for standard input, which never has data.
local read = ffi.blocking(ffi.fn("ssize_t read(int descriptor, void *to, size_t size)"))
read(0, ffi.new("char[1]"), 1)
os.exit(0)
