-- vm.move for the objects of baton.net.
local check = require "check"
local process = require "baton.process"
local net = require "baton.net"
local vm = require "baton.vm"
local worker = require "sharing.giving_back"
local case = {}

local function pair(options)
  local listener <close> = assert(net.listen("127.0.0.1:0", options))
  local client = assert(net.connect(listener:address()))
  return client, assert(listener:accept(60))
end

function case.a_connection_goes_there_and_back_with_what_was_read()
  local inbox, outbox, ends = worker(function(peer)
    local line, more = peer:read "line", peer:read "line"
    peer:write "there\n"
    return line .. more
  end)
  local client, peer = pair()
  for _ = 1, 10 do
    client:write "first\nsecond\n"
    check.equal(peer:read(), "first")
    inbox:send(vm.move(peer))
    check.results("moved", { nil, "closed" }, peer:read())
    client:write "here\n"
    check.equal(client:read("line", 60), "there")
    local got
    got, peer = table.unpack(outbox:receive())
    check.equal(got, "secondhere")
    client:write "again\n"
    check.equal(peer:read("line", 60), "again")
  end
  client:close()
  peer:close()
  ends()
end

function case.an_acceptor_sends_connections_to_another_vm()
  local inbox = vm.channel()
  local server = vm.spawn(function(inbox)
    for peer in inbox:values() do
      peer:write(peer:read("line", 60), "\n")
      peer:close()
    end
  end, inbox)
  local listener <close> = assert(net.listen("127.0.0.1:0", { limit = 1 }))
  for i = 1, 20 do
    local client <close> = assert(net.connect(listener:address()))
    local peer = assert(listener:accept(60)) -- the place is given back in the other VM
    inbox:send(vm.move(peer))
    client:write(i, "\n")
    check.equal(client:read("line", 60), tostring(i))
  end
  inbox:close()
  check.results("server", { true }, server:join())
end

function case.a_listener_and_a_socket_for_datagrams_are_moved()
  local ch = vm.channel()
  local path = "unix:" .. check.scratch "socket"
  local listener, datagrams = assert(net.listen(path)), assert(net.udp "127.0.0.1:0")
  local address = datagrams:address()
  ch:send { vm.move(listener), vm.move(datagrams) }
  check.results("moved", { nil, "closed" }, listener:accept())
  listener:close()
  local moved, there = table.unpack(ch:receive())
  check.equal(moved:address(), path)
  check.equal(there:address(), address)
  local client = assert(net.connect(path))
  check.that(moved:accept(60))
  client:close()
  moved:close()
  check.equal(io.open((path:gsub("unix:", ""))), nil)
end

function case.what_was_never_received_comes_back()
  local client, peer = pair()
  client:write "a\nb\n"
  check.equal(peer:read(), "a")
  do
    local ch = vm.channel()
    ch:send(vm.move(peer))
  end
  check.eventually("it is back", function()
    collectgarbage()
    return peer:read("line", 0) == "b"
  end)
  client:write "c\n"
  check.equal(peer:read("line", 60), "c")
end

function case.what_nobody_has_any_more_is_closed()
  local client, peer = pair()
  do
    local ch = vm.channel()
    ch:send(vm.move(peer))
  end
  peer = nil
  process.spawn({ daemon = true }, function()
    while true do
      collectgarbage()
      process.yield()
    end
  end)
  check.results("closed", { nil, "closed" }, client:read("line", 60))
end

function case.what_cannot_be_moved_is_refused()
  local client, peer = pair()
  local reader = process.spawn(function() return peer:read() end)
  check.becomes(reader, "waiting")
  check.raises("cannot move it: a process waits for it", vm.move, peer)
  client:write "x\n"
  reader:join()
  peer:close()
  check.raises("cannot move it: it is closed", vm.move, peer)
  local ch = vm.channel()
  ch:send(vm.move(client))
  check.raises("cannot move it: it was moved", vm.move, client)
end

check.run(case)
