-- Connections of baton.net: reads, lines, bounds, writes, timeouts, kills, closes.
local check = require "check"
local process = require "baton.process"
local net = require "baton.net"
local case = {}

local function pair(options)
  local listener <close> = assert(net.listen("127.0.0.1:0", options))
  local client = assert(net.connect(listener:address(), options))
  return client, assert(listener:accept(20))
end

local function waits(p) check.becomes(p, "waiting") end

-- Two processes, the second of which has written so much that it waits.
local function full_pipe()
  local client, peer = pair()
  local data = ("x"):rep(1 << 20)
  local writer = process.spawn(function()
    while true do
      local done, why = peer:write(data)
      if not done then return why end
    end
  end)
  waits(writer)
  return client, peer, writer
end

function case.lines_numbers_and_the_rest_are_read()
  local client, peer = pair()
  client:write("first\r\n", "second\n", "12345", "and ", "the ", "rest\n")
  client:shutdown()
  check.equal(peer:read(), "first")
  check.equal(peer:read "line", "second")
  check.equal(peer:read(0), "")
  check.equal(peer:read(5), "12345")
  check.equal(peer:read "all", "and the rest\n")
  check.results("at the end", { nil, "closed" }, peer:read "some")
  check.equal(peer:read "all", "")
end

function case.some_is_what_has_come()
  local client, peer = pair()
  client:write "one"
  check.equal(peer:read "some", "one")
  local reader = process.spawn(function() return peer:read "some" end)
  waits(reader)
  client:write "two"
  check.results("reader", { true, "two" }, reader:join())
end

function case.what_comes_in_pieces_is_one_line()
  local client, peer = pair()
  local reader = process.spawn(function() return peer:read "line", peer:read(4) end)
  for _, piece in ipairs { "a ", "line ", "in pieces", "\r", "\nfo", "ur" } do
    waits(reader)
    client:write(piece)
  end
  check.results("reader", { true, "a line in pieces", "four" }, reader:join())
end

function case.lines_are_iterated_until_the_end()
  local client, peer = pair()
  client:write "1\n2\n3\nunfinished"
  client:close()
  local lines = {}
  for line in peer:lines() do lines[#lines + 1] = line end
  check.list(lines, { "1", "2", "3" })
  check.equal(peer:read "some", "unfinished")
end

function case.the_end_before_the_number_is_told_and_leaves_what_came()
  local client, peer = pair()
  client:write "abc"
  client:close()
  check.results("too few", { nil, "closed" }, peer:read(4))
  check.results("no line", { nil, "closed" }, peer:read "line")
  check.equal(peer:read(3), "abc")
end

function case.long_lines_and_long_rests_are_refused()
  local client, peer = pair { max_line = 10, max_all = 20 }
  client:write "1234567890\r\n12345678901\nx"
  check.equal(peer:read(), "1234567890")
  check.results("line", { nil, "too long" }, peer:read())
  check.equal(peer:read(12), "12345678901\n")
  client:write(("y"):rep(30))
  check.results("all", { nil, "too long" }, peer:read "all")
  local writer = process.spawn(function() return client:write(("z"):rep(100)) end)
  check.results("endless line", { nil, "too long" }, peer:read())
  writer:join()
end

function case.a_timeout_ends_a_read_and_loses_nothing()
  local client, peer = pair()
  client:write "ab"
  check.results("count", { nil, "timeout" }, peer:read(4, 0.01))
  check.results("line", { nil, "timeout" }, peer:read("line", 0))
  check.equal(peer:timeout(0.01), peer)
  check.results("its own", { nil, "timeout" }, peer:read "all")
  peer:timeout(nil)
  client:write "cd"
  check.equal(peer:read(4), "abcd")
  check.raises("NaN", peer.read, peer, 1, 0 / 0)
end

function case.large_writes_wait_for_a_slow_reader_and_arrive_whole()
  local client, peer = pair()
  local parts = {}
  for i = 1, 100 do parts[i] = ("%07d\n"):format(i):rep(20000) end
  local writer = process.spawn(function()
    check.equal(client:write(table.unpack(parts)), true)
    check.equal(client:write(1, " ", 2.5), true)
    client:shutdown()
  end)
  waits(writer)
  local first = peer:read(1 << 20)
  check.equal(first .. peer:read "all", table.concat(parts) .. "1 2.5")
  check.results("writer", { true }, writer:join())
end

function case.a_write_that_times_out_says_how_much_was_written()
  local client, peer = pair()
  peer:timeout(0.01)
  local done, why, written = peer:write(("x"):rep(64 << 20))
  check.equal(done, nil)
  check.equal(why, "timeout")
  check.within(written, 1, 64 << 20)
  peer:close()
  check.equal(#client:read "all", written)
end

function case.a_write_to_a_peer_that_is_gone_says_closed()
  local client, peer = pair()
  client:close()
  check.eventually("the system has noticed", function()
    local done, why = peer:write "x"
    if not done then check.equal(why, "closed") end
    return not done
  end)
end

function case.closing_ends_the_waits_of_other_processes()
  local client, peer, writer = full_pipe()
  local readers = {}
  for i, what in ipairs { "line", "some", "all", 10 } do
    readers[i] = process.spawn(function() return peer:read(what) end)
    waits(readers[i])
  end
  check.equal(peer:close(), true)
  check.equal(peer:close(), true)
  for _, reader in ipairs(readers) do
    check.results("reader", { true, nil, "closed" }, reader:join())
  end
  check.results("writer", { true, "closed" }, writer:join())
  check.results("read", { nil, "closed" }, peer:read())
  check.results("write", { nil, "closed", 0 }, peer:write "x")
  check.results("peer", { nil, "closed" }, peer:peer())
  check.results("shutdown", { nil, "closed" }, peer:shutdown())
  client:close()
end

function case.a_process_can_be_killed_in_each_wait()
  local client, peer, writer = full_pipe()
  local listener <close> = assert(net.listen "127.0.0.1:0")
  local waiting = { writer }
  for _, wait in ipairs {
    function() return peer:read() end,
    function() return peer:read "all" end,
    function() return peer:read(100) end,
    function() return listener:accept() end,
    function() return net.udp("127.0.0.1:0"):receive_from() end,
  } do
    waiting[#waiting + 1] = process.spawn(wait)
    waits(waiting[#waiting])
  end
  for _, p in ipairs(waiting) do
    p:kill "enough"
    check.results("killed", { false, "enough" }, p:join())
  end
  -- what they have waited for works for the next process
  peer:timeout(20)
  local reader = process.spawn(function() return peer:read() end)
  waits(reader)
  client:write "still here\n"
  check.results("the next", { true, "still here" }, reader:join())
  local another = assert(net.connect(listener:address()))
  check.that(listener:accept(20)):close()
  another:close()
  client:close()
end

function case.one_process_reads_while_another_one_writes()
  local client, peer = pair()
  local data = ("0123456789"):rep(100000)
  local function exchange(conn)
    local reader = process.spawn(function() return conn:read(#data) end)
    local writer = process.spawn(function() return conn:write(data) end)
    return reader, writer
  end
  local all = table.pack(exchange(client))
  all[3], all[4] = exchange(peer)
  for i = 1, 4 do check.results("one", { true, i % 2 == 0 or data }, all[i]:join()) end
end

function case.readers_and_writers_of_one_connection_take_turns()
  local client, peer = pair()
  local piece = ("x"):rep(200000)
  local writers = check.spawn_all(5, function(i)
    check.equal(client:write(i, piece, i, "\n"), true)
  end)
  peer:timeout(60)
  local seen = {}
  local readers = check.spawn_all(5, function()
    local first = peer:read(1)
    seen[#seen + 1] = first
  end)
  check.join_all(readers)
  local rest = peer:read(5 * (#piece + 3) - 5)
  check.join_all(writers)
  check.equal(#seen, 5)
  local whole = table.concat(seen) .. rest
  for i = 1, 5 do check.that(whole:find(i .. piece .. i .. "\n", 1, true), "a whole text") end
end

function case.a_killed_reader_gives_its_turn_to_the_next()
  local client, peer = pair()
  local first = process.spawn(function() return peer:read "line" end)
  waits(first)
  local second = process.spawn(function() return peer:read "line" end)
  waits(second)
  first:kill()
  client:write "for the second\n"
  check.results("second", { true, "for the second" }, second:join())
end

function case.a_number_that_is_used_again_is_not_mistaken()
  local client, peer = pair()
  local readers = {}
  for round = 1, 20 do
    local reader = process.spawn(function() return peer:read() end)
    waits(reader)
    peer:close()
    client:close()
    client, peer = pair() -- has the same numbers
    readers[round] = reader
  end
  for _, reader in ipairs(readers) do
    check.results("reader", { true, nil, "closed" }, reader:join())
  end
  client:write "new\n"
  check.equal(peer:read("line", 20), "new")
end

function case.what_comes_between_a_read_and_the_next_wait_is_read()
  local client, peer = pair()
  local server = process.spawn(function()
    local count = 0
    for line in peer:lines() do
      peer:write(line, "\n")
      count = count + 1
    end
    return count
  end)
  for i = 1, 2000 do
    client:write(i, "\n")
    check.equal(client:read("line", 60), tostring(i))
    if i % 7 == 0 then process.yield() end
  end
  client:write "last\n"
  client:shutdown() -- the end comes with the last data
  check.equal(client:read("line", 60), "last")
  check.results("server", { true, 2001 }, server:join(60))
end

function case.idle_connections_are_collected_and_closed()
  local before = check.descriptors()
  do
    local client, peer = pair()
    client:write "x"
    check.equal(peer:read "some", "x")
  end
  local client = pair()
  collectgarbage()
  collectgarbage()
  check.results("the peer was collected", { nil, "closed" }, client:read("line", 60))
  client:close()
  check.eventually("all are closed", function() return check.descriptors() == before end)
end

function case.a_connection_is_closed_at_the_end_of_its_scope()
  local client, peer = pair()
  do
    local _ <close> = peer
  end
  check.results("read", { nil, "closed" }, client:read("line", 60))
  check.matches(tostring(peer), "^baton.net connection %(closed%): ")
end

function case.misuse_is_refused()
  local client, peer = pair()
  check.raises("'line', 'some' or 'all' expected, got 'half'", client.read, client, "half")
  check.raises("got a negative number", client.read, client, -1)
  check.raises("connection expected, got table", client.read, {})
  check.raises("bad argument #3 to", client.write, client, "a", {})
  check.raises("unknown option 'color'", net.connect, "127.0.0.1:1", { color = 1 })
  check.raises("'backlog': number from 1 on expected", net.listen, ":0", { backlog = 0 })
  check.raises("option 'nodelay': boolean expected", net.connect, "127.0.0.1:1", { nodelay = 1 })
  for _, address in ipairs { "", "127.0.0.1", ":x", "::1:80", "a:70000", "unix:", "a\0b:1" } do
    check.raises("address expected, as ", net.listen, address)
  end
  check.raises("cannot wait inside process.critical", process.critical, function() peer:read() end)
end

function case.waits_take_no_thread()
  local listener <close> = assert(net.listen("127.0.0.1:0", { backlog = 500 }))
  process.spawn({ daemon = true }, function()
    while true do
      local conn = listener:accept()
      if not conn then return end
      process.spawn({ daemon = true }, function()
        for line in conn:lines() do conn:write(line, "\n") end
        conn:close()
      end)
    end
  end)
  local address, most = listener:address(), 0
  local all = check.spawn_all(200, function(i)
    local conn <close> = assert(net.connect(address))
    for round = 1, 5 do
      conn:write(i, " ", round, "\n")
      check.equal(conn:read(), i .. " " .. round)
      most = math.max(most, process.threads())
    end
  end)
  check.join_all(all)
  check.within(most, 1, 16, "threads")
end

check.run(case)
