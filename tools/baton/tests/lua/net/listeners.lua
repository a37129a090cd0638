-- Listeners of baton.net, addresses, races of addresses, limits, datagrams.
local check = require "check"
local process = require "baton.process"
local net = require "baton.net"
local case = {}

local function waits(p) check.becomes(p, "waiting") end

local function talk(listener, address)
  local client = assert(net.connect(address or listener:address(), { timeout = 60 }))
  local peer = assert(listener:accept(60))
  client:write "hello\n"
  check.equal(peer:read("line", 60), "hello")
  return client, peer
end

function case.a_port_of_0_becomes_a_free_one()
  local listener <close> = assert(net.listen "127.0.0.1:0")
  check.matches(listener:address(), "^127%.0%.0%.1:%d+$")
  local client, peer = talk(listener)
  check.equal(client:peer(), listener:address())
  check.equal(peer:address(), listener:address())
  check.equal(peer:peer(), client:address())
end

function case.addresses_of_ipv6_have_brackets()
  local listener, why = net.listen "[::1]:0"
  if not listener then return check.matches(why, "^%[::1%]:0: ") end -- none on this machine
  check.matches(listener:address(), "^%[::1%]:%d+$")
  local client, peer = talk(listener)
  check.equal(client:peer(), listener:address())
  check.matches(peer:peer(), "^%[::1%]:%d+$")
end

function case.an_empty_host_is_any_address()
  local listener <close> = assert(net.listen ":0")
  local port = listener:address():match ":(%d+)$"
  local _, peer = talk(listener, "127.0.0.1:" .. port)
  check.matches(peer:peer(), "^127%.0%.0%.1:%d+$")
  talk(listener, ":" .. port)
  talk(listener, "localhost:" .. port)
end

function case.unix_sockets_have_a_path_that_goes_with_the_listener()
  local path = check.scratch "socket"
  local listener = assert(net.listen("unix:" .. path))
  check.equal(listener:address(), "unix:" .. path)
  local client, peer = talk(listener)
  check.equal(client:peer(), "unix:" .. path)
  check.equal(peer:peer(), "unix:")
  local second, why, number = net.listen("unix:" .. path)
  check.equal(second, nil)
  check.matches(why, "^unix:.*: Address already in use$")
  check.that(math.type(number) == "integer")
  listener:close()
  check.equal(io.open(path), nil)
end

function case.a_path_that_a_dead_listener_has_left_is_taken()
  local path = check.scratch "socket"
  local program = check.scratch "program"
  check.write_file(program, ([[
    local net = require "baton.net"
    l = assert(net.listen("unix:%s"))
    os.exit(0) -- without closing anything
  ]]):format(path))
  assert(os.execute(("'%s' '%s'"):format(check.interpreter(), program)))
  check.matches(select(2, net.connect("unix:" .. path)), "Connection refused$")
  local listener <close> = assert(net.listen("unix:" .. path))
  talk(listener)
end

function case.a_file_that_is_no_socket_is_left_alone()
  local path = check.scratch "file"
  check.write_file(path, "precious")
  check.equal((net.listen("unix:" .. path)), nil)
  check.equal(check.read_file(path), "precious")
end

function case.a_connection_that_is_refused_says_so()
  local listener = assert(net.listen "127.0.0.1:0")
  local address = listener:address()
  listener:close()
  local conn, why, number = net.connect(address)
  check.equal(conn, nil)
  check.equal(why, address .. ": Connection refused")
  check.that(math.type(number) == "integer")
  check.matches(select(2, net.connect "no-such-host.invalid:1"), "^no%-such%-host%.invalid:1: ")
end

function case.accept_waits_times_out_and_ends_with_its_listener()
  local listener = assert(net.listen "127.0.0.1:0")
  check.results("at once", { nil, "timeout" }, listener:accept(0))
  check.results("soon", { nil, "timeout" }, listener:accept(0.01))
  local several = {}
  for i = 1, 3 do
    several[i] = process.spawn(function() return listener:accept() end)
    waits(several[i])
  end
  listener:close()
  for i = 1, 3 do check.results("accept", { true, nil, "closed" }, several[i]:join()) end
  check.results("closed", { nil, "closed" }, listener:accept())
  check.results("address", { nil, "closed" }, listener:address())
end

function case.several_processes_accept_from_one_listener()
  local listener <close> = assert(net.listen "127.0.0.1:0")
  local got = process.channel(20)
  local acceptors = check.spawn_all(4, function()
    for _ = 1, 5 do got:send(assert(listener:accept(60))) end
  end)
  local clients = {}
  for i = 1, 20 do clients[i] = assert(net.connect(listener:address())) end
  check.join_all(acceptors)
  check.equal(#got, 20)
end

function case.a_limit_holds_further_connections_back()
  local listener <close> = assert(net.listen("127.0.0.1:0", { limit = 2 }))
  local clients, peers = {}, {}
  for i = 1, 4 do clients[i] = assert(net.connect(listener:address())) end
  for i = 1, 2 do peers[i] = assert(listener:accept(60)) end
  check.results("full", { nil, "timeout" }, listener:accept(0))
  check.results("full", { nil, "timeout" }, listener:accept(0.01))
  local third = process.spawn(function() return listener:accept() end)
  waits(third)
  peers[1]:close()
  local ok, conn = third:join(60)
  check.that(ok and conn, "a place became free")
  local fourth = process.spawn(function() return listener:accept() end)
  waits(fourth)
  fourth:kill()
  fourth:join()
  peers[2], peers[1], conn = nil, nil, nil
  third = nil
  collectgarbage()
  collectgarbage()
  check.that(listener:accept(60), "a collected connection gives its place back")
end

function case.closing_a_listener_ends_the_wait_for_a_place()
  local listener = assert(net.listen("127.0.0.1:0", { limit = 1 }))
  local client = assert(net.connect(listener:address()))
  local peer = assert(listener:accept(60))
  local waiting = process.spawn(function() return listener:accept() end)
  waits(waiting)
  listener:close()
  check.results("accept", { true, nil, "closed" }, waiting:join(60))
  peer:close() -- the place's record outlives the listener
  client:close()
end

function case.two_listeners_of_one_socket_accept_its_connections()
  local first = assert(net.listen "127.0.0.1:0")
  local second = assert(net.listen(first, { limit = 5 }))
  check.equal(second:address(), first:address())
  local a = assert(net.connect(first:address()))
  check.that(second:accept(1))
  first:close()
  local b = assert(net.connect(second:address()))
  check.that(second:accept(1))
  second:close()
  local c, why = net.connect(second:address() or "127.0.0.1:1", { timeout = 1 })
  check.equal(c, nil)
  check.that(why)
  a:close()
  b:close()
  local none, closed = net.listen(first)
  check.equal(none, nil)
  check.matches(closed, "descriptor")
end

function case.a_passed_descriptor_is_taken_over()
  local ffi = require "baton.ffi"
  ffi.cdef [[int socket(int, int, int); int listen(int, int);
    int bind(int, const void *, unsigned);]]
  local descriptor = ffi.C.socket(2, 1, 0)
  check.raises("descriptor of a stream that listens expected", net.listen, descriptor)
  check.equal(ffi.C.listen(descriptor, 5), 0)
  local listener <close> = assert(net.listen { fd = descriptor, name = "web" })
  local port = listener:address():match ":(%d+)$"
  talk(listener, "127.0.0.1:" .. port)
  check.raises("descriptor of a stream that listens expected", net.listen, 999)
end

function case.two_listeners_share_a_port_if_both_ask_for_it()
  local first <close> = assert(net.listen("127.0.0.1:0", { reuseport = true }))
  local second <close> = assert(net.listen(first:address(), { reuseport = true }))
  check.equal(first:address(), second:address())
  check.equal((net.listen(first:address())), nil)
end

function case.a_connection_waits_for_a_full_backlog_of_a_unix_socket()
  local path = "unix:" .. check.scratch "socket"
  local listener <close> = assert(net.listen(path, { backlog = 1 }))
  local clients = check.spawn_all(6, function() assert(net.connect(path, { timeout = 60 })) end)
  for _ = 1, 6 do assert(listener:accept(60)) end
  check.join_all(clients)
  local held = {}
  repeat
    local conn, why = net.connect(path, { timeout = 0.02 })
    held[#held + 1] = conn
    check.that(#held < 100)
  until not conn
  check.equal(select(2, net.connect(path, { timeout = 0 })), "timeout")
end

function case.datagrams_are_sent_and_received()
  local one <close> = assert(net.udp "127.0.0.1:0")
  local two <close> = assert(net.udp "127.0.0.1:0")
  check.equal(one:send_to("hello", two:address()), true)
  check.results("received", { "hello", one:address() }, two:receive_from(60))
  check.equal(one:send_to("", two:address()), true)
  check.results("empty", { "", one:address() }, two:receive_from(60))
  check.results("at once", { nil, "timeout" }, two:receive_from(0))
  check.results("soon", { nil, "timeout" }, two:receive_from(0.01))
  local receiver = process.spawn(function() return two:receive_from() end)
  waits(receiver)
  local large = ("x"):rep(60000)
  check.equal(one:send_to(large, "localhost:" .. two:address():match ":(%d+)$"), true)
  check.results("large", { true, large, one:address() }, receiver:join(60))
  check.equal((one:send_to(("x"):rep(70000), two:address())), nil)
  receiver = process.spawn(function() return two:receive_from() end)
  waits(receiver)
  two:close()
  check.results("closed", { true, nil, "closed" }, receiver:join())
  check.equal((one:send_to("x", "[::1]:9")), nil)
end

check.run(case)
