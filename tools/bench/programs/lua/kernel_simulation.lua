-- A small operating system, similar to the Richards benchmark. Tasks of several kinds pass packets
-- through queues, and a dispatcher runs the most urgent one that can run. It uses objects, linked
-- lists and dynamic dispatch.
local rounds = tonumber(arg[1]) or 90

local Task = {}
Task.__index = Task

local function kind(run)
  local class = setmetatable({ run = run }, { __index = Task })
  class.__index = class
  return class
end

local function append(packet, list)
  packet.link = nil
  if not list then
    return packet
  end
  local last = list
  while last.link do
    last = last.link
  end
  last.link = packet
  return list
end

local Kernel = {}
Kernel.__index = Kernel

function Kernel.new()
  return setmetatable({ tasks = {}, first = nil, sent = 0, held = 0, switches = 0 }, Kernel)
end

-- Tasks form a list by urgency, with the most urgent first.
function Kernel:add(id, urgency, class, state)
  local task =
    setmetatable({ id = id, urgency = urgency, queue = nil, held = false, waiting = false }, class)
  for key, value in pairs(state or {}) do
    task[key] = value
  end
  self.tasks[id] = task
  local before, after = nil, self.first
  while after and after.urgency > urgency do
    before, after = after, after.next
  end
  task.next = after
  if before then
    before.next = task
  else
    self.first = task
  end
  return task
end

function Kernel:send(packet, to)
  local task = self.tasks[to]
  packet.to = to
  task.queue, task.waiting = append(packet, task.queue), false
  self.sent = self.sent + 1
end

function Kernel:hold(task)
  task.held = true
  self.held = self.held + 1
end

function Kernel:release(id)
  self.tasks[id].held = false
end

function Task:can_run()
  return not self.held and (self.queue ~= nil or not self.waiting)
end

function Task:take()
  local packet = self.queue
  if packet then
    self.queue, packet.link = packet.link, nil
  end
  return packet
end

function Kernel:run()
  local task = self.first
  while task do
    if task:can_run() then
      self.switches = self.switches + 1
      task:run(self, task:take())
      task = self.first
    else
      task = task.next
    end
  end
end

-- Counts down, and wakes a device that the bits of a shift register select.
local Idle = kind(function(task, kernel)
  task.count = task.count - 1
  if task.count == 0 then
    kernel:hold(task)
    return
  end
  local bit = task.register & 1
  task.register = task.register >> 1 ~ (bit == 1 and 0xD008 or 0)
  kernel:release(bit == 1 and "disk" or "line")
end)

-- Returns a packet to the task that waits for the device, after the device was woken.
local Device = kind(function(task, kernel, packet)
  if packet then
    task.pending = append(packet, task.pending)
    kernel:hold(task)
    return
  end
  local done = task.pending
  if not done then
    task.waiting = true
    return
  end
  task.pending, done.link = done.link, nil
  kernel:send(done, done.handler)
end)

-- Combines requests with work, byte by byte.
local Handler = kind(function(task, kernel, packet)
  if packet then
    local list = packet.work and "works" or "requests"
    task[list] = append(packet, task[list])
  end
  local work = task.works
  if work then
    if work.at > #work.data then
      task.works, work.link = work.link, nil
      kernel:send(work, "worker")
      return
    end
    local request = task.requests
    if request then
      task.requests, request.link = request.link, nil
      request.value, request.handler = work.data[work.at], task.id
      work.at = work.at + 1
      kernel:send(request, task.device)
      return
    end
  end
  task.waiting = true
end)

-- Fills packets with letters and sends them to the handlers in turn.
local Worker = kind(function(task, kernel, packet)
  if not packet then
    task.waiting = true
    return
  end
  task.turn = task.turn == "disk handler" and "line handler" or "disk handler"
  packet.at = 1
  for i = 1, #packet.data do
    task.letter = task.letter % 26 + 1
    packet.data[i] = task.letter + 64
  end
  kernel:send(packet, task.turn)
end)

local checksum = 0
for _ = 1, rounds do
  local kernel = Kernel.new()
  kernel:add("idle", 0, Idle, { count = 2000, register = 1 })
  kernel:add("worker", 1000, Worker, { letter = 0, turn = "line handler" })
  kernel:add("disk handler", 2000, Handler, { device = "disk" })
  kernel:add("line handler", 3000, Handler, { device = "line" })
  kernel:add("disk", 4000, Device)
  kernel:add("line", 5000, Device)
  for _ = 1, 2 do
    kernel:send({ work = true, at = 1, data = { 0, 0, 0, 0 } }, "worker")
  end
  for _ = 1, 3 do
    kernel:send({}, "disk handler")
    kernel:send({}, "line handler")
  end
  kernel:run()
  checksum = (checksum * 31 + kernel.sent * 7 + kernel.held * 3 + kernel.switches) % 1000000007
end
print(checksum)
