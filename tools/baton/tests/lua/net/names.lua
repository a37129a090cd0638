-- Names of hosts (tests/modules/slow_names.c is preloaded).
local check = require "check"
local process = require "baton.process"
local net = require "baton.net"
local case = {}

local function let_look_ups_end() check.write_file(os.getenv "SLOW_NAMES", "") end

function case.a_look_up_holds_nobody_up_and_can_be_killed()
  local listener <close> = assert(net.listen "127.0.0.1:0")
  local name = "slow.example:" .. listener:address():match "%d+$"
  local slow = process.spawn(function() return net.connect(name) end)
  local killed = process.spawn(function() return net.connect(name) end)
  check.becomes(slow, "waiting")
  check.becomes(killed, "waiting")
  check.results("in time", { nil, "timeout" }, net.connect(name, { timeout = 0.01 }))
  killed:kill()
  check.equal(killed:join(), false)
  let_look_ups_end()
  local ok, conn = slow:join(60)
  check.that(ok and conn)
  check.equal(conn:peer(), listener:address())
end

-- 127.0.0.2 is the first address of "dead", 127.0.0.1 the second one.
function case.the_second_address_wins_if_the_first_one_does_not_answer()
  local second <close> = assert(net.listen "127.0.0.1:0")
  local port = second:address():match "%d+$"
  local conn = assert(net.connect("dead.example:" .. port)) -- refused by the first one
  check.equal(conn:peer(), second:address())
  local first <close> = assert(net.listen("127.0.0.2:" .. port, { backlog = 1 }))
  local held = {}
  repeat -- until its backlog is full, and the system drops what comes
    local more = net.connect(first:address(), { timeout = 0.05 })
    held[#held + 1] = more
    check.that(#held < 100)
  until not more
  local before = check.descriptors()
  conn = assert(net.connect("dead.example:" .. port, { timeout = 60 }))
  check.equal(conn:peer(), second:address())
  check.equal(check.descriptors(), before + 1, "the other attempt has ended")
  local waiting = process.spawn(function() return net.connect(first:address()) end)
  check.becomes(waiting, "waiting")
  waiting:kill()
  check.equal(waiting:join(), false)
  check.equal(check.descriptors(), before + 1, "a killed attempt has ended")
end

check.run(case)
