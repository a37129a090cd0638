#!/usr/bin/env luajit
-- The peer LuaJIT for foreign calls, with its FFI. See ../README.md. It has one thread.
local ffi = require "ffi"

ffi.cdef [[
  int calls_spin(int turns);
  int calls_sleep(int microseconds);
  double calls_now(void);
]]

local function call(f, times, amount)
  for _ = 1, times do
    f(amount)
  end
end

local function run(path, case, count, length)
  local library = ffi.load(path)
  local f = library.calls_sleep
  if case == "short_sequential" then
    f = library.calls_spin
    call(f, 1000, length)
  elseif case ~= "long_sequential" then
    error("no such case: " .. case)
  end
  local start = library.calls_now()
  call(f, count, length)
  print(string.format('{"ms": %.6f}', (library.calls_now() - start) * 1e3))
end

if arg[1] == "version" and #arg == 1 then
  print(jit.version)
elseif arg[1] == "calls" and #arg == 5 then
  run(arg[2], arg[3], tonumber(arg[4]), tonumber(arg[5]))
else
  error("usage: peer version | calls LIBRARY CASE COUNT LENGTH", 0)
end
