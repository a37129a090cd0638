-- Accepts while descriptors are short: waits, warns once, goes on when some are free.
local check = require "check"
local process = require "baton.process"
local net = require "baton.net"
local ffi = require "baton.ffi"

ffi.cdef [[
  struct rlimit { unsigned long now, most; };
  int getrlimit(int, struct rlimit *); int setrlimit(int, const struct rlimit *);
]]
local NOFILE = 7 -- of Linux

local listener = assert(net.listen("127.0.0.1:0", { backlog = 100 }))
local clients = {}
for i = 1, 4 do clients[i] = assert(net.connect(listener:address())) end

local held = {}
local limit = ffi.new "struct rlimit"
assert(ffi.C.getrlimit(NOFILE, limit) == 0)
limit.now = 64
assert(ffi.C.setrlimit(NOFILE, limit) == 0)
repeat
  local file = io.open "/dev/null"
  held[#held + 1] = file
until not file

local before = os.clock()
assert(select(2, listener:accept(0)) == "timeout")
local accepted = {}
local acceptor = process.spawn(function()
  for i = 1, 4 do accepted[i] = assert(listener:accept()) end
end)
process.sleep(0.3)
check.within(os.clock() - before, 0, 0.15, "processor")
check.becomes(acceptor, "waiting")
check.equal(#accepted, 0)
for _, file in ipairs(held) do file:close() end
check.results("acceptor", { true }, acceptor:join(60))
check.equal(#accepted, 4)

-- once more, and no further warning
held = {}
repeat
  local file = io.open "/dev/null"
  held[#held + 1] = file
until not file
clients[1]:close()
local waiting = process.spawn(function() return listener:accept() end)
check.becomes(waiting, "waiting")
listener:close() -- ends that wait, too
check.results("closed", { true, nil, "closed" }, waiting:join(60))
print "passed"
