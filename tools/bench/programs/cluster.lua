-- Durable queues and calls over NATS: `cluster.lua PART IN_FLIGHT JOBS BYTES`. NATS_URL has the
-- server. The peers go_nats and nats_py do the same.
local process = require "baton.process"
local cluster = require "baton.cluster"

local part = arg[1]
local in_flight, count, payload = tonumber(arg[2]), tonumber(arg[3]), ("x"):rep(tonumber(arg[4]))
local c = assert(cluster.connect { url = os.getenv "NATS_URL" })

-- Runs so many processes with the numbers from 1, and returns when all have ended.
local function together(processes, work)
  local started = {}
  for number = 1, processes do started[number] = process.spawn(work, number) end
  for _, one in ipairs(started) do assert(one:join()) end
end

-- Each job has an id, so one that is sent again is stored once.
local function send(queue, processes)
  together(processes, function(first)
    for number = first, count, processes do
      assert(queue:send(payload, { id = "job " .. number }))
    end
    return true
  end)
end

local function receive(queue)
  together(in_flight, function(first)
    for _ = first, count, in_flight do assert(queue:receive()):done() end
    return true
  end)
end

-- The server has all acknowledgements then.
local function finish() assert(c:close()) end

-- One job after the other. Returns the times from sending each until it is received.
local function latency(queue)
  local times, sent = {}, nil
  local wanted, received = process.semaphore(0), process.semaphore(0)
  local receiver = process.spawn(function()
    for number = 1, count do
      wanted:wait()
      local job = assert(queue:receive())
      times[number] = (process.now() - sent) * 1e6
      job:done()
      received:signal()
    end
    return true
  end)
  for number = 1, count do
    wanted:signal()
    process.yield() -- the receiver asks first
    sent = process.now()
    assert(queue:send(payload, { id = "job " .. number }))
    received:wait()
  end
  assert(receiver:join())
  return times
end

local function call()
  local times = {}
  local service <close> =
    c:serve("service", { echo = function(value) return value end }, { concurrency = 1000 })
  together(in_flight, function(first)
    for number = first, count, in_flight do
      local sent = process.now()
      assert(c:call("service", "echo", payload))
      times[number] = (process.now() - sent) * 1e6
    end
    return true
  end)
  return times
end

local parts = {
  send = function(queue) send(queue, in_flight) end,
  receive = function(queue)
    receive(queue)
    finish()
  end,
  both = function(queue)
    local sender = process.spawn(function()
      send(queue, in_flight)
      return true
    end)
    receive(queue)
    assert(sender:join())
    finish()
  end,
  latency = latency,
  call = call,
}

local queue = part ~= "call" and assert(c:queue "jobs") or nil
if part == "receive" then send(queue, math.min(256, count)) end
local begun, cpu = process.now(), os.clock()
local times = parts[part](queue)
local elapsed, used = process.now() - begun, os.clock() - cpu
print("rate", ("%.3f"):format(count / elapsed))
print("cpu_us", ("%.3f"):format(used / count * 1e6))
if times then print("us", table.concat(times, " ")) end
