-- cqueues: controllers with coroutines that sleep and communicate, conditions, promises, and
-- threads with states of their own.
local cqueues = require "cqueues"
local condition = require "cqueues.condition"
local promise = require "cqueues.promise"
local signal = require "cqueues.signal"
local socket = require "cqueues.socket"
local thread = require "cqueues.thread"

-- Far enough apart that two are never due at once, even on a busy machine.
local function sleepers(t)
  local log, loop = {}, cqueues.new()
  for _, ms in ipairs { 900, 300, 600, 0 } do
    loop:wrap(function()
      cqueues.sleep(ms / 1000)
      log[#log + 1] = ms
    end)
  end
  t.say(loop:count(), loop:loop(), table.concat(log, " "), loop:empty())
end

local function talkers(t)
  local loop = cqueues.new()
  local here, there = socket.pair()
  local lines = {}
  loop:wrap(function()
    for i = 1, 200 do here:write("line ", i, "\n") end
    here:shutdown "w"
    lines.back = here:read "*a"
  end)
  loop:wrap(function()
    for line in there:lines "*l" do
      lines[#lines + 1] = line
      there:write(line:upper(), ";")
    end
    there:close()
  end)
  assert(loop:loop())
  t.say(#lines, lines[200], #lines.back, lines.back:sub(-9))
  here:close()
end

local function servers(t)
  local loop = cqueues.new()
  local server = socket.listen("127.0.0.1", 0)
  local _, _, port = server:localname()
  local sum = 0
  for i = 1, 5 do
    loop:wrap(function()
      local client = socket.connect("127.0.0.1", port)
      client:write(i, "\n")
      local answer = tonumber(client:read "*l")
      sum = sum + answer
      client:close()
    end)
  end
  loop:wrap(function()
    for _ = 1, 5 do
      local peer = server:accept()
      loop:wrap(function()
        peer:write(math.tointeger(tonumber(peer:read "*l") ^ 2), "\n")
        peer:close()
      end)
    end
    server:close()
  end)
  assert(loop:loop())
  t.say(sum)
end

local function waiters(t)
  local loop, log = cqueues.new(), {}
  local ready, value = condition.new(), promise.new()
  for i = 1, 3 do
    loop:wrap(function()
      ready:wait()
      log[#log + 1] = value:get() + i
    end)
  end
  loop:wrap(function()
    cqueues.sleep(0.001)
    ready:signal()
    value:set(true, 10)
  end)
  loop:wrap(function() log.timeout = condition.new():wait(0.01) end)
  assert(loop:loop())
  table.sort(log)
  t.say(table.concat(log, " "), log.timeout)
  loop:wrap(function() error "from a coroutine" end)
  t.say((select(2, loop:loop()):gsub("^.-: ", "")))
end

local function threads(t)
  local loop, sums = cqueues.new(), {}
  for n = 1, 3 do
    loop:wrap(function()
      local peer, pipe = thread.start(function(pipe, count)
        local sum = 0
        for i = 1, tonumber(count) do sum = sum + i end
        pipe:write(sum, "\n", pipe:read "*l", "\n")
      end, n * 100000)
      pipe:write("to thread ", n, "\n")
      sums[n] = pipe:read "*l" .. " " .. pipe:read "*l"
      assert(peer:join())
    end)
  end
  assert(loop:loop())
  t.say(table.concat(sums, ","))
  local broken = thread.start(function() error "in a thread" end)
  t.say((select(2, broken:join())))
end

local function signals(t)
  signal.block(signal.SIGUSR2)
  local listener = signal.listen(signal.SIGUSR2)
  signal.raise(signal.SIGUSR2)
  t.say(listener:wait(5) == signal.SIGUSR2)
  signal.unblock(signal.SIGUSR2)
end

-- The module has one stack of running controllers for all copies.
return function(t)
  t.alone(function()
    sleepers(t)
    talkers(t)
    servers(t)
    waiters(t)
    threads(t)
    signals(t)
  end)
end
