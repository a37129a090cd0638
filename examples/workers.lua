-- A durable queue over NATS: this program sends jobs, two others do them, and one of these is
-- killed in the middle. Every job is done nevertheless.
--
--   cargo xtask cluster &                         # or: nats-server -js
--   NATS_URL=nats://127.0.0.1:4222 baton examples/workers.lua [JOBS]
--
-- The queue is stored on the server. A job belongs to the worker that has received it until the
-- worker says that it is done. If the worker ends before, the job is given to another one.

local process = require "baton.process"
local cluster = require "baton.cluster"

local URL = os.getenv "NATS_URL" or "nats://127.0.0.1:4222"
local OPTIONS = { ack = 1 } -- seconds until a job of a killed program comes again

local function open(name)
  local c = assert(cluster.connect { url = URL })
  return assert(c:queue(name, OPTIONS)), c
end

-- A worker, in a program of its own. It tells its number, and then each job that it has done.
local function work(name)
  local jobs = open(name)
  io.stdout:setvbuf "line"
  print(io.open("/proc/self/stat"):read "n")
  jobs:work(1, function(number, job)
    process.sleep(0.02) -- the work
    print(number, number * number, job.tries)
  end)
end

-- Starts a worker, and puts what it does into a channel.
local function start(name, results)
  local command = ("exec '%s' '%s' work '%s'"):format(arg[-1], arg[0], name)
  local pipe = assert(io.popen(command))
  local worker = { pid = pipe:read("n", "L"), done = 0 }
  process.spawn({ daemon = true }, function()
    for line in pipe:lines() do
      local number, square, tries = line:match "^(%d+)%s+(%d+)%s+(%d+)$"
      if number then
        worker.done = worker.done + 1
        results:send { tonumber(number), tonumber(square), tonumber(tries) }
      end
    end
  end)
  return worker
end

local function kill(worker, signal) os.execute(("kill -%s %d"):format(signal, worker.pid)) end

local function main(count)
  local name = ("squares-%d-%d"):format(os.time(), math.random(1 << 20))
  local jobs, c = open(name)
  for number = 1, count do assert(jobs:send(number)) end
  print(count .. " jobs are stored")
  local results = process.channel(count)
  local one, other = start(name, results), start(name, results)
  local squares, done, again = {}, 0, 0
  while done < count do
    local number, square, tries = table.unpack(results:receive())
    if tries > 1 then again = again + 1 end
    if not squares[number] then done = done + 1 end
    squares[number] = square
    if done == count // 2 and one.pid then
      kill(one, "KILL")
      one.pid = nil
      print "a worker was killed"
    end
  end
  kill(other, "TERM")
  print(("all are done, %d of them at a second try"):format(again))
  c:close()
end

if arg[1] == "work" then
  work(arg[2])
else
  math.randomseed(os.time())
  main(tonumber(arg[1]) or 40)
end
