-- luv: the loop with timers, sockets, files, child processes; its pool of threads and threads with
-- states of their own.
local uv = require "luv"

local function timers(t)
  local log = {}
  for _, ms in ipairs { 20, 5, 10 } do
    local timer = uv.new_timer()
    timer:start(ms, 0, function()
      log[#log + 1] = ms
      timer:close()
    end)
  end
  local ticks, repeating = 0, uv.new_timer()
  repeating:start(1, 1, function()
    ticks = ticks + 1
    if ticks == 5 then repeating:close() end
  end)
  local idle = uv.new_idle()
  idle:start(function() idle:close() end)
  uv.run()
  t.say(table.concat(log, " "), ticks, uv.loop_alive())
end

local function echo(t, listener, connect)
  local text, back = ("0123456789"):rep(20000), {}
  listener:listen(4, function()
    local peer = connect.new()
    listener:accept(peer)
    peer:read_start(function(why, data)
      assert(not why, why)
      if data then peer:write(data) else peer:shutdown(function() peer:close() end) end
    end)
  end)
  local client = connect.new()
  connect.to(client, function(why)
    assert(not why, why)
    client:read_start(function(_, data)
      if data then
        back[#back + 1] = data
      else
        client:close()
        listener:close()
      end
    end)
    client:write(text)
    client:shutdown()
  end)
  uv.run()
  t.say(table.concat(back) == text)
end

local function sockets(t)
  local tcp = uv.new_tcp()
  tcp:bind("127.0.0.1", 0)
  local port = tcp:getsockname().port
  echo(
    t,
    tcp,
    { new = uv.new_tcp, to = function(client, f) client:connect("127.0.0.1", port, f) end }
  )
  local pipe, path = uv.new_pipe(false), t.scratch .. "/pipe"
  pipe:bind(path)
  echo(
    t,
    pipe,
    {
      new = function() return uv.new_pipe(false) end,
      to = function(client, f) client:connect(path, f) end,
    }
  )
end

local function files(t)
  local path, log = t.scratch .. "/file", {}
  uv.fs_open(path, "w", tonumber("644", 8), function(why, file)
    assert(not why, why)
    uv.fs_write(file, "some text", -1, function(_, written)
      uv.fs_close(file, function()
        uv.fs_stat(
          path,
          function(_, stat) log[1] = written .. " " .. stat.size .. " " .. stat.type end
        )
      end)
    end)
  end)
  uv.fs_stat(t.scratch .. "/none", function(why) log[2] = why:match "^%w+" end)
  uv.run()
  t.say(log[1], log[2], uv.fs_unlink(path), (select(3, uv.fs_unlink(path))))
end

local function children(t)
  local output, parts, ended = uv.new_pipe(false), {}, nil
  local child = uv.spawn(
    "/bin/sh",
    { args = { "-c", "echo from a child; exit 3" }, stdio = { nil, output } },
    function(code, signal) ended = code .. " " .. signal end
  )
  output:read_start(function(_, data)
    parts[#parts + 1] = data
    if not data then output:close() end
  end)
  uv.run()
  child:close()
  uv.run()
  t.say(ended, (table.concat(parts):gsub("\n", "")))
end

local function pool(t)
  local results = {}
  local work = uv.new_work(function(n)
    local sum = 0
    for i = 1, n do sum = sum + i end
    return n, sum, "text"
  end, function(n, sum, text) results[#results + 1] = ("%d %d %s"):format(n, sum, text) end)
  for i = 1, 8 do work:queue(i * 10000) end
  uv.run()
  table.sort(results)
  t.say(#results, results[1], results[8])
end

local function threads(t)
  local heard = {}
  local async
  async = uv.new_async(function(n, word)
    heard[#heard + 1] = ("%d%s"):format(n, word)
    async:close()
  end)
  local thread = uv.new_thread(function(wake, n)
    local luv = require "luv"
    luv.sleep(1)
    wake:send(n, "th")
  end, async, 4)
  uv.run()
  t.say(heard[1], thread:join(), uv.thread_self() == thread)
end

local function errors(t)
  t.say(pcall(uv.new_tcp().bind, uv.new_tcp(), "no address", 1))
  t.say(pcall(uv.new_timer().start, 1))
  local tcp, answer = uv.new_tcp(), nil
  tcp:connect("127.0.0.1", 1, function(why)
    answer = why
    tcp:close()
  end)
  uv.run()
  t.say(answer)
end

-- One loop serves the whole program.
return function(t)
  t.alone(function()
    timers(t)
    sockets(t)
    files(t)
    children(t)
    pool(t)
    threads(t)
    errors(t)
  end)
end
