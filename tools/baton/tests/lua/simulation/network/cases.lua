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

function case.datagrams_have_addresses_and_ends()
  net.simulated {}
  local one, other = assert(net.udp "127.0.0.1:0"), assert(net.udp ":53")
  check.equal(other:address(), "[::]:53")
  check.equal(one:address():match "^127.0.0.1:%d+$", one:address())
  check.equal(select(2, net.udp "127.0.0.1:53"), "127.0.0.1:53: Address already in use")
  check.results("sent", { true }, one:send_to("a", "localhost:53"))
  check.results("received", { "a", one:address() }, other:receive_from(1))
  check.results("sent", { true }, other:send_to("", one:address()))
  check.results("an empty one", { "", "127.0.0.1:53" }, one:receive_from(1))
  check.results("no more", { nil, "timeout" }, one:receive_from(3))
  check.results("at once", { nil, "timeout" }, one:receive_from(0))
  check.results("to nobody", { true }, one:send_to("a", "127.0.0.1:54"))
  check.results("too large", { nil, "Message too long" },
    one:send_to(("x"):rep(65508), "localhost:53"))
  check.results("largest", { true }, one:send_to(("x"):rep(65507), "localhost:53"))
  check.equal(#other:receive_from(1), 65507)
  local waiting = process.spawn(function() return one:receive_from() end)
  check.becomes(waiting, "waiting")
  one:close()
  check.results("closed", { true, nil, "closed" }, waiting:join())
  check.results("closed", { nil, "closed" }, one:send_to("a", "localhost:53"))
end

-- The numbers of 500 datagrams, as they have come.
local function datagrams_through(faults)
  net.simulated(faults)
  local from, to = assert(net.udp "127.0.0.1:0"), assert(net.udp "127.0.0.1:0")
  for i = 1, 500 do from:send_to(tostring(i), to:address()) end
  local came = {}
  for number in function() return (to:receive_from(100)) end do
    came[#came + 1] = tonumber(number)
  end
  from:close()
  to:close()
  return came
end

function case.datagrams_overtake_each_other_get_lost_and_come_twice()
  local came = datagrams_through {}
  for i = 1, 500 do check.equal(came[i], i) end
  check.equal(#came, 500)
  came = datagrams_through { delay = 10 }
  check.equal(#came, 500)
  local overtaken, seen = 0, {}
  for i, number in ipairs(came) do
    if i > 1 and number < came[i - 1] then overtaken = overtaken + 1 end
    check.equal(seen[number], nil)
    seen[number] = true
  end
  check.that(overtaken > 50, overtaken)
  check.within(#datagrams_through { drop = 0.2 }, 300, 490)
  check.equal(#datagrams_through { drop = 1 }, 0)
  came = datagrams_through { twice = 0.2 }
  check.within(#came, 510, 700)
end

function case.a_socket_that_is_not_read_keeps_so_many_datagrams()
  net.simulated {}
  local from, to = assert(net.udp "127.0.0.1:0"), assert(net.udp "127.0.0.1:0")
  local function kept(data)
    for _ = 1, 2000 do from:send_to(data, to:address()) end
    local count = 0
    while to:receive_from(0) do count = count + 1 end
    return count
  end
  check.equal(kept "x", 1024)
  check.equal(kept(("x"):rep(10000)), 212992 // 10000)
end

function case.a_reply_of_http_has_the_virtual_date()
  net.simulated {}
  local http = require "baton.http"
  local server <close> = http.serve("127.0.0.1:80", function() return 200, "x" end)
  process.sleep(100000)
  local before = os.time()
  local date = http.get("http://127.0.0.1:80/", { pool = false }).headers.date
  local known = {}
  for second = before, os.time() do known[os.date("!%a, %d %b %Y %H:%M:%S GMT", second)] = true end
  check.that(known[date], date)
end

function case.what_a_simulated_run_has_not_is_refused()
  local _, peer = pair()
  local vm = require "baton.vm"
  check.raises("a connection of a simulated run stays in its VM", vm.move, peer)
  check.raises("option 'loss': number from 0 to 1.0 expected, got 2.0", net.simulated, { loss = 2 })
  check.raises("option 'drop': number from 0 to 1.0", net.simulated, { drop = -1 })
  check.raises("option 'twice': number from 0 to 1.0", net.simulated, { twice = 2 })
  check.raises("unknown option 'luck'", net.simulated, { luck = 1 })
  check.raises("table expected, got no value", net.simulated)
end

check.run(case)
