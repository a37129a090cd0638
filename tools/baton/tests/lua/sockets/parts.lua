-- Results of LuaSocket's methods when a process waits in them. Partial results, timeouts, errors
-- and identities equal LuaSocket's own.
local check = require "check"
local process = require "baton.process"
local socket = require "socket"
local case = {}

local function pair()
  local server = assert(socket.bind("127.0.0.1", 0))
  local client = assert(socket.connect("127.0.0.1", (select(2, server:getsockname()))))
  local peer = assert(server:accept())
  server:close()
  return client, peer
end

-- Sends the pieces one after the other. Each is sent when the reader has taken the earlier ones and
-- waits again.
local function send_in_pieces(reader, peer, pieces)
  for _, piece in ipairs(pieces) do
    check.becomes(reader, "waiting")
    process.sleep(0.001)
    peer:send(piece)
    process.sleep(0.001)
  end
end

local function received_from(pieces, ends, ...)
  local client, peer = pair()
  local arguments = table.pack(...)
  local reader = process.spawn(
    function() return client:receive(table.unpack(arguments, 1, arguments.n)) end
  )
  send_in_pieces(reader, peer, pieces)
  if ends then peer:close() end
  return reader:join()
end

function case.a_line_comes_in_pieces()
  check.results(
    "line",
    { n = 4, true, "one two three" },
    received_from({ "one ", "two ", "three\r\n" }, false)
  )
  check.results(
    "line with a prefix",
    { n = 4, true, "zero one" },
    received_from({ "o", "n", "e\n" }, false, "*l", "zero ")
  )
end

function case.a_number_of_bytes_comes_in_pieces()
  check.results("bytes", { n = 4, true, "abcdef" }, received_from({ "ab", "cd", "efgh" }, false, 6))
  check.results(
    "a prefix counts",
    { n = 4, true, "xyabcd" },
    received_from({ "ab", "cd" }, false, 6, "xy")
  )
  check.results(
    "text is a number",
    { n = 4, true, "abcd" },
    received_from({ "ab", "cd" }, false, "4")
  )
end

function case.all_until_the_end_comes_in_pieces()
  check.results("all", { n = 4, true, "abcdef" }, received_from({ "ab", "cd", "ef" }, true, "*a"))
  check.results(
    "nothing but a prefix",
    { n = 4, true, nil, "closed", "xy" },
    received_from({}, true, "*a", "xy")
  )
  check.results(
    "a prefix and more",
    { n = 4, true, "xyab" },
    received_from({ "ab" }, true, "*a", "xy")
  )
end

function case.the_end_comes_before_all_has()
  check.results(
    "line",
    { n = 4, true, nil, "closed", "one two" },
    received_from({ "one ", "two" }, true)
  )
  check.results(
    "bytes",
    { n = 4, true, nil, "closed", "abcd" },
    received_from({ "ab", "cd" }, true, 6)
  )
end

function case.many_pieces_become_one_text()
  local client, peer = pair()
  local text = {}
  for i = 1, 3000 do text[i] = ("%d,"):format(i) end
  local reader = process.spawn(function() return (client:receive(#table.concat(text))) end)
  for i = 1, #text do
    peer:send(text[i])
    process.yield()
  end
  check.results("text", { true, table.concat(text) }, reader:join())
end

function case.a_part_is_answered_when_the_time_is_over()
  local client, peer = pair()
  check.equal(client:settimeout(0.05), 1)
  peer:send "par"
  local reader = process.spawn(function() return client:receive("*l", "a ") end)
  check.becomes(reader, "waiting")
  peer:send "t"
  check.results("part", { n = 4, true, nil, "timeout", "a part" }, reader:join())
  peer:send "ial\n"
  check.results("rest", { n = 3, "partial" }, client:receive("*l", "part"))
end

function case.timeouts_are_those_that_were_set()
  local client, peer = pair()
  check.results("new", { n = 2, -1.0, -1.0 }, client:gettimeout())
  client:settimeout(0.5)
  client:settimeout(2, "t")
  check.results("set", { n = 2, 0.5, 2.0 }, client:gettimeout())
  client:settimeout(nil)
  client:settimeout(3, "r")
  check.results("again", { n = 2, -1.0, 3.0 }, client:gettimeout())
  check.raises("invalid timeout mode", client.settimeout, client, 1, "x")
  check.raises("number expected", client.settimeout, client, {})
  client:settimeout(0.03, "t")
  local before = process.now()
  check.equal(select(2, client:receive()), "timeout")
  check.within(process.now() - before, 0.029, 30)
  client:settimeout(0)
  client:settimeout(nil, "t")
  before = process.stats().descriptor_waits
  check.results("at once", { n = 3, nil, "timeout", "" }, client:receive())
  check.equal(process.stats().descriptor_waits, before)
  peer:close() -- until here, no collection may close it
end

-- After a read has taken all data, the next one waits in the poller before it reads again.
function case.data_that_arrives_after_a_timeout_is_received()
  local client, peer = pair()
  for round = 1, 50 do
    client:settimeout(0.002)
    check.equal(select(2, client:receive()), "timeout")
    client:settimeout(nil)
    if round % 3 == 0 then peer:send(round .. "\n") end
    local reader = process.spawn(function() return (client:receive()) end)
    if round % 3 == 1 then check.becomes(reader, "waiting") end
    if round % 3 ~= 0 then peer:send(round .. "\n") end
    check.results("line", { true, tostring(round) }, reader:join(20))
  end
end

function case.data_that_another_process_leaves_after_a_timeout_is_received()
  local client, peer = pair()
  client:settimeout(0.002)
  check.equal(select(2, client:receive()), "timeout")
  client:settimeout(nil)
  -- Both lines arrive together. The first receive leaves the second one in LuaSocket's buffer.
  peer:send "one\ntwo\n"
  check.results(
    "first",
    { true, "one" },
    process.spawn(function() return (client:receive()) end):join(20)
  )
  check.equal(client:dirty(), true)
  check.results(
    "second",
    { true, "two" },
    process.spawn(function() return (client:receive()) end):join(20)
  )
  check.equal(client:dirty(), false)
end

function case.send_returns_how_many_bytes_were_sent()
  local client, peer = pair()
  local text = ("x"):rep(20000000)
  client:settimeout(0.05)
  local sent, why, last = client:send(text)
  check.equal(sent, nil)
  check.equal(why, "timeout")
  check.within(last, 1, #text - 1)
  local reader = process.spawn(function() return #peer:receive "*a" end)
  client:settimeout(nil)
  check.equal(client:send(text, last + 1), #text)
  check.equal(client:send("abcdef", 2, -2), 5)
  client:close()
  check.results("reader", { true, #text + 4 }, reader:join())
end

function case.methods_refuse_what_luasockets_refuse()
  local client = pair()
  check.raises("string expected, got table", client.send, client, {})
  check.raises("invalid receive pattern", client.receive, client, "*x")
  check.raises("expected", client.receive, io.stdout)
  check.raises("tcp{client} expected", client.receive)
  local server = assert(socket.bind("127.0.0.1", 0))
  check.raises("tcp{client} expected", server.receive, server)
  check.raises("tcp{server} expected", client.accept, client)
  check.equal(server.receive, client.receive)
  check.equal(tostring(client):match "^tcp{client}: ", "tcp{client}: ")
end

function case.accept_times_out_and_takes_those_that_wait_already()
  local server = assert(socket.bind("127.0.0.1", 0, 10))
  local _, port = server:getsockname()
  server:settimeout(0.01)
  check.results("nobody", { n = 2, nil, "timeout" }, server:accept())
  server:settimeout(nil)
  local clients = {}
  for i = 1, 5 do clients[i] = assert(socket.connect("127.0.0.1", port)) end
  for _ = 1, 5 do check.that(server:accept()) end
end

function case.connections_are_refused_and_names_not_known_as_by_luasocket()
  check.results("refused", { n = 2, nil, "connection refused" }, socket.connect("127.0.0.1", 1))
  check.results("by a name", { n = 2, nil, "connection refused" }, socket.connect("localhost", 1))
  check.equal((socket.connect("no.such.name.invalid", 1)), nil)
  local tcp = assert(socket.tcp())
  check.results("by a method", { n = 2, nil, "connection refused" }, tcp:connect("127.0.0.1", 1))
  check.raises("string expected", socket.connect)
  check.raises("string expected", tcp.connect, tcp)
end

function case.a_name_of_several_families_connects_to_the_one_that_answers()
  local server = assert(socket.bind("127.0.0.1", 0))
  local _, port = server:getsockname()
  local client = assert(socket.tcp())
  check.equal(client:connect("localhost", port), 1)
  local peer = assert(server:accept())
  client:send "by its name\n"
  check.equal(peer:receive(), "by its name")
  check.equal(client:getpeername(), "127.0.0.1")
  check.matches(tostring(client), "^tcp{client}")
  local bound = assert(socket.connect("localhost", port, "127.0.0.1", 0))
  check.equal(bound:getsockname(), "127.0.0.1")
  check.that(server:accept())
end

function case.a_socket_may_take_a_descriptor_over()
  local one, its_peer = pair()
  local other = pair()
  local descriptor = other:getfd()
  other:setfd(one:getfd())
  one:setfd(descriptor)
  local reader = process.spawn(function() return (other:receive()) end)
  check.becomes(reader, "waiting")
  its_peer:send "taken over\n"
  check.results("reader", { true, "taken over" }, reader:join(20))
end

function case.select_waits_for_many()
  local clients, peers = {}, {}
  for i = 1, 20 do clients[i], peers[i] = pair() end
  for i = 1, 20 do
    local selecting = process.spawn(function() return socket.select(clients, nil, 60) end)
    check.becomes(selecting, "waiting")
    peers[i]:send "x"
    local _, readable, writable, why = selecting:join(20)
    check.equal(#readable, 1)
    check.equal(readable[1], clients[i])
    check.equal(readable[clients[i]], 1)
    check.equal(#writable, 0)
    check.equal(why, nil)
    clients[i]:receive(1)
  end
  local _, writable = socket.select(nil, { clients[1] }, 60)
  check.equal(writable[1], clients[1])
  check.equal(select(3, socket.select(clients, nil, 0.01)), "timeout")
  check.raises("table", socket.select, 1)
end

function case.half_closing_ends_the_wait_of_the_other_end()
  local client, peer = pair()
  local reader = process.spawn(function() return client:receive() end)
  check.becomes(reader, "waiting")
  check.equal(peer:shutdown "send", 1)
  check.results("reader", { n = 4, true, nil, "closed", "" }, reader:join(20))
  local sender = process.spawn(function() return client:send "still open\n" end)
  check.equal(select(2, sender:join()), 11)
  check.equal(peer:receive(), "still open")
end

function case.a_killed_reader_gives_its_turn_to_the_next()
  local client, peer = pair()
  local first = process.spawn(function() return (client:receive()) end)
  check.becomes(first, "waiting")
  local second = process.spawn(function() return (client:receive()) end)
  check.becomes(second, "waiting")
  first:kill()
  check.results("first", { false, "killed" }, first:join())
  peer:send "for the second\n"
  check.results("second", { true, "for the second" }, second:join(20))
end

-- Values that debug.setuservalue puts into a socket are not mistaken for the runtime's own.
function case.foreign_user_values_do_no_harm()
  local client, peer = pair()
  client:settimeout(60)
  for _, value in ipairs { 1, "x", {}, io.stdout } do
    debug.setuservalue(client, value, 1)
    peer:send "still there\n"
    check.equal(client:receive(), "still there")
  end
end

check.run(case)
