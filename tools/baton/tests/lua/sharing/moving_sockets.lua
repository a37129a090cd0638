-- vm.move for sockets of LuaSocket.
local check = require "check"
local process = require "baton.process"
local socket = require "socket"
local unix = require "socket.unix"
local vm = require "baton.vm"
local worker = require "sharing.giving_back"

local case = {}

local function pair()
  local server = check.that(socket.bind("127.0.0.1", 0))
  local client = check.that(socket.connect("127.0.0.1", (select(2, server:getsockname()))))
  local peer = check.that(server:accept())
  server:close()
  return client, peer
end

-- A VM that has ended closes the descriptors of its poller a moment after it was joined.
local function check_none_is_left(before)
  check.eventually("no descriptor is left", function() return check.descriptors() == before end)
end

function case.a_connection_goes_there_and_back()
  local inbox, outbox, ends = worker(function(peer)
    local line = peer:receive()
    peer:send "there\n"
    return line
  end)
  local client, peer = pair()
  for _ = 1, 10 do
    inbox:send(vm.move(peer))
    client:send "here\n"
    check.equal(client:receive(), "there")
    local got
    got, peer = table.unpack(outbox:receive())
    check.equal(got, "here")
    client:send "again\n"
    check.equal(peer:receive(), "again")
  end
  check.matches(tostring(peer), "^tcp{client}")
  client:close()
  peer:close()
  ends()
end

function case.what_was_read_and_not_received_goes_along()
  local ch = vm.channel()
  for _, size in ipairs { 1, 100, 4096, 8189, 8190 } do
    local client, peer = pair()
    local text = ("x"):rep(size)
    client:send("a\n" .. text)
    check.equal(peer:receive(), "a")
    check.that(peer:dirty())
    ch:send(vm.move(peer))
    local moved = ch:receive()
    check.that(moved:dirty())
    check.equal(moved:receive(size), text)
    check.that(not moved:dirty())
    client:send "more\n"
    check.equal(moved:receive(), "more")
    client:close()
    check.results("closed", { n = 3, nil, "closed", "" }, moved:receive())
    moved:close()
  end
end

function case.a_whole_buffer_that_nobody_has_received_goes_along()
  local client, peer = pair()
  local ch, text = vm.channel(), ("0123456789abcdef"):rep(2048)
  client:send(text)
  client:close()
  check.equal(peer:receive(0), "")
  ch:send(vm.move(peer))
  check.equal(ch:receive():receive "*a", text)
end

function case.timeouts_and_counts_go_along()
  local client, peer = pair()
  local ch = vm.channel()
  client:send "one\n"
  peer:receive()
  peer:send "answer"
  peer:settimeout(0.25)
  peer:settimeout(7, "t")
  ch:send(vm.move(peer))
  local moved = ch:receive()
  check.results("timeouts", { 0.25, 7.0 }, moved:gettimeout())
  local received, sent = moved:getstats()
  check.list({ received, sent }, { 4.0, 6.0 })
  check.results("times out", { n = 3, nil, "timeout", "" }, moved:receive())
  client:close()
  moved:close()
end

function case.a_moved_socket_is_closed()
  local client, peer = pair()
  local ch = vm.channel()
  client:send "one\ntwo\n"
  peer:receive()
  ch:send(vm.move(peer))
  check.results("receive", { n = 3, nil, "closed", "" }, peer:receive())
  check.results("send", { n = 3, nil, "closed", 0.0 }, peer:send "x")
  check.equal(peer:getfd(), -1.0)
  check.equal(peer:getpeername(), nil)
  check.raises("it was moved", vm.move, peer)
  check.that(peer:close())
  check.equal(ch:receive():receive(), "two")
  client:close()
end

function case.a_socket_that_was_never_received_comes_back()
  local client, peer = pair()
  local ch = vm.channel(1)
  client:send "one\ntwo\nthree\n"
  check.equal(peer:receive(), "one")
  ch:send "full"
  check.results("timeout", { n = 2, nil, "timeout" }, ch:send(vm.move(peer), 0))
  check.equal(peer:getpeername(), "127.0.0.1")
  check.equal(peer:receive(), "two")
  ch:receive()
  ch:send(vm.move(peer))
  check.equal(peer:receive(), nil)
  ch = nil
  collectgarbage()
  check.equal(peer:receive(), "three")
  client:close()
  check.results("closed", { n = 3, nil, "closed", "" }, peer:receive())
  peer:close()
end

function case.a_socket_that_nobody_has_any_more_is_closed()
  collectgarbage()
  local before = check.descriptors()
  local ch = vm.channel()
  local clients = {}
  for i = 1, 10 do
    local client, peer = pair()
    clients[i] = client
    ch:send(vm.move(peer))
  end
  collectgarbage()
  collectgarbage()
  check.equal(check.descriptors(), before + 20)
  ch = nil
  collectgarbage()
  for _, client in ipairs(clients) do
    check.results("closed", { n = 3, nil, "closed", "" }, client:receive())
    client:close()
  end
  check.equal(check.descriptors(), before)
end

function case.a_socket_that_a_process_waits_for_is_refused()
  local client, peer = pair()
  local ch = vm.channel()
  local reader = process.spawn(function() return (peer:receive()) end)
  check.becomes(reader, "waiting")
  check.raises("a process waits for it", vm.move, peer)
  client:send "one\n"
  check.results("receive", { true, "one" }, reader:join())
  local mover = vm.move(peer)
  reader = process.spawn(function() return (peer:receive()) end)
  check.becomes(reader, "waiting")
  check.raises("a process waits for it", ch.send, ch, mover)
  reader:kill()
  reader:join()
  ch:send(mover)
  client:send "two\n"
  check.equal(ch:receive():receive(), "two")
  local server = socket.bind("127.0.0.1", 0)
  local acceptor = process.spawn({ quiet = true }, function() server:accept() end)
  check.becomes(acceptor, "waiting")
  check.raises("a process waits for it", vm.move, server)
  acceptor:kill()
  acceptor:join()
  server:close()
  client:close()
end

function case.sockets_are_moved_while_others_wait()
  local inbox, outbox, ends = worker(function(peer) return peer:receive() end)
  local readers, clients = {}, {}
  for i = 1, 20 do
    local client, peer = pair()
    clients[i] = client
    readers[i] = process.spawn(function() return (peer:receive()) end)
  end
  local client, peer = pair()
  for i, reader in ipairs(readers) do
    check.becomes(reader, "waiting")
    inbox:send(vm.move(peer))
    client:send "moved\n"
    clients[i]:send(i .. "\n")
    local line
    line, peer = table.unpack(outbox:receive())
    check.equal(line, "moved")
    check.results("receive", { true, tostring(i) }, reader:join())
    clients[i]:close()
  end
  client:close()
  peer:close()
  ends()
end

function case.a_server_accepts_in_another_vm()
  local inbox, outbox, ends = worker(function(server)
    local client = server:accept()
    client:send "hello\n"
    client:close()
  end)
  local server = socket.bind("127.0.0.1", 0)
  local _, port = server:getsockname()
  inbox:send(vm.move(server))
  local client = check.that(socket.connect("127.0.0.1", port))
  check.equal(client:receive(), "hello")
  client:close()
  server = outbox:receive()[2]
  check.matches(tostring(server), "^tcp{server}")
  client = check.that(socket.connect("127.0.0.1", port))
  check.that(server:accept()):close()
  client:close()
  server:close()
  ends()
end

function case.an_acceptor_sends_two_hundred_connections_to_two_vms()
  collectgarbage()
  local before = check.descriptors()
  local inboxes, vms = {}, {}
  for i = 1, 2 do
    inboxes[i] = vm.channel(4)
    vms[i] = check.that(vm.spawn(function(clients)
      local process = require "baton.process"
      local served = 0
      for client in clients:values() do
        process.spawn(function()
          for line in function() return client:receive() end do
            client:send(line .. " from " .. require("baton.vm").current().name .. "\n")
          end
          client:close()
        end)
        served = served + 1
      end
      return served
    end, inboxes[i]))
  end
  local server = socket.bind("127.0.0.1", 0, 256)
  local _, port = server:getsockname()
  local acceptor = process.spawn(function()
    for i = 1, 200 do
      local client = server:accept()
      check.that(inboxes[i % 2 + 1]:send(vm.move(client)))
    end
    for _, inbox in ipairs(inboxes) do inbox:close() end
  end)
  check.join_all(check.spawn_all(200, function(i)
    local client = check.that(socket.connect("127.0.0.1", port))
    for request = 1, 5 do
      client:send(i .. "." .. request .. "\n")
      check.matches(client:receive(), "^" .. i .. "%." .. request .. " from VM$")
    end
    client:close()
  end))
  check.results("acceptor", { true }, acceptor:join())
  for _, w in ipairs(vms) do check.results("join", { true, 100 }, w:join()) end
  server:close()
  vms, inboxes = nil, nil
  collectgarbage()
  collectgarbage()
  check_none_is_left(before)
end

function case.a_kill_of_the_receiving_vm_closes_what_it_had_and_gives_back_what_it_had_not()
  collectgarbage()
  local before = check.descriptors()
  local inbox, got = vm.channel(4), vm.channel(1)
  local w = vm.spawn({ quiet = true }, function(inbox, got)
    local peer = inbox:receive()
    got:send "got it"
    peer:receive()
  end, inbox, got)
  local client, peer = pair()
  local other_client, other = pair()
  inbox:send(vm.move(peer))
  check.equal(got:receive(), "got it")
  inbox:send(vm.move(other))
  w:kill()
  w:join()
  check.results("closed with its VM", { n = 3, nil, "closed", "" }, client:receive())
  w, inbox, got = nil, nil, nil
  collectgarbage()
  collectgarbage()
  other_client:send "hello\n"
  check.equal(other:receive(), "hello")
  for _, each in ipairs { client, other_client, peer, other } do each:close() end
  collectgarbage()
  check_none_is_left(before)
end

function case.a_killed_sender_loses_nothing()
  local client, peer = pair()
  local ch = vm.channel(1)
  ch:send "full"
  local sender = process.spawn({ quiet = true }, function() ch:send(vm.move(peer)) end)
  check.becomes(sender, "waiting")
  check.equal(peer:receive(), nil)
  sender:kill()
  sender:join()
  client:send "hello\n"
  check.equal(peer:receive(), "hello")
  client:close()
  peer:close()
end

function case.datagrams_arrive_in_another_vm()
  local inbox, outbox, ends = worker(function(receiver)
    receiver:settimeout(5)
    return (receiver:receivefrom())
  end)
  local receiver, sender = socket.udp4(), socket.udp4()
  receiver:setsockname("127.0.0.1", 0)
  local _, port = receiver:getsockname()
  check.that(sender:setpeername("127.0.0.1", port))
  inbox:send(vm.move(receiver))
  sender:send "datagram"
  local text
  text, receiver = table.unpack(outbox:receive())
  check.equal(text, "datagram")
  check.equal(receiver:gettimeout(), 5.0)
  local ch = vm.channel()
  ch:send(vm.move(sender))
  sender = ch:receive()
  check.matches(tostring(sender), "^udp{connected}")
  sender:send "again"
  check.equal(receiver:receive(), "again")
  sender:close()
  receiver:close()
  ends()
end

function case.unix_sockets_are_moved()
  local path = check.scratch "socket"
  os.remove(path)
  local server = unix.stream()
  check.that(server:bind(path))
  check.that(server:listen())
  local inbox, outbox, ends = worker(function(server)
    local peer = server:accept()
    local line = peer:receive()
    peer:close()
    return line
  end)
  inbox:send(vm.move(server))
  local client = unix.stream()
  check.that(client:connect(path))
  local ch = vm.channel()
  ch:send(vm.move(client))
  client = ch:receive()
  check.matches(tostring(client), "^unixstream{client}")
  client:send "line\n"
  local line
  line, server = table.unpack(outbox:receive())
  check.equal(line, "line")
  client:close()
  server:close()
  os.remove(path)
  ends()
end

function case.sockets_of_ipv6_keep_their_family()
  local server = socket.tcp6()
  if not server:bind("::1", 0) then return end -- the machine has no IPv6
  server:listen()
  local ch = vm.channel()
  ch:send(vm.move(server))
  server = ch:receive()
  local address, port, family = server:getsockname()
  check.list({ address, family }, { "::1", "inet6" })
  local client = check.that(socket.connect("::1", port))
  check.that(server:accept()):close()
  client:close()
  server:close()
end

function case.what_cannot_be_moved_is_refused()
  check.raises("it has no descriptor", vm.move, socket.tcp())
  local client, peer = pair()
  client:close()
  check.raises("it has no descriptor", vm.move, client)
  peer:close()
  local has_ssl, ssl = pcall(require, "ssl")
  if not has_ssl then return end
  client, peer = pair()
  local secure = check.that(ssl.wrap(client, { mode = "client", protocol = "any" }))
  check.raises("the state of its encryption stays in its VM", vm.move, secure)
  secure:close()
  peer:close()
end

check.run(case)
