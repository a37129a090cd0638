-- Runs shell commands, a few at a time, each within a time limit.
--
--   baton examples/job_queue.lua [-n JOBS AT ONCE] [-t SECONDS] [-x] [FILE]
--
-- The commands come from FILE or from the standard input, one on a line, and start as they come;
-- "5: make" has a limit of five seconds of its own. With -x the first failure cancels everything
-- else, as does Ctrl-C in any case. The status is 1 if a command failed.
--
-- A worker waits for its command in plain io.popen and pipe:read, and nobody else does. A timer
-- ends a command that takes too long. To cancel, we end the commands, and the workers find out:
-- killing the workers themselves might strike one that has just started its command and not yet
-- noted it.

local process = require "baton.process"

local USAGE = "usage: job_queue.lua [-n JOBS] [-t SECONDS] [-x] [FILE]"
local GRACE = 1 -- seconds between SIGTERM and SIGKILL

-- A running command. Its shell leads a process group of its own, so that one signal reaches all
-- that it has started.
local Command = {}
Command.__index = Command

local function quoted(text) return "'" .. text:gsub("'", "'\\''") .. "'" end

-- The outer shell stays until the command has ended, and holds the pipe open: when the output ends,
-- so has the command, but its number is not free for others before pipe:close().
local SHELL = [[exec setsid sh -c 'echo $$; sh -c "$0" </dev/null 2>&1; exit $?' ]]

local function start(text)
  local pipe = assert(io.popen(SHELL .. quoted(text)))
  return setmetatable({ pipe = pipe, group = pipe:read("n", "L") }, Command)
end

function Command:signal(name)
  if not self.ended then os.execute(("kill -s %s -- -%d 2>/dev/null"):format(name, self.group)) end
end

-- Asks the command to end, and sees to it that it does. Does not wait.
function Command:stop()
  self:signal("TERM")
  process.after(GRACE, self.signal, self, "KILL")
end

-- Waits for the command's end; returns its output, and whether and how it ended, as os.execute
-- does.
function Command:wait()
  local output = self.pipe:read("a")
  self.ended = true
  return output, self.pipe:close()
end

local Queue = {}
Queue.__index = Queue

local function new_queue(seconds, stop_at_failure)
  return setmetatable({
    jobs = process.channel(),
    running = {}, -- a set of commands
    seconds = seconds,
    stop_at_failure = stop_at_failure,
    failures = 0,
  }, Queue)
end

local function report(verdict, text, output)
  local lines = { ("%-10s %s"):format(verdict, text) }
  for line in output:gmatch("[^\n]+") do lines[#lines + 1] = "    " .. line end
  print(table.concat(lines, "\n")) -- one print is one piece, whoever else prints
end

-- Runs one job to its end.
function Queue:run(job)
  local seconds, text = job:match("^(%d+%.?%d*):%s*(.*)$")
  seconds, text = tonumber(seconds) or self.seconds, text or job
  local command = start(text)
  self.running[command] = true
  if self.cancelled then command:stop() end -- whoever cancelled may have come just before
  local late = false
  local limit = process.after(seconds, function()
    late = true
    command:stop()
  end)
  local output, ok, how, number = command:wait()
  limit:cancel()
  self.running[command] = nil
  if self.cancelled then return report("cancelled", text, output) end
  if ok then return report("done", text, output) end
  self.failures = self.failures + 1
  report(late and ("late %g s"):format(seconds) or ("%s %d"):format(how, number), text, output)
  if self.stop_at_failure then self:cancel() end
end

function Queue:work()
  for job in self.jobs:values() do self:run(job) end
end

-- Ends everything: no new jobs, and no commands.
function Queue:cancel()
  self.cancelled = true
  self.jobs:close()
  -- a copy, as the set changes while we wait; made in one piece, as workers add to it at any time
  local commands = {}
  process.critical(function()
    for command in pairs(self.running) do commands[#commands + 1] = command end
  end)
  for _, command in ipairs(commands) do command:stop() end
end

local function read_options(arguments)
  local options = { jobs = 4, seconds = 60 }
  local names = { ["-n"] = "jobs", ["-t"] = "seconds" }
  local i = 1
  while names[arguments[i]] or arguments[i] == "-x" do
    if arguments[i] == "-x" then
      options.stop_at_failure = true
      i = i + 1
    else
      options[names[arguments[i]]] = tonumber(arguments[i + 1])
      i = i + 2
    end
  end
  options.file = arguments[i]
  if
    arguments[i + 1]
    or not options.seconds
    or math.type(options.jobs) ~= "integer"
    or options.jobs < 1
  then
    io.stderr:write(USAGE, "\n")
    os.exit(2)
  end
  return options
end

local options = read_options(arg)
local input = options.file and assert(io.open(options.file)) or io.stdin
local queue = new_queue(options.seconds, options.stop_at_failure)

-- A daemon, since the program must not wait for more input once everything has been cancelled.
process.spawn({ name = "reader", daemon = true }, function()
  for line in input:lines() do
    if line:find("%S") and not queue.jobs:send(line) then return end
  end
  queue.jobs:close()
end)

local workers = {}
for i = 1, options.jobs do
  workers[i] = process.spawn({ name = "worker " .. i }, queue.work, queue)
end

local function wait_for_workers()
  for _, worker in ipairs(workers) do assert(worker:join()) end
end

-- Ctrl-C raises an error here, in the main process: then nothing may be left running either.
local ok, problem = pcall(wait_for_workers)
if not ok then
  queue:cancel()
  wait_for_workers()
  io.stderr:write("job_queue: ", tostring(problem), "\n")
end
os.exit(ok and queue.failures == 0)
