-- A sender for cluster_robustness.rs: sends so many jobs, from several processes. Each has an id,
-- so one that is sent again after a lost answer is stored once.
local process = require "baton.process"
local cluster = require "baton.cluster"

local count, url = tonumber(arg[1]), arg[2]
local c = assert(cluster.connect { url = url })
local jobs = assert(c:queue("robust", { ack = 1, tries = 1000 }))
local senders = {}
for first = 1, 8 do
  senders[first] = process.spawn(function()
    for number = first, count, 8 do assert(jobs:send(number, { id = "robust " .. number })) end
  end)
end
for _, sender in ipairs(senders) do assert(sender:join()) end
print "all are stored"
c:close()
