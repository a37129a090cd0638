-- The lateness of waiting processes beside C calls of one second: `waiting_beside.lua port count`.
-- For each kind of call, prints the largest and the median lateness in milliseconds.
local process = require "baton.process"
local ffi = require "baton.ffi"
local socket = require "socket"
local port, count = tonumber(arg[1]), tonumber(arg[2])

local late = {}
for _ = 1, count do
  local connection = assert(socket.connect("127.0.0.1", port))
  connection:send "beat 10\n"
  process.spawn({ daemon = true }, function()
    while true do
      local sent = tonumber(assert(connection:receive()))
      late[#late + 1] = process.now() - sent
    end
  end)
end

local function measure(kind, call)
  process.sleep(0.2)
  late = {}
  local caller = process.spawn(call)
  process.sleep(1.5)
  assert(caller:join())
  local found = late
  table.sort(found)
  print(kind .. "_most_ms", found[#found] * 1e3)
  print(kind .. "_median_ms", found[#found // 2 + 1] * 1e3)
end

local usleep = ffi.fn "int usleep(unsigned useconds)"
local function call() usleep(1000000) end

measure("alone", function() end)
measure("surprise", call)
measure("learned", call)
measure("command", function() os.execute "sleep 1" end)
os.exit(0)
