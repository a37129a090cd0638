-- A process that receives after it has sent something waits without an attempt, if many others are
-- runnable and the attempt would find nothing. Here it would find something.
local check = require "check"
local process = require "baton.process"
local socket = require "socket"
local case = {}

local function pair()
  local server = assert(socket.bind("127.0.0.1", 0, 32))
  local client = assert(socket.connect("127.0.0.1", (select(2, server:getsockname()))))
  local peer = assert(server:accept())
  server:close()
  peer:setoption("tcp-nodelay", true) -- what is sent has arrived
  return client, peer
end

local function poll_descriptors() process.sleep(0.02) end

-- Runs a process that has received and answered a line after a wait, while others are runnable.
-- `before` runs at once after the line was sent, `after` once it was answered. Then the process
-- receives with the arguments `...`. Returns what came, or nil and why nothing came.
local function receive_again(line, before, after, ...)
  local client, peer = pair()
  local arguments, over = table.pack(...), false
  local is_asking = process.semaphore(0)
  local reader = process.spawn(function()
    assert(client:receive() == "first")
    client:send "answer\n" -- no attempt before was left out
    assert(client:receive(line and "*l" or 8192))
    client:send "answer\n"
    is_asking:wait()
    return client:receive(table.unpack(arguments, 1, arguments.n))
  end)
  check.becomes(reader, "waiting")
  peer:send "first\n"
  assert(peer:receive() == "answer")
  check.becomes(reader, "waiting")
  before(peer)
  assert(peer:receive() == "answer")
  after(peer)
  poll_descriptors()
  local others = check.spawn_all(8, function()
    while not over do process.yield() end
  end)
  is_asking:signal()
  local has_ended, text, why = reader:join(20)
  over = true
  check.join_all(others)
  check.that(has_ended, "it does not wait for more")
  return text, why
end

local function nothing() end

function case.what_comes_while_the_process_answers_is_received()
  local function before(peer) peer:send "second\n" end
  local function after(peer) peer:send "third\n" end
  check.equal(receive_again(true, before, after), "third")
end

function case.lines_that_came_together_are_all_received()
  local function before(peer) peer:send "second\nthird\n" end
  check.equal(receive_again(true, before, nothing), "third")
end

function case.more_than_the_module_reads_at_once_is_received()
  local text = ("x"):rep(8192)
  local function before(peer) peer:send(text .. text) end
  check.that(receive_again(false, before, nothing, 8192) == text)
end

function case.the_end_that_came_with_the_last_data_is_noticed()
  local function before(peer)
    peer:send "second\n"
    peer:shutdown "send"
  end
  local line, why = receive_again(true, before, nothing)
  check.that(not line)
  check.equal(why, "closed")
end

function case.data_behind_out_of_band_data_is_received()
  local ffi = require "baton.ffi"
  if ffi.os ~= "Linux" then return end
  ffi.cdef "ssize_t send(int, const char *, size_t, int);"
  local MSG_OOB, MSG_MORE = 1, 0x8000
  local function before(peer)
    local descriptor = peer:getfd()
    ffi.C.send(descriptor, "second\n", 7, MSG_MORE)
    ffi.C.send(descriptor, "!", 1, MSG_OOB)
    peer:send "third\n"
  end
  check.equal(receive_again(true, before, nothing), "third")
end

-- The process itself is the other end, so nothing comes but what it sends.
function case.a_process_receives_what_it_sends_to_itself()
  local client, peer = pair()
  local over = false
  local others = check.spawn_all(8, function()
    while not over do process.yield() end
  end)
  for i = 1, 200 do
    peer:send(i .. "\n")
    client:send(i .. "\n")
    check.equal(client:receive(), tostring(i))
    check.equal(peer:receive(), tostring(i))
  end
  over = true
  check.join_all(others)
end

function case.readers_that_answer_in_turn_receive_all_lines()
  local client, peer = pair()
  local over = false
  local others = check.spawn_all(8, function()
    while not over do process.yield() end
  end)
  local received = 0
  local readers = check.spawn_all(4, function()
    for _ = 1, 75 do
      check.equal(client:receive(), "line")
      received = received + 1
      client:send "answer\n"
    end
  end)
  for i = 1, 300 do
    peer:send(i % 3 == 1 and "line\nline\n" or i % 3 == 2 and "line\n" or "")
    check.equal(peer:receive(), "answer")
  end
  check.join_all(readers)
  check.equal(received, 300)
  over = true
  check.join_all(others)
end

check.run(case)
