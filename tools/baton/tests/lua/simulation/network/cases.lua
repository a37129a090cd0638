-- The network of a simulated run.
local check = require "check"
local process = require "baton.process"
local net = require "baton.net"
local case = {}

local function pair(address)
  local listener <close> = assert(net.listen(address or "127.0.0.1:0"))
  local client = assert(net.connect(listener:address()))
  return client, assert(listener:accept())
end

function case.connections_have_addresses_and_ends()
  check.equal(net.simulated {}, true)
  local listener = assert(net.listen ":8080")
  check.equal(listener:address(), "[::]:8080")
  check.equal(select(2, net.listen "127.0.0.1:8080"), "127.0.0.1:8080: Address already in use")
  local client = assert(net.connect "localhost:8080")
  local peer = assert(listener:accept())
  check.equal(client:peer(), "127.0.0.1:8080")
  check.equal(client:address(), peer:peer())
  client:write("a line\n", "and more")
  client:shutdown()
  check.equal(peer:read(), "a line")
  check.equal(peer:read "all", "and more")
  peer:write "answer"
  peer:close()
  check.equal(client:read "all", "answer")
  check.results("closed", { nil, "closed", 0 }, client:write "x")
  listener:close()
  check.equal(select(2, net.connect "localhost:8080"), "localhost:8080: Connection refused")
  check.equal(select(2, net.connect "unix:/nowhere"), "unix:/nowhere: No such file or directory")
  client, peer = pair "unix:/run/shop"
  check.equal(client:peer(), "unix:/run/shop")
  check.equal(peer:peer(), "unix:")
  client, peer = pair "shop.example:80"
  check.equal(client:peer(), "shop.example:80")
  check.results("own limits", { nil, "timeout" }, peer:read("line", 3))
end

function case.delays_and_slow_peers_take_virtual_time()
  net.simulated { delay = 2 }
  local slowest = 0
  local client, peer = pair()
  for _ = 1, 50 do
    local before = process.now()
    client:write "x"
    peer:read(1)
    slowest = math.max(slowest, process.now() - before)
  end
  check.within(slowest, 1, 2.1)
  net.simulated { rate = 1000 }
  local before = process.now()
  local writer = process.spawn(function() client:write(("x"):rep(100000)) end)
  check.equal(#peer:read(100000), 100000)
  check.within(process.now() - before, 100, 101)
  check.results("writer", { true }, writer:join())
end

function case.a_writer_waits_for_a_reader_that_does_not_read()
  local client, peer = pair()
  client:timeout(10)
  local done, why, written = client:write(("x"):rep(1 << 20))
  check.equal(done, nil)
  check.equal(why, "timeout")
  check.within(written, 1, 65536)
  check.equal(#peer:read(written), written)
end

function case.small_pieces_arrive_one_by_one()
  net.simulated { piece = 3 }
  local client, peer = pair()
  client:write "0123456789\n"
  local pieces = {}
  repeat pieces[#pieces + 1] = peer:read "some" until table.concat(pieces):find "\n"
  check.equal(table.concat(pieces), "0123456789\n")
  check.within(#pieces, 4, 11)
  client:write "0123456789\n"
  check.equal(peer:read "line", "0123456789")
end

function case.lost_connections_are_lost_at_both_ends()
  net.simulated { loss = 1 }
  local client, peer = pair()
  check.results("write", { nil, "closed", 0 }, client:write "x")
  check.results("read", { nil, "closed" }, peer:read())
  check.results("read", { nil, "closed" }, client:read())
  net.simulated { loss = 0.5 }
  local lost = 0
  for _ = 1, 40 do
    client = pair()
    if not client:write "x" then lost = lost + 1 end
  end
  check.within(lost, 5, 35)
end

function case.limits_backlogs_closes_and_kills_end_waits()
  local listener = assert(net.listen("127.0.0.1:80", { limit = 1, backlog = 1 }))
  local first = assert(net.connect "127.0.0.1:80")
  local peer = assert(listener:accept())
  check.results("limit", { nil, "timeout" }, listener:accept(1))
  local second = process.spawn(function() return listener:accept() end)
  check.becomes(second, "waiting")
  peer:close()
  for _ = 1, 2 do first = assert(net.connect "127.0.0.1:80") end
  check.that((second:join()))
  local held = {}
  repeat
    local more = net.connect("127.0.0.1:80", { timeout = 1 })
    held[#held + 1] = more
  until not more
  check.within(#held, 0, 2)
  local reader = process.spawn(function() return first:read() end)
  check.becomes(reader, "waiting")
  first:close()
  check.results("closed", { true, nil, "closed" }, reader:join())
  local waiting = process.spawn(function() return listener:accept() end)
  check.becomes(waiting, "waiting")
  waiting:kill()
  check.equal(waiting:join(), false)
  waiting = process.spawn(function() return listener:accept() end)
  check.becomes(waiting, "waiting")
  listener:close()
  check.results("closed", { true, nil, "closed" }, waiting:join())
end

function case.a_killed_process_connects_no_longer()
  net.simulated { delay = 10 }
  local listener = assert(net.listen "127.0.0.1:80")
  local connecting = process.spawn(function() return net.connect "127.0.0.1:80" end)
  check.becomes(connecting, "waiting")
  connecting:kill()
  check.equal(connecting:join(), false)
  local conn = assert(listener:accept(10.1))
  check.results("read", { nil, "closed" }, conn:read("line", 10.1))
end

function case.what_a_simulated_run_has_not_is_refused()
  check.raises("a simulated run has no datagrams", net.udp, "127.0.0.1:0")
  local _, peer = pair()
  local vm = require "baton.vm"
  check.raises("each VM of a simulated run has a network of its own", vm.move, peer)
  check.raises("option 'loss': number from 0 to 1.0 expected, got 2.0", net.simulated, { loss = 2 })
  check.raises("unknown option 'luck'", net.simulated, { luck = 1 })
  check.raises("table expected, got no value", net.simulated)
end

check.run(case)
