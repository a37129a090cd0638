-- Plain LuaSocket with one process per connection: a wait uses no native thread.
local check = require "check"
local process = require "baton.process"
local socket = require "socket"
local case = {}

local function listen(backlog)
  local server = assert(socket.bind("127.0.0.1", 0, backlog or 32))
  return server, select(2, server:getsockname())
end

local function pair()
  local server, port = listen()
  local client = assert(socket.connect("127.0.0.1", port))
  local peer = assert(server:accept())
  server:close()
  return client, peer
end

local function waits(p) check.becomes(p, "waiting") end

-- A server as in textbooks.
local function serve(server, talk)
  return process.spawn({ daemon = true }, function()
    while true do
      local client = assert(server:accept())
      process.spawn({ daemon = true }, function()
        talk(client)
        client:close()
      end)
    end
  end)
end

local function echo(client)
  for line in function() return client:receive() end do client:send(line .. "\n") end
end

function case.a_textbook_echo_server_holds_hundreds_of_connections_on_few_threads()
  local server, port = listen(500)
  serve(server, echo)
  local most = 0
  local all = check.spawn_all(300, function(i)
    local client = assert(socket.connect("127.0.0.1", port))
    for round = 1, 5 do
      local line = i .. " " .. round
      client:send(line .. "\n")
      check.equal(client:receive(), line)
      most = math.max(most, process.threads())
    end
    client:close()
  end)
  check.join_all(all)
  -- Without thread clocks, a call is also retaken if the system does not run its thread.
  check.within(most, 1, process.features().poller == "polling" and 64 or 16, "threads")
  check.that(process.stats().descriptor_waits > 1000)
end

function case.waiting_processes_keep_no_thread_and_no_processor()
  local clients, readers = {}, {}
  for i = 1, 50 do
    local client, peer = pair()
    clients[i], readers[i] = client, process.spawn(function() return (peer:receive()) end)
  end
  for i = 1, 50 do waits(readers[i]) end
  check.within(process.threads(), 1, 16, "threads")
  local before = os.clock()
  process.sleep(0.2)
  check.within(os.clock() - before, 0, 0.1, "processor")
  for i = 1, 50 do clients[i]:send(i .. "\n") end
  for i = 1, 50 do check.results("reader", { true, tostring(i) }, readers[i]:join()) end
end

function case.hundreds_of_requests_to_a_slow_server_wait_side_by_side()
  local http = require "socket.http"
  local server, port = listen(500)
  serve(server, function(client)
    while client:receive() ~= "" do end
    process.sleep(0.5)
    client:send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nslow")
  end)
  local before = process.now()
  local all = check.spawn_all(200, function()
    check.equal(http.request("http://127.0.0.1:" .. port .. "/"), "slow")
  end)
  check.join_all(all)
  check.within(process.now() - before, 0.5, 60, "seconds, one after the other it were 100")
end

-- After a kill, the library cannot close the socket; the collector does.
function case.a_request_that_is_killed_or_times_out_gives_its_connection_up()
  local http = require "socket.http"
  local server, port = listen()
  local asked, closed, may_answer = process.semaphore(0), process.semaphore(0), process.event()
  serve(server, function(client)
    local request, line = client:receive()
    if not request then return end
    repeat line = client:receive() until line == "" or line == nil
    asked:signal()
    if request:find "/never" then
      check.equal(select(2, client:receive()), "closed")
      closed:signal()
    else
      may_answer:wait()
      client:send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi")
    end
  end)
  local base = "http://127.0.0.1:" .. port
  local victims = check.spawn_all(10, function() http.request(base .. "/never") end)
  local other = process.spawn(function() return (http.request(base .. "/later")) end)
  for _ = 1, 11 do asked:wait() end
  for i = 1, 10 do waits(victims[i]) end
  for i = 1, 10 do check.equal(victims[i]:kill(), true) end
  for i = 1, 10 do check.results("victim", { false, "killed" }, victims[i]:join()) end
  victims = nil
  check.eventually("the server sees the connections closed", function()
    collectgarbage()
    return closed:count() == 10
  end)
  http.TIMEOUT = 0.05
  check.results("request", { n = 2, nil, "timeout" }, http.request(base .. "/never"))
  http.TIMEOUT = 60
  may_answer:set()
  check.results("other", { true, "hi" }, other:join())
  check.equal(http.request(base .. "/after"), "hi")
end

function case.a_process_that_waits_in_receive_can_be_killed()
  local peers, all = {}, {}
  for i = 1, 100 do
    local client, peer = pair()
    peers[i] = peer
    all[i] = process.spawn(function()
      local held <close> = setmetatable({}, { __close = function() client:close() end })
      client:receive()
    end)
  end
  for i = 1, 100 do waits(all[i]) end
  for i = 1, 100 do check.equal(all[i]:kill(), true) end
  for i = 1, 100 do
    check.results("victim", { false, "killed" }, all[i]:join())
    check.equal(select(2, peers[i]:receive()), "closed")
  end
end

function case.a_timeout_of_a_socket_holds()
  local client, peer = pair()
  client:settimeout(0.03)
  local before = process.now()
  check.equal(select(2, client:receive()), "timeout")
  check.within(process.now() - before, 0.028, 30) -- LuaSocket counts whole milliseconds
  peer:close() -- until here, no collection may close it
end

function case.closing_ends_the_wait_of_another_process()
  local client, peer = pair()
  local reader = process.spawn(function() return client:receive() end)
  waits(reader)
  client:close()
  local joined, line, why = reader:join()
  check.equal(joined, true)
  check.equal(line, nil)
  check.equal(why, "closed")
  -- The next socket gets the same descriptor number, but no process waits for it.
  local other, its_peer = pair()
  its_peer:send("x\n")
  check.equal(other:receive(), "x")
  peer:close()
end

function case.one_process_sends_while_another_one_receives()
  local client, peer = pair()
  local reader = process.spawn(function() return (client:receive()) end)
  waits(reader)
  check.equal(client:send("question\n"), 9)
  check.equal(peer:receive(), "question")
  check.equal(client:getpeername(), "127.0.0.1")
  peer:send("answer\n")
  check.results("reader", { true, "answer" }, reader:join())
end

function case.a_second_reader_waits_for_its_turn()
  local client, peer = pair()
  local readers = check.spawn_all(5, function() return (client:receive()) end)
  for _, reader in ipairs(readers) do waits(reader) end
  for i = 1, 5 do peer:send(("%d\n"):format(i)) end
  local got = {}
  for i, reader in ipairs(readers) do got[i] = select(2, reader:join()) end
  table.sort(got)
  check.list(got, { "1", "2", "3", "4", "5" })
end

function case.several_processes_accept_from_one_socket()
  local server, port = listen()
  local all = check.spawn_all(10, function() return (assert(server:accept()):receive()) end)
  for i = 1, 10 do waits(all[i]) end
  local got = {}
  for i = 0, 9 do assert(socket.connect("127.0.0.1", port)):send(i .. "\n") end
  for i = 1, 10 do got[i] = select(2, all[i]:join()) end
  table.sort(got)
  check.equal(table.concat(got), "0123456789")
end

function case.large_messages_pass_slow_readers()
  local client, peer = pair()
  local text = ("0123456789"):rep(2000000)
  local writer = process.spawn(function() return (client:send(text)) end)
  waits(writer)
  check.equal(peer:receive(#text), text)
  check.results("writer", { true, #text }, writer:join())
end

function case.select_and_sleep_of_luasocket_let_others_run()
  check.without_slices() -- others run only while this one waits
  local client, peer = pair()
  local ticks = 0
  local ticker = process.spawn({ daemon = true }, function()
    while true do
      process.sleep(0.002)
      ticks = ticks + 1
      if ticks == 10 then peer:send("x") end
    end
  end)
  local ready = socket.select({ client }, nil, 60)
  check.equal(ready[1], client)
  check.within(ticks, 10, math.huge)
  local now = process.now()
  socket.sleep(0.05)
  check.within(process.now() - now, 0.05, 30)
  check.equal(#socket.select(nil, nil, 0.01), 0)
  local sleeper, before = process.spawn(socket.sleep, 3600), ticks
  check.becomes(sleeper, "sleeping")
  check.eventually("the ticker goes on", function() return ticks > before + 10 end)
  check.equal(sleeper:status(), "sleeping")
  sleeper:kill()
  sleeper:join()
  ticker:kill()
end

-- LuaSocket's sleep repeats its system call while time is left. A kill ends it all the same.
function case.a_kill_ends_a_sleep_of_the_library()
  local ticks = 0
  local ticker = process.every(0.002, function() ticks = ticks + 1 end)
  local p = process.spawn(socket.sleep, 60)
  check.becomes(p, "sleeping")
  p:kill "enough"
  check.results("join", { false, "enough" }, p:join(20))
  local before = ticks
  check.eventually("the timer goes on", function() return ticks > before end)
  ticker:cancel()
end

function case.a_loop_does_not_starve_a_process_that_waits_for_a_socket()
  local client, peer = pair()
  local done = false
  local reader = process.spawn(function()
    check.equal(client:receive(), "x")
    done = true
  end)
  waits(reader)
  peer:send("x\n")
  while not done do end
  reader:join()
end

-- A regression test: a blocking read held the only thread on which other processes could continue.
function case.running_a_command_does_not_delay_waits_for_sockets()
  local function awaiting(path, code)
    return ("until [ -e '%s' ]; do sleep 0.01; done; exit %d"):format(path, code)
  end
  local client, peer = pair()
  local reader = process.spawn(function() return (client:receive()) end)
  waits(reader)
  local path, other = check.scratch "go", check.scratch "go"
  local slow = process.spawn(os.execute, awaiting(path, 3))
  local victim = process.spawn(os.execute, awaiting(other, 0))
  waits(slow)
  waits(victim)
  peer:send("x\n")
  check.results("reader", { true, "x" }, reader:join())
  waits(slow)
  check.write_file(path, "")
  check.results("slow", { n = 4, true, nil, "exit", 3 }, slow:join())
  local again = process.spawn(function() return (client:receive()) end)
  waits(again)
  victim:kill "enough"
  peer:send("y\n")
  check.results("beside a killed one", { true, "y" }, again:join())
  waits(victim) -- the kill takes effect when the command has ended
  check.write_file(other, "")
  check.results("victim", { false, "enough" }, victim:join())
end

function case.reading_from_a_pipe_does_not_delay_waits_for_sockets()
  local client, peer = pair()
  local reader = process.spawn(function() return (client:receive()) end)
  waits(reader)
  local path, other = check.fifo(), check.fifo()
  local pipe = io.popen("printf '1 2'; cat " .. path)
  local slow = process.spawn(function() return pipe:read("n", "n", "n", "L", "l", "a") end)
  waits(slow)
  peer:send("x\n")
  check.results("reader", { true, "x" }, reader:join())
  -- it waits in the poller, or by itself if no other process waits there
  check.that(slow:status() ~= "dead")
  local again = process.spawn(function() return (client:receive()) end)
  waits(again)
  local rest = ("y"):rep(20000)
  check.write_file(path, "0 3\nline\n" .. rest)
  check.results("slow", { true, 1, 20, 3, "\n", "line", rest }, slow:join())
  check.equal(pipe:close(), true)
  local silent = io.popen("cat " .. other)
  local victim = process.spawn(function() return silent:read() end)
  waits(victim)
  victim:kill()
  check.results("victim", { false, "killed" }, victim:join())
  check.write_file(other, "")
  check.equal(silent:close(), true)
  peer:send("z\n")
  check.results("again", { true, "z" }, again:join())
end

function case.datagrams_are_waited_for()
  local here, there = assert(socket.udp()), assert(socket.udp())
  assert(here:setsockname("127.0.0.1", 0))
  local _, port = here:getsockname()
  local reader = process.spawn(function() return (here:receivefrom()) end)
  waits(reader)
  there:sendto("datagram", "127.0.0.1", port)
  check.results("reader", { true, "datagram" }, reader:join())
end

function case.a_wait_in_a_coroutine_stops_its_process_only()
  local client, peer = pair()
  local reader = process.spawn(coroutine.wrap(function() return (client:receive()) end))
  waits(reader)
  peer:send("x\n")
  check.results("reader", { true, "x" }, reader:join())
end

function case.in_a_critical_section_and_in_finalizers_the_system_waits()
  check.without_slices()
  process.params.warn_blocked = 60
  local client = pair()
  client:settimeout(0.02)
  local other = process.spawn(function() return "ran" end)
  local function critical()
    local _, why = client:receive()
    return why, other:status()
  end
  check.results("critical", { "timeout", "runnable" }, process.critical(critical))
  check.results("other", { true, "ran" }, other:join())
  local why
  setmetatable({}, { __gc = function() why = select(2, client:receive()) end })
  collectgarbage()
  check.equal(why, "timeout")
end

-- Guards against a registration with the poller that is trusted although the number of the
-- descriptor names another file: the wait never ended.
local function after_a_wait(receiver, sender)
  local waiting = process.spawn(function() return (receiver:receive()) end)
  waits(waiting)
  sender:send "before\n"
  check.results("a reader", { true, "before" }, waiting:join())
end

local function given_to_another_file(give)
  local ffi = require "baton.ffi"
  ffi.cdef "int dup(int); int dup2(int, int); int close(int);"
  local receiver, old = pair()
  local other, new = pair()
  after_a_wait(receiver, old)
  local kept = give(ffi.C, other:getfd(), receiver:getfd())
  after_a_wait(receiver, new)
  old:send "to nobody\n"
  after_a_wait(receiver, new)
  receiver:settimeout(0.01)
  check.equal(select(2, receiver:receive()), "timeout")
  if kept then ffi.C.close(kept) end
end

function case.a_number_that_the_program_gives_to_another_file_works_for_it()
  given_to_another_file(function(c, from, to) check.equal(c.dup2(from, to), to) end)
end

function case.a_number_that_c_code_closes_and_opens_works_for_its_next_file()
  given_to_another_file(function(c, from, to)
    c.close(to)
    check.equal(c.dup2(from, to), to)
  end)
end

function case.a_duplicate_of_the_file_that_had_the_number_does_no_harm()
  given_to_another_file(function(c, from, to)
    local kept = c.dup(to)
    check.equal(c.dup2(from, to), to)
    return kept
  end)
end

function case.a_process_that_waits_goes_on_to_wait_when_the_number_becomes_known()
  local receiver, peer = pair()
  local waiting = process.spawn(function() return (receiver:receive()) end)
  waits(waiting)
  check.that(receiver:getfd() >= 0)
  process.yield()
  waits(waiting)
  peer:send "line\n"
  check.results("a reader", { true, "line" }, waiting:join())
end

function case.a_number_that_is_known_stays_so_in_another_vm()
  local vm = require "baton.vm"
  local ffi = require "baton.ffi"
  ffi.cdef "int dup2(int, int);"
  local receiver, old = pair()
  local other, new = pair()
  local number, inbox, lines = receiver:getfd(), vm.channel(1), vm.channel(1)
  local w = vm.spawn(function(inbox, lines)
    require "socket"
    local receiver = inbox:receive()
    local waiting = require("baton.process").spawn(function() return (receiver:receive()) end)
    require("check").becomes(waiting, "waiting")
    lines:send "waits"
    lines:send(select(2, waiting:join()))
    inbox:receive()
    lines:send((receiver:receive()))
  end, inbox, lines)
  inbox:send(vm.move(receiver))
  check.equal(lines:receive(), "waits")
  old:send "before\n"
  check.equal(lines:receive(), "before")
  check.equal(ffi.C.dup2(other:getfd(), number), number)
  inbox:send "go on"
  check.equal(lines:receive(0.01), nil)
  new:send "after\n"
  check.equal(lines:receive(), "after")
  check.that(w:join())
end

-- A select asks each object for its number, and keeps it to itself.
function case.a_select_leaves_registrations_as_they_are()
  local receiver, peer = pair()
  after_a_wait(receiver, peer)
  check.equal(#socket.select({ receiver }, nil, 0), 0)
  check.equal(#socket.select({ receiver }, nil, 0.001), 0)
  local before = process.stats().descriptors_registered
  for _ = 1, 10 do after_a_wait(receiver, peer) end
  check.equal(process.stats().descriptors_registered, before)
  check.that(receiver:getfd() >= 0)
  for _ = 1, 10 do after_a_wait(receiver, peer) end
  check.within(process.stats().descriptors_registered - before, 10, 30, "registrations")
end

check.run(case)
