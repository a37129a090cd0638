-- Copas, a scheduler of its own. Its loop runs in one process, and other processes of the same
-- program use plain LuaSocket.
local check = require "check"
local process = require "baton.process"
local copas = require "copas"
local socket = require "socket"
local case = {}

-- Starts a Copas server in a process of its own. It answers each line with `answer(line)`, or not
-- at all if that is nil.
local function serve(answer)
  local server = assert(socket.bind("127.0.0.1", 0, 64))
  local _, port = server:getsockname()
  copas.addserver(server, function(client)
    local wrapped = copas.wrap(client)
    for line in function() return wrapped:receive() end do
      local answered = answer(line)
      if answered then wrapped:send(answered .. "\n") end
    end
  end)
  return port, process.spawn({ daemon = true, name = "copas" }, copas.loop)
end

local function ask(port, line)
  local client = assert(socket.connect("127.0.0.1", port))
  client:send(line .. "\n")
  local answer = client:receive()
  client:close()
  return answer
end

function case.processes_talk_to_a_server_of_copas()
  local port = serve(string.upper)
  check.join_all(
    check.spawn_all(30, function(i) check.equal(ask(port, "line " .. i), "LINE " .. i) end)
  )
  check.within(process.threads(), 1, process.features().poller == "polling" and 64 or 8, "threads")
end

function case.others_run_while_the_loop_waits()
  local _, loop = serve(string.upper)
  check.becomes(loop, "waiting")
  local ticks = check.ticker()
  check.eventually("the clock ticks", function() return ticks() > 50 end)
  check.equal(loop:status(), "waiting")
end

function case.a_handler_may_wait_for_another_process()
  local asked, answered = process.channel(0), process.channel(0)
  process.spawn({ daemon = true }, function()
    for line in asked:values() do answered:send(line:reverse()) end
  end)
  local port = serve(function(line)
    asked:send(line)
    return (answered:receive())
  end)
  check.join_all(
    check.spawn_all(
      10,
      function(i) check.equal(ask(port, "line " .. i), ("line " .. i):reverse()) end
    )
  )
end

function case.threads_of_copas_and_processes_share_the_program()
  local port = serve(string.upper)
  local done = 0
  for i = 1, 10 do
    copas.addthread(function()
      local plain = assert(socket.tcp())
      assert(copas.connect(plain, "127.0.0.1", port))
      local client = copas.wrap(plain)
      client:send("thread " .. i .. "\n")
      check.equal(client:receive(), "THREAD " .. i)
      done = done + 1
    end)
  end
  check.join_all(
    check.spawn_all(10, function(i) check.equal(ask(port, "process " .. i), "PROCESS " .. i) end)
  )
  check.eventually("all threads have their answers", function() return done == 10 end)
end

function case.the_loop_can_be_killed_and_begun_again()
  local port, loop = serve(string.upper)
  check.equal(ask(port, "one"), "ONE")
  check.becomes(loop, "waiting")
  loop:kill()
  check.results("loop", { false, "killed" }, loop:join())
  local question = process.spawn(ask, port, "two") -- no server listens there
  check.becomes(question, "waiting")
  process.spawn({ daemon = true }, copas.loop)
  check.results("question", { true, "TWO" }, question:join())
end

function case.clients_that_time_out_or_are_killed_leave_the_loop_alone()
  local port, loop = serve(function(line) return line ~= "silence" and line or nil end)
  local victims = check.spawn_all(5, function()
    local client = assert(socket.connect("127.0.0.1", port))
    local _ <close> = check.closing(function() client:close() end)
    client:send "silence\n"
    client:receive()
  end)
  check.join_all(check.spawn_all(5, function(i)
    local client = assert(socket.connect("127.0.0.1", port))
    client:settimeout(0.05)
    client:send "silence\n"
    check.equal(select(2, client:receive()), "timeout")
    client:settimeout(nil)
    client:send("line " .. i .. "\n")
    check.equal(client:receive(), "line " .. i)
    client:close()
  end))
  for i = 1, 5 do check.becomes(victims[i], "waiting") end
  for i = 1, 5 do check.equal(victims[i]:kill(), true) end
  for i = 1, 5 do check.results("victim", { false, "killed" }, victims[i]:join()) end
  check.equal(ask(port, "after"), "after")
  check.becomes(loop, "waiting")
end

function case.a_step_can_time_out_while_other_processes_run()
  local server = assert(socket.bind("127.0.0.1", 0))
  copas.addserver(server, function() end)
  local before = process.now()
  check.equal(copas.step(0.05), false)
  check.within(process.now() - before, 0.045, 30)
end

check.run(case)
