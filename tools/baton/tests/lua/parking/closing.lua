-- A descriptor that processes wait for is closed or replaced beneath them: they are told so, and get nothing of what has the number next.
local check = require "check"
local process = require "baton.process"
local ffi = require "baton.ffi"
local socket = require "socket"
local case = {}

ffi.cdef [[
  int dup2(int from, int to);
  int dup3(int from, int to, int flags);
  int close(int descriptor);
  int close_range(unsigned first, unsigned last, int flags);
]]

local function pair()
  local server = assert(socket.bind("127.0.0.1", 0))
  local client = assert(socket.connect("127.0.0.1", (select(2, server:getsockname()))))
  local peer = assert(server:accept())
  server:close()
  return client, peer
end

local function is_told(p)
  local joined, got, why = p:join()
  check.equal(joined, true)
  check.equal(got, nil)
  check.equal(why, "Bad file descriptor")
end

-- A process waits by `wait(waited_for)`; then what is ready takes the number.
local function is_told_of_replacement(replace, waited_for, wait)
  local other, its_peer = pair()
  its_peer:send "the other's\n" -- there already: who tried again would take it
  local waiting = process.spawn(wait, waited_for)
  check.becomes(waiting, "waiting")
  replace(other:getfd(), waited_for:getfd())
  is_told(waiting)
  check.equal(other:receive(), "the other's")
  return its_peer
end

local function receive(client) return client:receive() end

function case.who_receives_from_what_dup2_replaces_is_told_so()
  local client, peer = pair()
  local its_peer = is_told_of_replacement(ffi.C.dup2, client, receive)
  check.equal(select(2, peer:receive()), "closed") -- nobody has its other end any more
  its_peer:send "by the new number\n"
  check.equal(client:receive(), "by the new number")
end

function case.who_receives_from_what_dup3_replaces_is_told_so()
  local client, peer = pair()
  local its_peer = is_told_of_replacement(function(from, to) return ffi.C.dup3(from, to, 0) end, client, receive)
  check.equal(select(2, peer:receive()), "closed")
  its_peer:send "by the new number\n"
  check.equal(client:receive(), "by the new number")
end

function case.who_accepts_sends_or_waits_for_a_datagram_is_told_of_a_replacement()
  local server = assert(socket.bind("127.0.0.1", 0))
  is_told_of_replacement(ffi.C.dup2, server, function() return server:accept() end)
  local datagrams = assert(socket.udp())
  assert(datagrams:setsockname("127.0.0.1", 0))
  is_told_of_replacement(ffi.C.dup2, datagrams, function() return datagrams:receivefrom() end)
  local client, peer = pair() -- which does not read
  is_told_of_replacement(ffi.C.dup2, client, function() return client:send(("x"):rep(20000000)) end)
  peer:close()
end

function case.a_select_ends_when_one_of_its_sockets_is_replaced()
  local one, peer_of_one = pair()
  local two, peer_of_two = pair()
  local other, its_peer = pair()
  local selecting = process.spawn(function() return pcall(socket.select, { one, two }) end)
  check.becomes(selecting, "waiting")
  check.equal(ffi.C.dup2(other:getfd(), two:getfd()), two:getfd())
  check.results("selecting", { true, false, "select failed" }, selecting:join())
  its_peer:send "x\n"
  check.equal(two:receive(), "x")
  peer_of_one:close()
  peer_of_two:close()
end

function case.who_waits_for_what_a_range_closes_is_told_so()
  local FIRST, COUNT = 200, 10
  local clients, peers, readers = {}, {}, {}
  for i = 1, COUNT do
    local client, peer = pair()
    local number = FIRST + i - 1
    check.equal(ffi.C.dup2(client:getfd(), number), number)
    check.equal(ffi.C.close(client:getfd()), 0)
    client:setfd(number)
    clients[i], peers[i] = client, peer
    readers[i] = process.spawn(receive, client)
  end
  local bystander, its_peer = pair()
  local reader = process.spawn(function() return (bystander:receive()) end)
  for i = 1, COUNT do check.becomes(readers[i], "waiting") end
  check.becomes(reader, "waiting")
  check.equal(ffi.C.close_range(FIRST, FIRST + COUNT - 1, 0), 0)
  for i = 1, COUNT do clients[i]:setfd(-1) end -- not to be closed again, when the numbers may be others'
  for i = 1, COUNT do is_told(readers[i]) end
  for i = 1, COUNT do check.equal(select(2, peers[i]:receive()), "closed") end
  check.equal(reader:status(), "waiting")
  its_peer:send "x\n"
  check.results("reader", { true, "x" }, reader:join())
end

function case.a_call_that_fails_ends_no_wait()
  local client, peer = pair()
  local reader = process.spawn(function() return (client:receive()) end)
  check.becomes(reader, "waiting")
  local number, nobodys = client:getfd(), 1000000
  check.equal(ffi.C.dup2(nobodys, number), -1)
  check.equal(ffi.C.dup3(nobodys, number, 0), -1)
  check.equal(ffi.C.dup3(peer:getfd(), number, 1), -1) -- no such flag
  check.equal(ffi.C.dup2(number, number), number) -- which changes nothing
  check.equal(ffi.C.close_range(number, number, 1 << 20), -1) -- no such flag
  peer:send "x\n"
  check.results("reader", { true, "x" }, reader:join())
end

-- Numbers go round while processes wait: none gets another's line, and none waits for ever.
function case.numbers_that_go_round_mix_nobody_up()
  check.join_all(check.spawn_all(10, function(i)
    for round = 1, 20 do
      local client, peer = pair()
      local reader = process.spawn(function()
        local line, why = client:receive()
        return line, why
      end)
      check.becomes(reader, "waiting")
      if round % 2 == 0 then
        client:close()
        is_told(reader)
      else
        local line = i .. " " .. round
        peer:send(line .. "\n")
        check.results("reader", { n = 3, true, line, nil }, reader:join())
        client:close()
      end
      peer:close()
    end
  end))
end

check.run(case)
