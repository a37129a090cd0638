-- c:queue: durable queues. A job belongs to the process that has received it, until that says how
-- it ends. If the process ends before, the job is given back.

local core = ...
local engine, process, methods = core.engine, core.process, core.methods
local rules, refuse = core.rules, core.refuse

local OPEN, SEND, RECEIVE, DONE, RETRY, REJECT, UNTRIED = 5, 6, 7, 8, 9, 10, 16
local ACK, TRIES, REPLICAS, PREFETCH = 30, 5, 1, 256
local OPEN_PATIENCE = 10 -- seconds
local FAILURE_PAUSE = 0.1 -- seconds until a worker is replaced whose own code has failed

local Queue = { __name = "cluster queue" }
Queue.__index = {}
local Job = { __name = "job" }
Job.__index = {}

-- What programs must not touch: the connections' states and the numbers of jobs.
local queue_of = setmetatable({}, { __mode = "k" })
local held_of = setmetatable({}, { __mode = "k" })

-- Holding jobs
-- -------------------------------------------------------------------------------------------------

local function give_back(state, kind, number)
  core.submit(state, kind, 0, nil, nil, nil, number, 0)
end

-- For a job that nobody has seen.
function core.give_back(state, number) give_back(state, UNTRIED, number) end

-- Gives back the jobs of processes that have ended.
local function watch_holders(state)
  for ending in state.endings:values() do
    local numbers = state.holders[ending.process]
    state.holders[ending.process] = nil
    for number in next, numbers or {} do give_back(state, RETRY, number) end
  end
end

-- The numbers of the jobs that a process holds. No kill may come between: the dispatcher calls it,
-- or a critical section.
local function numbers_of(state, holder)
  local numbers = state.holders[holder]
  if not numbers then
    if not state.endings then
      state.endings = process.channel(1)
      process.spawn({ daemon = true, name = "cluster holders" }, watch_holders, state)
    end
    numbers = {}
    state.holders[holder] = numbers
    holder:monitor(state.endings)
  end
  return numbers
end

-- Notes that a process holds a job, before the process can run on.
local function hold(state, waiter)
  numbers_of(state, waiter.process)[waiter.second] = true
end

local function let_go(state, holder, number)
  local numbers = state.holders[holder]
  if numbers then numbers[number] = nil end
end

-- A job that came when its process had given up.
local function unwanted(state, waiter)
  let_go(state, waiter.process, waiter.second)
  core.give_back(state, waiter.second)
end

local RECEIVING = { on_answer = hold, unwanted = unwanted }

-- Ends a job, once.
local function end_job(self, call, kind, delay, why)
  local held = held_of[self]
  if not held then
    if getmetatable(self) == Job then return nil, "over" end
    refuse(3, 0, call, "job expected, got %s", type(self))
  end
  held_of[self] = nil
  let_go(held.state, held.holder, held.number)
  return core.submit(held.state, kind, 0, nil, why, nil, held.number, delay)
end

-- The fields of the sender's context, as `work` sets them.
function Job.__index:context()
  local held = held_of[self]
  if not held then
    if getmetatable(self) == Job then return nil, "over" end
    refuse(2, 0, "context", "job expected, got %s", type(self))
  end
  local fields = {}
  for name, value in pairs(held.fields) do fields[name] = value end
  return fields
end

function Job.__index:done() return end_job(self, "done", DONE) end

function Job.__index:retry(delay)
  if delay ~= nil and not rules.time[1](delay) then
    refuse(2, 1, "retry", "%s expected, got %s", rules.time[2], tostring(delay))
  end
  return end_job(self, "retry", RETRY, delay or 0)
end

function Job.__index:reject(why)
  if why ~= nil and type(why) ~= "string" then
    refuse(2, 1, "reject", "string expected, got %s", type(why))
  end
  return end_job(self, "reject", REJECT, nil, why or "it was rejected")
end

-- Queues
-- -------------------------------------------------------------------------------------------------

local QUEUE_OPTIONS = {
  max = rules.count,
  ack = {
    function(value) return rules.span[1](value) and value >= 0.1 and value <= 86400 end,
    "number of seconds from 0.1 to 86400",
  },
  tries = rules.count,
  dead = {
    function(value) return value == false or rules.name[1](value) end,
    "name of a queue, or false,",
  },
  replicas = rules.count,
  prefetch = {
    function(value) return math.type(value) == "integer" and value >= 0 and value <= 10000 end,
    "integer from 0 to 10000",
  },
}

function methods:queue(name, options)
  local state = core.state_for(self, "queue")
  core.check_name(2, 1, "queue", name)
  options = core.check_options(2, 2, "queue", options, QUEUE_OPTIONS)
  local dead = options.dead
  if dead == nil and not name:find "%-dead$" then dead = name .. "-dead" end
  if dead == name then refuse(2, 2, "queue", "option 'dead': another queue expected") end
  local answer, why = core.ask(
    state,
    OPEN_PATIENCE,
    nil,
    OPEN,
    name,
    dead or nil,
    nil,
    options.max or -1,
    options.ack or ACK,
    options.tries or TRIES,
    options.replicas or REPLICAS,
    options.prefetch or PREFETCH
  )
  if not answer then return nil, why end
  local queue = setmetatable({ name = name }, Queue)
  queue_of[queue] = { state = state, name = name }
  return queue
end

local function opened(self, call)
  return queue_of[self] or refuse(3, 0, call, "cluster queue expected, got %s", type(self))
end

local SEND_OPTIONS = { id = rules.string, delay = rules.time, timeout = rules.time }

-- Stores a job. With a timeout, gives up after it: then the job may have been stored.
function Queue.__index:send(value, options)
  local queue = opened(self, "send")
  options = core.check_options(2, 2, "send", options, SEND_OPTIONS)
  local id, timeout = options.id, core.check_timeout(2, 2, "send", options.timeout)
  if id and (id == "" or #id > 200 or id:find "%c") then
    refuse(2, 2, "send", "option 'id': a line of 1 to 200 bytes expected")
  end
  local bytes = core.add_work(core.pack(2, queue.state, "job", value))
  core.check_size(2, queue.state, "the job", bytes)
  local answer, why = core.ask(
    queue.state,
    nil,
    nil,
    SEND,
    queue.name,
    id,
    bytes,
    options.delay or 0,
    timeout or -1
  )
  if not answer then return nil, why end
  core.spare(answer)
  return true
end

-- A job of a process. A value that cannot be read is no job for the program: it goes to the dead.
local function job_of(queue, holder, payload, why, tries, number)
  local is_read, value = engine.unpack(payload)
  local job =
    setmetatable({ tries = tries, why = why ~= "" and why or nil, value = nil }, Job)
  if is_read then job.value = value end
  local fields = core.work_of(payload)
  held_of[job] = { state = queue.state, number = number, holder = holder, fields = fields }
  if is_read then return job end
  job:reject(value)
end

-- Takes a job that was fetched ahead.
local function take_ahead(state, name, holder)
  return engine.take_job(state.engine, name, numbers_of(state, holder))
end

local function receive_ahead(queue)
  local state, holder = queue.state, process.current()
  if state.closed then return nil end
  local payload, why, tries, number =
    process.critical(take_ahead, state, queue.name, holder)
  while payload do
    local job = job_of(queue, holder, payload, why, tries, number)
    if job then return job end
    payload, why, tries, number = process.critical(take_ahead, state, queue.name, holder)
  end
end

-- Asks the server for a job.
local function receive_from_server(queue, timeout)
  local deadline = timeout and process.now() + timeout
  while true do
    local waits, rest = 1, deadline and math.max(deadline - process.now(), 0)
    if rest == 0 then waits, rest = 0, OPEN_PATIENCE end
    local answer, why =
      core.ask(queue.state, rest, RECEIVING, RECEIVE, queue.name, nil, nil, waits)
    if not answer then return nil, why end
    local job =
      job_of(queue, answer.process, answer.payload, answer.text, answer.first, answer.second)
    core.spare(answer)
    if job then return job end
  end
end

function Queue.__index:receive(timeout)
  local queue = opened(self, "receive")
  timeout = core.check_timeout(2, 1, "receive", timeout)
  local job = receive_ahead(queue)
  if job then return job end
  return receive_from_server(queue, timeout)
end

-- Work
-- -------------------------------------------------------------------------------------------------

-- A job for which a function runs. If the function returns, the job is done; if it fails, it is
-- tried again; if it is killed, the end of its process gives it back.
local function work_on(job, f)
  local fields = held_of[job].fields
  local is_done, failure =
    xpcall(core.with_fields, debug.traceback, fields, f, job.value, job)
  if not held_of[job] then return end
  if is_done then
    job:done()
  else
    warn("a job is tried again: " .. tostring(failure))
    job:retry()
  end
end

local function work(queue, f, stop)
  while not stop:is_set() do
    local job, why = queue:receive(1)
    if job then
      work_on(job, f)
    elseif why == "closed" then
      return
    elseif why ~= "timeout" then
      process.sleep(0.1)
    end
  end
end

local Work = { __name = "work" }
Work.__index = {}

-- Begins no more jobs, and waits for those in progress.
function Work.__index:close()
  self.stop:set()
  self.keeper:join()
  for _, worker in ipairs(self.workers) do worker:join() end
end

Work.__close = Work.__index.close

local function start_worker(started, place)
  local name = ("worker %d of %s"):format(place, started.queue.name)
  local worker = process.spawn({ name = name }, work, started.queue, started.f, started.stop)
  started.workers[place], started.places[worker] = worker, place
  worker:monitor(started.endings)
end

-- Replaces each worker that was killed or has failed, until all have returned.
local function keep_workers(started)
  while next(started.places) do
    local ending = started.endings:receive()
    local place = started.places[ending.process]
    started.places[ending.process] = nil
    if ending.ended ~= "returned" and not started.stop:is_set() then
      if ending.ended == "failed" then started.stop:wait(FAILURE_PAUSE) end
      start_worker(started, place)
    end
  end
end

-- Has n processes call f(value, job) for each job.
function Queue.__index:work(n, f)
  opened(self, "work")
  if math.type(n) ~= "integer" or n < 1 then
    refuse(2, 1, "work", "positive integer expected, got %s", tostring(n))
  end
  if type(f) ~= "function" then refuse(2, 2, "work", "function expected, got %s", type(f)) end
  local started = setmetatable({
    queue = self, f = f, stop = process.event(), workers = {}, places = {},
    endings = process.channel(1),
  }, Work)
  for place = 1, n do start_worker(started, place) end
  started.keeper = process.spawn({ name = "workers of " .. self.name }, keep_workers, started)
  return started
end
