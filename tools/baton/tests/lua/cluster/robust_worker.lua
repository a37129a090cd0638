-- A worker for cluster_robustness.rs: appends the number of each job to a file, and then says that
-- the job is done. It may be killed at any time.
local cluster = require "baton.cluster"

local file = assert(io.open(arg[1], "a"))
file:setvbuf "no"
local c = assert(cluster.connect { url = arg[2], timeout = math.huge })
local jobs
repeat jobs = c:queue("robust", { ack = 1, tries = 1000 }) until jobs
while true do
  local job = jobs:receive()
  if job then
    file:write(job.value .. "\n") -- one write, so that a kill leaves no half of a line
    job:done()
  end
end
