-- The network of a simulated run with several VMs.
local check = require "check"
local process = require "baton.process"
local net = require "baton.net"
local vm = require "baton.vm"
local case = {}

-- A VM that echoes lines, and has begun.
local function echo()
  local began = vm.channel()
  local other = vm.spawn({ name = "echo", daemon = true }, function(began)
    local net, process = require "baton.net", require "baton.process"
    local listener = assert(net.listen "127.0.0.1:7")
    began:send(true)
    while true do
      local conn = assert(listener:accept())
      process.spawn({ daemon = true }, function()
        for line in conn:lines() do conn:write(line, "\n") end
        conn:close()
      end)
    end
  end, began)
  began:receive()
  return other
end

function case.a_server_in_another_vm_is_reached()
  local other = echo()
  for number = 1, 20 do
    local conn <close> = assert(net.connect "127.0.0.1:7")
    check.equal(conn:peer(), "127.0.0.1:7")
    conn:write("line ", number, "\n")
    check.equal(conn:read("line", 5), "line " .. number)
    conn:shutdown()
    check.equal(conn:read("all", 5), "")
  end
  check.equal(select(2, net.listen "127.0.0.1:7"), "127.0.0.1:7: Address already in use")
  other:kill()
end

function case.who_waits_before_there_are_several_vms_is_woken()
  local listener = assert(net.listen "127.0.0.1:80")
  local waiting = process.spawn(function() return listener:accept():read "all" end)
  check.becomes(waiting, "waiting")
  local other = vm.spawn(function()
    local conn = assert(require("baton.net").connect "127.0.0.1:80")
    conn:write "from another VM"
    conn:close()
  end)
  check.results("read", { true, "from another VM" }, waiting:join(10))
  check.equal(other:join(10), true)
end

function case.large_bodies_go_both_ways_between_vms()
  local size = 300000
  local listener = assert(net.listen "127.0.0.1:80")
  local other = vm.spawn(function(size)
    local conn = assert(require("baton.net").connect "127.0.0.1:80")
    conn:write(("x"):rep(size))
    conn:shutdown()
    return #conn:read "all"
  end, size)
  local conn = assert(listener:accept())
  check.equal(#conn:read(size), size)
  conn:write(("y"):rep(2 * size))
  conn:close()
  check.results("the other", { true, 2 * size }, other:join(100))
end

function case.datagrams_go_between_vms()
  local socket = assert(net.udp "127.0.0.1:53")
  local other = vm.spawn(function()
    local mine = assert(require("baton.net").udp "127.0.0.1:0")
    mine:send_to("question", "127.0.0.1:53")
    return (mine:receive_from(10))
  end)
  local question, from = socket:receive_from(10)
  check.equal(question, "question")
  socket:send_to("answer", from)
  check.results("the other", { true, "answer" }, other:join(10))
end

function case.the_end_of_a_vm_loses_its_connections()
  local other = echo()
  local conn = assert(net.connect "127.0.0.1:7")
  conn:write "a\n"
  check.equal(conn:read("line", 5), "a")
  local reading = process.spawn(function() return conn:read("line", 1000) end)
  check.becomes(reading, "waiting")
  local before = process.now()
  other:kill()
  other:join()
  check.results("read", { true, nil, "closed" }, reading:join(10))
  check.within(process.now() - before, 0, 10)
  check.equal(select(2, net.connect "127.0.0.1:7"), "127.0.0.1:7: Connection refused")
  local again = assert(net.listen "127.0.0.1:7")
  check.equal(again:address(), "127.0.0.1:7")
end

-- A VM that computes does not end by itself: it is halted.
function case.a_halted_vm_loses_its_connections()
  local listener = assert(net.listen "127.0.0.1:80")
  local other = vm.spawn({ quiet = true }, function()
    local conn = assert(require("baton.net").connect "127.0.0.1:80")
    local process = require "baton.process"
    process.critical(function() while true do end end)
    conn:close()
  end)
  local conn = assert(listener:accept())
  local reading = process.spawn(function() return conn:read("line", 1000) end)
  check.becomes(reading, "waiting")
  other:kill("enough", 0.1)
  check.results("read", { true, nil, "closed" }, reading:join(20))
end

check.run(case)
