-- A transport in C (tests/modules/net_transport.c) over connections of baton.net.
local check = require "check"
local process = require "baton.process"
local net = require "baton.net"
local transport = require "net_transport"
local case = {}

local function pair()
  local listener <close> = assert(net.listen "127.0.0.1:0")
  local client = assert(net.connect(listener:address()))
  return client, assert(listener:accept(60))
end

local function secured()
  local client, peer = pair()
  local other = process.spawn(transport.install, peer)
  check.equal(transport.install(client), client)
  check.results("peer", { true, peer }, other:join(60))
  check.results("info", { "xor", true, true, 0 }, transport.info(client))
  return client, peer
end

function case.what_is_written_through_a_transport_is_read_through_it()
  local client, peer = secured()
  local parts = {}
  for i = 1, 50 do parts[i] = ("%05d\n"):format(i):rep(40000) end
  local writer = process.spawn(function()
    check.equal(client:write(table.unpack(parts)), true)
    check.equal(client:shutdown(), true)
  end)
  check.becomes(writer, "waiting")
  check.equal(peer:read(), "00001")
  check.equal(peer:read(5), "00001")
  check.equal("00001\n00001" .. peer:read "all", table.concat(parts))
  check.results("writer", { true }, writer:join(60))
  check.equal(peer:write "answer\n", true)
  check.equal(client:read("line", 60), "answer")
  client:close()
  peer:close()
  check.results("closed", { nil, false, false, 2 }, transport.info(client))
end

function case.a_handshake_that_fails_says_why()
  local client, peer = pair()
  peer:write "no greeting"
  check.results("fails", { nil, "the other side does not greet" }, transport.install(client))
  local other, silent = pair()
  local waiting = process.spawn(transport.install, other)
  check.becomes(waiting, "waiting")
  silent:close()
  check.results("gone", { true, nil, "closed" }, waiting:join(60))
end

function case.what_was_buffered_before_is_the_transports_to_read()
  local client, peer = pair()
  client:write "plain\n"
  local other = process.spawn(transport.install, client)
  check.equal(peer:read(), "plain")
  check.equal(transport.install(peer), peer)
  check.results("client", { true, client }, other:join(60))
  client:write "secret\n"
  check.equal(peer:read("line", 60), "secret")
end

function case.a_connection_in_use_takes_no_transport()
  local _, peer = pair()
  local reader = process.spawn(function() return peer:read() end)
  check.becomes(reader, "waiting")
  check.raises("not installed", transport.install, peer)
  reader:kill()
  reader:join()
  peer:close()
  check.raises("not installed", transport.install, peer)
end

function case.reading_past_the_buffer_takes_what_is_buffered_first()
  local client, peer = pair()
  client:write "line\nrest"
  check.equal(peer:read(), "line")
  check.equal(transport.read(peer, 3), "res")
  check.equal(transport.read(peer, 100), "t")
  local reader = process.spawn(function() return transport.read(peer, 100) end)
  check.becomes(reader, "waiting")
  client:write "later"
  check.results("reader", { true, "later" }, reader:join(60))
  client:close()
  check.results("end", { nil, "closed" }, transport.read(peer, 100))
end

check.run(case)
