-- Runs shell commands, a few at a time, each within a time limit.
--
--   baton examples/job_queue.lua [-n JOBS AT ONCE] [-t SECONDS] [-x] [FILE]
--
-- FILE or the standard input has one command on each line. A command starts as soon as it is read
-- and a worker is free. "5: make" has a limit of its own: five seconds. Ctrl-C cancels everything;
-- with -x the first failure does so, too. The status is 1 if a command failed.
--
-- A worker waits for its command in plain io.popen and pipe:read. No other process waits. A timer
-- ends a command that takes too long. To cancel, the program ends the commands, and the workers see
-- that. If a worker is killed, its command is ended, too.

local process = require "baton.process"

local USAGE = "usage: job_queue.lua [-n JOBS] [-t SECONDS] [-x] [FILE]"
local GRACE = 1 -- seconds between SIGTERM and SIGKILL

-- A running command. Its shell leads a process group, so that one signal reaches all processes of
-- the command.
local Command = {}
Command.__index = Command

local function quoted(text) return "'" .. text:gsub("'", "'\\''") .. "'" end

-- The outer shell holds the pipe open until the command has ended. So the end of the output is the
-- end of the command. Its number stays taken until pipe:close().
local SHELL = [[exec setsid sh -c 'echo $$; sh -c "$0" </dev/null 2>&1; exit $?' ]]

-- A command that has not been started. `running` is a set in which it is while it runs.
local function new_command(running) return setmetatable({ running = running }, Command) end

-- A kill that comes meanwhile waits until the command is noted. So `__close` can end it.
function Command:start(text)
  process.shield(function()
    self.pipe = assert(io.popen(SHELL .. quoted(text)))
    self.group = self.pipe:read("n", "L")
    self.running[self] = true
  end)
end

function Command:signal(name)
  if not self.ended then os.execute(("kill -s %s -- -%d 2>/dev/null"):format(name, self.group)) end
end

-- Sends SIGTERM, and later SIGKILL. Does not wait.
function Command:stop()
  self:signal("TERM")
  process.after(GRACE, self.signal, self, "KILL")
end

-- Waits for the command's end. Returns its output, and then what os.execute returns.
function Command:wait()
  local output = self.pipe:read("a")
  self.ended = true
  self.running[self] = nil
  return output, self.pipe:close()
end

function Command:__close()
  self.running[self] = nil
  if self.group and not self.ended then self:stop() end
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
  print(table.concat(lines, "\n")) -- the output of one print stays in one piece
end

-- Runs one job to its end.
function Queue:run(job)
  local seconds, text = job:match("^(%d+%.?%d*):%s*(.*)$")
  seconds, text = tonumber(seconds) or self.seconds, text or job
  local command <close> = new_command(self.running)
  command:start(text)
  if self.cancelled then command:stop() end -- cancelled before it was noted
  local late = false
  local limit = process.after(seconds, function()
    late = true
    command:stop()
  end)
  local output, ok, how, number = command:wait()
  limit:cancel()
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
  -- A copy, because the set changes while the loop below waits. The copy is made in one step,
  -- because workers may add to the set at any time.
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

-- A daemon, so that the program does not wait for more input after a cancel.
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

-- Ctrl-C raises an error here, in the main process. No command may be left running then.
local ok, problem = pcall(wait_for_workers)
if not ok then
  queue:cancel()
  wait_for_workers()
  io.stderr:write("job_queue: ", tostring(problem), "\n")
end
os.exit(ok and queue.failures == 0)
