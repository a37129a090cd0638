-- UDP by plain LuaSocket: sockets of many processes at once, timeouts, kills.
local check = require "check"
local process = require "baton.process"
local socket = require "socket"
local case = {}

local function open()
  local own = assert(socket.udp())
  assert(own:setsockname("127.0.0.1", 0))
  return own, tonumber((select(2, own:getsockname())))
end

-- A ring: each process sends to the next one, and waits for the previous one. The socket buffers
-- have room for all datagrams that can be under way.
function case.a_hundred_processes_exchange_datagrams_at_once()
  local COUNT, ROUNDS = 100, 20
  local ports, all_are_open = {}, process.barrier(COUNT)
  local most = 0
  local all = check.spawn_all(COUNT, function(i)
    local own, own_port = open()
    ports[i] = own_port
    all_are_open:wait()
    local next_one, one_before = ports[i % COUNT + 1], ports[(i - 2) % COUNT + 1]
    for round = 1, ROUNDS do
      check.equal(own:sendto(i .. " " .. round, "127.0.0.1", next_one), #(i .. " " .. round))
      local text, address, port = own:receivefrom()
      check.equal(text, (i - 2) % COUNT + 1 .. " " .. round)
      check.equal(address, "127.0.0.1")
      check.equal(port, one_before)
      most = math.max(most, process.threads())
    end
    own:close()
  end)
  check.join_all(all)
  check.within(most, 1, process.features().poller == "polling" and 64 or 16, "threads")
  check.that(process.stats().descriptor_waits > 0)
end

function case.a_timeout_ends_the_wait_of_its_process_only()
  local own, port = open()
  local other, other_port = open()
  local reader = process.spawn(function() return (other:receivefrom()) end)
  check.becomes(reader, "waiting")
  own:settimeout(0.05)
  local before = process.now()
  check.results("receivefrom", { n = 2, nil, "timeout" }, own:receivefrom())
  check.within(process.now() - before, 0.048, 30) -- LuaSocket counts whole milliseconds
  check.equal(reader:status(), "waiting")
  own:sendto("to itself", "127.0.0.1", port)
  own:settimeout(nil)
  check.equal((own:receivefrom()), "to itself")
  own:sendto("to the other", "127.0.0.1", other_port)
  check.results("reader", { true, "to the other" }, reader:join())
end

function case.a_process_that_waits_for_a_datagram_can_be_killed()
  local sender = open()
  local sockets, ports, readers = {}, {}, {}
  for i = 1, 20 do
    sockets[i], ports[i] = open()
    readers[i] = process.spawn(function() return (sockets[i]:receivefrom()) end)
  end
  for i = 1, 20 do check.becomes(readers[i], "waiting") end
  for i = 1, 20, 2 do check.equal(readers[i]:kill(), true) end
  for i = 1, 20, 2 do check.results("victim", { false, "killed" }, readers[i]:join()) end
  for i = 1, 20 do sender:sendto("datagram " .. i, "127.0.0.1", ports[i]) end
  for i = 2, 20, 2 do check.results("reader", { true, "datagram " .. i }, readers[i]:join()) end
  -- works as before
  for i = 1, 20, 2 do check.equal((sockets[i]:receivefrom()), "datagram " .. i) end
end

function case.a_killed_process_may_close_the_socket_it_waited_for()
  local own = open()
  local victim = process.spawn(function()
    local _ <close> = check.closing(function() own:close() end)
    own:receivefrom()
  end)
  check.becomes(victim, "waiting")
  victim:kill()
  check.results("victim", { false, "killed" }, victim:join())
  check.equal(own:getfd(), -1)
  -- The next socket gets the same descriptor number, but no process waits for it.
  local next_one, port = open()
  next_one:sendto("x", "127.0.0.1", port)
  check.equal((next_one:receivefrom()), "x")
end

check.run(case)
