-- Simulated runs with a faulty network: what is at most once may be lost or come twice, what is
-- stored is not lost.
local check = require "check"
local process = require "baton.process"
local cluster = require "baton.cluster"

local case = {}

local function connect(faults) return assert(cluster.connect { url = "sim", faults = faults }) end

function case.messages_are_lost()
  local c = connect { loss = 0.3 }
  local sender = connect()
  local sub = c:subscribe "news"
  for i = 1, 200 do sender:publish("news", i) end
  process.sleep(1)
  local count = #sub.channel
  check.within(count, 100, 180)
  check.equal(sub:lost(), 0)
  c:close()
  sender:close()
end

function case.messages_come_twice()
  local c = connect { duplication = 0.5 }
  local sub = c:subscribe "news"
  for i = 1, 100 do c:publish("news", i) end
  process.sleep(1)
  check.within(#sub.channel, 120, 180)
  c:close()
end

function case.a_call_over_a_lossy_network_may_time_out()
  local server, client = connect { loss = 0.2 }, connect { loss = 0.2 }
  local service <close> = server:serve("echo", { say = function(x) return x end })
  local answered, late = 0, 0
  for i = 1, 60 do
    local value, why = client:call("echo", "say", i, { timeout = 0.1 })
    if value then
      check.equal(value, i)
      answered = answered + 1
    else
      check.equal(why, "timeout")
      late = late + 1
    end
  end
  check.that(answered > 10 and late > 5, answered .. " answered, " .. late .. " late")
  server:close()
  client:close()
end

-- Jobs that are sent and done over networks with all faults.
function case.no_job_is_lost_whatever_the_network_does()
  local faults = { delay = 0.05, loss = 0.1, every = 3, lasts = 1 }
  local sender, workers, done = connect(faults), { connect(faults), connect(faults) }, {}
  local jobs = assert(sender:queue("jobs", { ack = 2, tries = 1000 }))
  local works = {}
  for i, worker in ipairs(workers) do
    works[i] = assert(worker:queue("jobs", { ack = 2, tries = 1000 })):work(2, function(value)
      process.sleep(0.1)
      process.critical(function() done[value] = (done[value] or 0) + 1 end)
    end)
  end
  for i = 1, 40 do assert(jobs:send(i, { id = "job " .. i })) end
  local function all_are_done()
    for i = 1, 40 do
      if not done[i] then return false end
    end
    return true
  end
  while not all_are_done() do process.sleep(0.1) end
  for _, work in ipairs(works) do work:close() end
  local more = 0
  for i = 1, 40 do more = more + done[i] - 1 end
  print("done more than once: " .. more .. ", at " .. process.now())
end

function case.a_partition_makes_it_offline_for_a_while()
  local c = connect { every = 10, lasts = 4 }
  local seen = { online = 0, offline = 0 }
  for _ = 1, 1000 do
    seen[c:status()] = seen[c:status()] + 1
    if c:status() == "offline" then
      check.results("publish", { nil, "offline", n = 2 }, c:publish("news", 1))
    end
    process.sleep(0.1)
  end
  check.within(seen.offline, 350, 450)
end

-- A job that is held in a partition longer than its time goes to another one.
function case.a_holder_that_is_cut_off_loses_its_job()
  local cut, free = connect { every = 20, lasts = 10 }, connect()
  local jobs = assert(cut:queue("jobs", { ack = 1 }))
  local others = assert(free:queue("jobs", { ack = 1 }))
  while cut:status() ~= "online" do process.sleep(0.1) end
  jobs:send "work"
  local job = jobs:receive()
  local other = check.that(others:receive(60))
  check.equal(other.value, "work")
  check.that(other.tries >= 2)
  other:done()
  job:done()
  check.results("no more", { nil, "timeout", n = 2 }, others:receive(30))
end

function case.wrong_faults_are_refused()
  for text, faults in pairs {
    ["unknown option 'losses'"] = { losses = 1 },
    ["option 'loss': number from 0 to 1 expected, got 2"] = { loss = 2 },
    ["option 'delay': number of seconds"] = { delay = -1 },
  } do
    check.raises(text, connect, faults)
  end
end

check.run(case)
