-- vm.map and vm.pool: several VMs that do the same work. `internal` has functions of vm.lua.
local vm, internal = ...
local process = require "baton.process"
local wrong, check_options = internal.wrong, internal.check_options
local check_positive, type_given = internal.check_positive, internal.type_given
local closing, try, foreign_error = internal.closing, internal.try, internal.foreign_error
local choose, spawn, critical = process.select, process.spawn, process.critical
local pack, unpack = table.pack, table.unpack
local pcall, error, type, require = pcall, error, type, require
local getmetatable, setmetatable, ipairs = getmetatable, setmetatable, ipairs
local min, max = math.min, math.max

local JOBS_FOR_EACH = 8 -- the default size of a chunk gives each worker so many

-- vm.map
-- -------------------------------------------------------------------------------------------------

-- What a worker runs. A job has values of the list, and an answer has the results of f for each.
function internal.builtin.map(jobs, answers, f)
  if type(f) == "string" then f = require(f) end
  for job in jobs:values() do
    local answer = { first = job.first, n = job.n }
    for i = 1, job.n do
      local outcome = pack(try(f, job[i], job.first + i - 1))
      if not outcome[1] then
        answers:send { failed = job.first + i - 1, failure = outcome[2] }
        return
      end
      answer[i] = outcome
    end
    local could, why = pcall(answers.send, answers, answer)
    if not could then answers:send { failed = job.first, failure = { why } } end
  end
end

local MAP_OPTIONS = { workers = "integer", chunk = "integer", ordered = "boolean" }

-- Gives the jobs out. What cannot be sent is an answer itself.
local function feed(list, count, chunk, jobs, answers)
  for first = 1, count, chunk do
    local job = { first = first, n = min(chunk, count - first + 1) }
    for i = 1, job.n do job[i] = list[first + i - 1] end
    local could, why = pcall(jobs.send, jobs, job)
    if not could then answers:send { failed = first, failure = { why } } end
  end
  jobs:close()
end

local function kill_all(workers)
  for _, worker in ipairs(workers) do worker:kill("its map has ended", 1) end
end

-- Waits for the next answer of a worker. Raises an error if a worker ends by itself before that.
local function next_answer(answers, workers)
  local cases = { answers }
  for i, worker in ipairs(workers) do cases[i + 1] = worker.ended end
  while true do
    local case, answer = choose(cases)
    if case == 1 then return answer end
    answer = answers:receive(0)
    if answer then return answer end
    local ok, why = workers[case - 1]:join()
    if not ok then error(why, 0) end
    table.remove(cases, case)
    table.remove(workers, case - 1)
  end
end

function vm.map(...)
  local list, f, options = ...
  options = options or {}
  if type(list) ~= "table" then wrong(2, 1, "map", "table expected, got %s", type_given(...)) end
  if type(f) ~= "function" and type(f) ~= "string" then
    local text = "function or name of a module expected, got %s"
    wrong(2, 2, "map", text, type_given(select(2, ...)))
  end
  if type(options) ~= "table" then wrong(2, 3, "map", "table expected, got %s", type(options)) end
  check_options(2, 3, "map", options, MAP_OPTIONS)
  check_positive(2, 3, "map", options, "workers")
  check_positive(2, 3, "map", options, "chunk")
  local count = #list
  local size = max(1, min(options.workers or vm.cores(), count))
  local chunk = options.chunk or max(1, count // (size * JOBS_FOR_EACH))
  local jobs, answers = vm.channel(2 * size), vm.channel(4 * size)
  local workers = {}
  local guard = closing(function()
    jobs:close()
    kill_all(workers)
  end)
  if count > 0 then
    for i = 1, size do
      local settings = { name = "worker " .. i, daemon = true, quiet = true }
      local worker, why = internal.spawn_builtin(settings, "map", jobs, answers, f)
      if not worker then
        guard.close()
        error(why, 2)
      end
      workers[i] = worker
    end
    local feeder = { name = "jobs of a map", daemon = true, quiet = true }
    spawn(feeder, feed, list, count, chunk, jobs, answers)
  end
  local is_ordered = options.ordered ~= false
  local arrived, at, left = {}, nil, count -- answers that wait for earlier ones; the current one
  local place, next_first = 0, 1
  local function advance()
    while true do
      if at and place < at.n then
        place, left = place + 1, left - 1
        local outcome = at[place]
        return at.first + place - 1, unpack(outcome, 2, outcome.n)
      end
      if left == 0 then return nil end
      at, place = nil, 0
      if is_ordered and arrived[next_first] then
        at = arrived[next_first]
        arrived[next_first], next_first = nil, next_first + at.n
      else
        local answer = next_answer(answers, workers)
        if answer.failed then
          guard.close()
          error(("value %d: %s"):format(answer.failed, foreign_error(answer.failure, "worker")), 0)
        end
        if is_ordered then
          arrived[answer.first] = answer
        else
          at = answer
        end
      end
    end
  end
  return advance, nil, nil, guard
end

-- vm.pool
-- -------------------------------------------------------------------------------------------------

local Pool = { __name = "pool" }
Pool.__index = Pool

local POOL_OPTIONS = { module = "string", size = "integer", queue = "integer", restart = "boolean" }

local function start_member(pool, number)
  local settings = { name = ("%s %d"):format(pool.module, number), daemon = true, quiet = true }
  return vm.spawn(settings, pool.module)
end

function vm.pool(...)
  local options = ...
  if type(options) ~= "table" then
    wrong(2, 1, "pool", "table expected, got %s", type_given(...))
  end
  check_options(2, 1, "pool", options, POOL_OPTIONS)
  check_positive(2, 1, "pool", options, "size")
  if options.queue and options.queue < 0 then
    wrong(2, 1, "pool", "option 'queue' must not be negative, got %d", options.queue)
  end
  if not options.module then wrong(2, 1, "pool", "option 'module' expected") end
  local size = options.size or vm.cores()
  local pool = setmetatable({
    module = options.module,
    most_waiting = options.queue,
    restarts = options.restart ~= false,
    size = size,
    waiting = 0,
    members = {},
    free = {},
    hints = process.channel(size),
  }, Pool)
  for number = 1, size do
    local member, why = start_member(pool, number)
    if not member then
      pool:close(0)
      error(why, 2)
    end
    pool.members[number] = member
    pool.free[number] = number
  end
  return pool
end

-- The member of this number, started anew if it has died. nil and why if there is none.
local function living(pool, number)
  local member = pool.members[number]
  if member and member:status() ~= "dead" then return member end
  if member and not pool.restarts then return nil, "dead" end
  local why
  pool.members[number], why = start_member(pool, number)
  return pool.members[number], why
end

-- The numbers of the members that are free are in a list. A kill may come between any two
-- instructions of a caller, also when it has just received something. So it changes the list in
-- critical sections, which note what is its own, and gives all back at its end. Callers wait for
-- hints that the list has something. A caller that ends passes its hint on.

local function take_number(pool, caller)
  caller.number = table.remove(pool.free, 1)
  if not caller.number and not caller.waits then
    caller.waits, pool.waiting = true, pool.waiting + 1
  end
end

local function give_back(pool, caller)
  if caller.number then table.insert(pool.free, caller.number) end
  if caller.waits then pool.waiting = pool.waiting - 1 end
  caller.number, caller.waits = nil, nil
end

local function leave(pool, caller)
  critical(give_back, pool, caller)
  if #pool.free > 0 then pool.hints:send(true, 0) end
end

-- Waits for a free member. Returns its number, or nil if the time is over or the pool was closed.
local function await_member(pool, caller, timeout)
  repeat
    critical(take_number, pool, caller)
    if caller.number then break end
  until not pool.hints:receive(timeout and timeout())
  if caller.waits then
    critical(function() caller.waits, pool.waiting = nil, pool.waiting - 1 end)
  end
  return caller.number
end

local function check_self(self, name)
  if getmetatable(self) == Pool then return end
  wrong(3, 0, name, "pool expected, got %s", type_given(self))
end

function Pool:call(name, ...)
  check_self(self, ":call")
  if self.is_closed then return nil, "closed" end
  if self.most_waiting and #self.free == 0 and self.waiting >= self.most_waiting then
    return nil, "full"
  end
  local caller = {}
  local guard <close> = closing(function()
    local member = self.is_closed and caller.number and self.members[caller.number]
    leave(self, caller)
    if member then member:kill() end
  end)
  local number = await_member(self, caller)
  if not number or self.is_closed then return nil, "closed" end
  local member, why = living(self, number)
  if not member then return nil, why end
  return member:call(name, ...)
end

-- Takes no more calls, waits at most so long for those that run, and ends the VMs.
function Pool:close(timeout)
  check_self(self, ":close")
  if self.is_closing then return false, "closed" end
  self.is_closing = true
  local until_then = process.now() + (timeout or math.huge)
  local function left() return max(0, until_then - process.now()) end
  for _ = 1, #self.members do
    if not await_member(self, {}, left) then break end
  end
  self.is_closed = true
  self.hints:close()
  for _, member in ipairs(self.members) do member:kill("its pool was closed", 1) end
  for _, member in ipairs(self.members) do member:join(2) end
  return true
end
