-- require "baton.cluster": messages, services, durable queues and tables between programs.
--
-- `engine` has functions in C (c/cluster/module.c), which never wait. Each connection has a daemon
-- process, the dispatcher, which takes what the engine gives and wakes the processes that wait.
-- cluster/*.lua have the methods of services, queues and tables.

local engine = ...
local process = require "baton.process"

local PUBLISH, SUBSCRIBE, CANCEL, CLOSE = 1, 2, 4, 15 -- kinds of commands
local ANSWER, REFUSAL, MESSAGE, ENTRY, ONLINE, CLOSED = 1, 2, 3, 4, 5, 6 -- kinds of events
local FULL_PAUSE = 0.001 -- seconds until a command is tried again for which there was no room
local CONNECT_PATIENCE = 30 -- seconds
local MOST_MESSAGES = 1024
local MOST_SPARE = 4096 -- waiters that are kept to be used again
local NAME = "^[%w_-]+$"

local methods = {}
local Connection = { __index = methods, __name = "cluster connection" }

-- What programs must not touch: connections and their states.
local state_of = setmetatable({}, { __mode = "k" })

-- Checking
-- -------------------------------------------------------------------------------------------------

local core = { engine = engine, process = process, methods = methods }

function core.refuse(level, number, name, text, ...)
  if name ~= "connect" then name = ":" .. name end -- a method
  engine.refuse(level + 1, number, name, text:format(...))
end
local refuse = core.refuse

local function is_boolean(value) return type(value) == "boolean" end
local function is_string(value) return type(value) == "string" and not value:find("%z") end
local function is_time(value) return type(value) == "number" and value >= 0 end
local function is_span(value) return type(value) == "number" and value > 0 and value < math.huge end
local function is_chance(value) return type(value) == "number" and value >= 0 and value <= 1 end
local function is_count(value) return math.type(value) == "integer" and value >= 1 end
local function is_name(value)
  return type(value) == "string" and #value <= 100 and value:find(NAME) ~= nil
end

-- Rules for options: a check, and what it expects.
core.rules = {
  boolean = { is_boolean, "boolean" },
  string = { is_string, "string" },
  time = { is_time, "number of seconds, not negative," },
  span = { is_span, "positive number of seconds" },
  chance = { is_chance, "number from 0 to 1" },
  count = { is_count, "positive integer" },
  name = { is_name, "name of letters, digits, '_' and '-'" },
}
local rules = core.rules

function core.check_options(level, number, call, given, known)
  if given == nil then return {} end
  if type(given) ~= "table" then
    refuse(level + 1, number, call, "table expected, got %s", type(given))
  end
  for key, value in next, given do
    local rule = known[key]
    if not rule then refuse(level + 1, number, call, "unknown option '%s'", tostring(key)) end
    if not rule[1](value) then
      refuse(
        level + 1,
        number,
        call,
        "option '%s': %s expected, got %s",
        key,
        rule[2],
        type(value) == "table" and "table" or tostring(value)
      )
    end
  end
  return given
end
local check_options = core.check_options

function core.check_name(level, number, call, value)
  if not is_name(value) then
    refuse(level + 1, number, call, "%s expected, got %s", rules.name[2], tostring(value))
  end
  return value
end

function core.check_timeout(level, number, call, value)
  if value == nil then return nil end
  if type(value) ~= "number" or value ~= value then
    refuse(level + 1, number, call, "number of seconds expected, got %s", tostring(value))
  end
  return value < math.huge and math.max(value, 0) or nil
end

function core.check_self(level, self, states, call, what)
  return states[self] or refuse(level + 1, 0, call, "%s expected, got %s", what, type(self))
end

local function state_for(self, call)
  return state_of[self] or refuse(3, 0, call, "cluster connection expected, got %s", type(self))
end
core.state_for = state_for

-- Refuses what would not be one subject: `*` and `>` are only for subscriptions.
local function check_subject(level, call, subject, may_have_wildcards)
  local words = type(subject) == "string" and #subject <= 1000 and subject or ""
  local is_wrong = words == ""
    or words:find "[%s%c]"
    or ("." .. words .. "."):find("..", 1, true)
    or not may_have_wildcards and words:find "[*>]"
  if is_wrong then
    refuse(
      level + 1,
      1,
      call,
      "a subject like 'news.sport' expected, got %s",
      type(subject) == "string" and ("'%s'"):format(subject) or type(subject)
    )
  end
  return subject
end

-- The bytes of a value. An error is raised at `level`.
function core.pack(level, state, name, value)
  local is_packed, bytes = pcall(engine.pack, name, value)
  if not is_packed then error(bytes, level + 1) end
  core.check_size(level + 1, state, name, bytes)
  return bytes
end

function core.check_size(level, state, name, bytes)
  local most = engine.max_payload(state.engine)
  if #bytes <= most then return end
  error(
    ("cannot send %s: it has %d bytes, and the server takes at most %d"):format(name, #bytes, most),
    level + 1
  )
end

-- Commands
-- -------------------------------------------------------------------------------------------------

-- In a simulated run, what one connection sends may be for another one.
local simulated = {}

local function wake_simulated()
  for state in next, simulated do state.wake:set() end
end

local is_simulated = engine.is_simulated

local submit_to = engine.submit

-- Gives a command to the engine. Returns nil and "closed" if the connection is closed.
local function submit(state, ...)
  local has_room = not state.closed and submit_to(state.engine, ...)
  while not has_room do
    if state.closed or has_room == nil then return nil, "closed" end
    process.sleep(FULL_PAUSE)
    has_room = not state.closed and submit_to(state.engine, ...)
  end
  if is_simulated then wake_simulated() end
  return true
end
core.submit = submit

local new_ticket, new_event, current = engine.ticket, process.event, process.current
-- In C, so that no other process can come between.
local insert, remove = table.insert, table.remove

-- A process that waits for an answer. What happens to an answer for which nobody waits any more,
-- `unwanted` decides.
local Waiter = {
  __close = function(waiter)
    local state = waiter.state
    if state.waiting[waiter.ticket] then
      state.waiting[waiter.ticket] = nil
      submit(state, CANCEL, waiter.ticket)
    end
    if waiter.unwanted and not waiter.is_taken and waiter.kind == ANSWER then
      waiter.unwanted(state, waiter)
    end
  end,
}

-- A waiter that waits for nothing yet. One whose answer was read may be used again, as making one
-- costs more than all else that a command does here.
local function new_waiter(state)
  -- It has all its fields now, so that it need not grow.
  return remove(state.spare)
    or setmetatable({
      state = state, ticket = 0, answered = new_event(), process = false, unwanted = false,
      on_answer = false, is_taken = false, kind = false, text = false, payload = false,
      first = false, second = false,
    }, Waiter)
end

-- Lets an answer of core.ask be used again, when it was read.
function core.spare(waiter)
  local spare = waiter.state.spare
  if #spare >= MOST_SPARE then return end
  waiter.text, waiter.payload, waiter.process = false, false, false
  waiter.is_taken, waiter.kind = false, false
  waiter.answered:clear()
  insert(spare, waiter)
end

-- Sends a command and waits for its answer: a record with `payload`, `text` and two numbers. Else
-- returns nil and why.
function core.ask(state, timeout, options, kind, ...)
  local ticket = new_ticket()
  local waiter <close> = new_waiter(state)
  waiter.ticket, waiter.process = ticket, current()
  waiter.unwanted = options and options.unwanted
  waiter.on_answer = options and options.on_answer
  state.waiting[ticket] = waiter
  local done, why = submit(state, kind, ticket, ...)
  if done then done, why = waiter.answered:wait(timeout) end
  if not done then return nil, why end
  waiter.is_taken = true
  if waiter.kind == REFUSAL then return nil, waiter.text end
  return waiter
end
local ask = core.ask

-- The dispatcher
-- -------------------------------------------------------------------------------------------------

local function answered(state, kind, ticket, text, payload, first, second)
  local waiter = state.waiting[ticket]
  if waiter == nil then
    if kind == ANSWER and second ~= 0 then core.give_back(state, second) end
    return
  end
  state.waiting[ticket] = nil
  waiter.kind, waiter.text, waiter.payload = kind, text, payload
  waiter.first, waiter.second = first, second
  if waiter.on_answer and kind == ANSWER then waiter.on_answer(state, waiter) end
  waiter.answered:set()
end

local function end_all(state)
  state.closed = true
  for _, waiter in next, state.waiting do
    waiter.kind, waiter.text = REFUSAL, "closed"
    waiter.answered:set()
  end
  state.waiting = {}
  for _, listener in next, state.listeners do listener:ended() end
  state.listeners = {}
  simulated[state] = nil
end

-- Handles one event. Returns false if there is none.
local function handle(state, kind, ticket, subject, text, payload, first, second)
  if kind == nil then return false end
  if kind == ANSWER or kind == REFUSAL then
    answered(state, kind, ticket, text, payload, first, second)
  elseif kind == MESSAGE or kind == ENTRY then
    local listener = state.listeners[ticket]
    if listener then listener:take(subject, text, payload, first) end
  elseif kind == ONLINE then
    state.online:set()
    if first == 0 then state.online:clear() end
  elseif kind == CLOSED then
    end_all(state)
  end
  return true
end

local function handle_all(state)
  while not state.closed and handle(state, engine.take(state.engine)) do end
end

local function dispatch(state)
  local descriptor = engine.descriptor(state.engine)
  local cases = { { fd = descriptor, "r" } }
  while not state.closed do
    state.wake:clear()
    handle_all(state)
    if state.closed then break end
    if descriptor then
      process.select(cases)
    else
      wake_simulated()
      state.wake:clear()
      state.wake:wait(engine.due(state.engine))
    end
  end
  engine.finish(state.engine)
  state.over:set()
end

-- Connecting
-- -------------------------------------------------------------------------------------------------

local FAULTS = {
  delay = rules.time, loss = rules.chance, duplication = rules.chance, every = rules.time,
  lasts = rules.time,
}

local OPTIONS = {
  url = rules.string,
  name = rules.string,
  credentials = {
    function(value) return is_string(value) or type(value) == "table" end,
    "path, or table with 'user' and 'password' or with 'token',",
  },
  tls = {
    function(value) return is_boolean(value) or type(value) == "table" end,
    "boolean, or table with 'ca', 'cert' and 'key',",
  },
  timeout = rules.time,
  faults = { function(value) return type(value) == "table" end, "table" },
}

local CREDENTIALS = { user = rules.string, password = rules.string, token = rules.string }
local TLS = { ca = rules.string, cert = rules.string, key = rules.string }

-- The flat options of the engine.
local function flat(options)
  local flat = {
    url = options.url or "nats://127.0.0.1:4222", name = options.name or arg and arg[0] or "baton",
    encrypted = options.tls and 1 or 0,
  }
  if type(options.credentials) == "table" then
    local given = check_options(4, 1, "connect", options.credentials, CREDENTIALS)
    local is_whole = (given.user == nil) == (given.password == nil)
    if not is_whole or (given.user == nil) == (given.token == nil) then
      refuse(3, 1, "connect", "option 'credentials': 'user' and 'password', or 'token', expected")
    end
    for key, value in next, given do flat[key] = value end
  else
    flat.credentials = options.credentials
  end
  if type(options.tls) == "table" then
    local given = check_options(4, 1, "connect", options.tls, TLS)
    if (given.cert == nil) ~= (given.key == nil) then
      refuse(3, 1, "connect", "option 'tls': 'cert' without 'key', or 'key' without 'cert'")
    end
    for key, value in next, given do flat[key] = value end
  end
  local faults = check_options(4, 1, "connect", options.faults, FAULTS)
  flat.delay = faults.delay or 0.001
  for key, value in next, faults do flat[key] = value end
  flat.seed = engine.is_simulated and math.random(1 << 50) or 0
  return flat
end

-- A process that connects. If it gives up, so does the engine.
local Connecting = {
  __close = function(waiter)
    if not waiter.is_connected and waiter.state.engine then
      submit(waiter.state, CLOSE, new_ticket())
    end
  end,
}

local cluster = {}

function cluster.connect(options)
  options = check_options(2, 1, "connect", options, OPTIONS)
  local state = {
    waiting = {}, spare = {}, listeners = {}, holders = {}, name = options.name or "",
    wake = process.event(),
    over = process.event(),
    online = process.event(),
  }
  local settings = flat(options)
  local ticket = new_ticket()
  local waiter <close> = setmetatable({ state = state, answered = process.event() }, Connecting)
  state.waiting[ticket] = waiter
  state.engine = engine.connect(settings, ticket)
  if engine.is_simulated then
    simulated[state] = true
    waiter.kind = ANSWER
    waiter.answered:set()
  end
  process.spawn({ daemon = true, name = "cluster dispatcher" }, dispatch, state)
  local done, why = waiter.answered:wait(options.timeout or CONNECT_PATIENCE)
  if not done or waiter.kind == REFUSAL then return nil, why or waiter.text end
  waiter.is_connected = true
  local connection = setmetatable({}, Connection)
  state_of[connection] = state
  return connection
end

function methods:status()
  local state = state_for(self, "status")
  return state.closed and "closed" or engine.state(state.engine)
end

-- Sends what was published, and ends the connection. What waits for it returns nil, "closed".
function methods:close()
  local state = state_for(self, "close")
  if state.closed or engine.state(state.engine) == "closed" then
    state.closed = true
    return true
  end
  local answer, why = ask(state, nil, nil, CLOSE)
  state.over:wait()
  if not answer and why ~= "closed" then return nil, why end
  return true
end

Connection.__close = function(self) self:close() end
Connection.__tostring = function(self)
  return ("cluster connection: %s"):format(self:status())
end

-- Publishing
-- -------------------------------------------------------------------------------------------------

function methods:publish(subject, value)
  local state = state_for(self, "publish")
  check_subject(2, "publish", subject)
  if value == nil then refuse(2, 2, "publish", "a value expected, got nil") end
  local bytes = core.pack(2, state, "value", value)
  if self:status() == "offline" then return nil, "offline" end
  return submit(state, PUBLISH, 0, subject, nil, bytes)
end

local subscription_methods = {}
local Subscription = { __index = subscription_methods, __name = "subscription" }

-- Puts a message into the channel. The dispatcher must not wait, so a full channel loses it.
function Subscription.take(sub, subject, _, payload)
  local is_read, value = engine.unpack(payload)
  if not is_read or value == nil then
    sub.unreadable = sub.unreadable + 1
    return
  end
  if sub.has_subjects then value = { subject = subject, value = value } end
  if not sub.channel:send(value, 0) then sub.dropped = sub.dropped + 1 end
end

function Subscription.ended(sub)
  sub.dropped = sub.dropped + engine.lost(sub.state.engine, sub.ticket)
  sub.channel:close()
end

local SUBSCRIBE_OPTIONS = { queue = rules.name, max = rules.count, subjects = rules.boolean }

function methods:subscribe(subject, options)
  local state = state_for(self, "subscribe")
  check_subject(2, "subscribe", subject, true)
  options = check_options(2, 2, "subscribe", options, SUBSCRIBE_OPTIONS)
  local most, ticket = options.max or MOST_MESSAGES, new_ticket()
  local sub = setmetatable({
    state = state, ticket = ticket, channel = process.channel(most), unreadable = 0, dropped = 0,
    has_subjects = options.subjects,
    take = Subscription.take,
    ended = Subscription.ended,
  }, Subscription)
  state.listeners[ticket] = sub
  local subscribed, why = core.listen(state, SUBSCRIBE, ticket, subject, options.queue, nil, most)
  if not subscribed then return nil, why end
  return sub
end

-- A process that waits until its listener is known.
local Begun = {
  __close = function(waiter)
    local state, ticket = waiter.state, waiter.ticket
    state.waiting[ticket] = nil
    if waiter.kind ~= ANSWER then
      state.listeners[ticket] = nil
      submit(state, CANCEL, ticket)
    end
  end,
}

-- Sends a command whose ticket has a listener, and waits until it is known.
function core.listen(state, kind, ticket, ...)
  local waiter <close> =
    setmetatable({ state = state, ticket = ticket, answered = process.event() }, Begun)
  state.waiting[ticket] = waiter
  local done, why = submit(state, kind, ticket, ...)
  if not done then return nil, why end
  waiter.answered:wait()
  if waiter.kind == REFUSAL then return nil, waiter.text end
  return true
end

function core.stop_listening(state, ticket)
  if not state.listeners[ticket] then return end
  state.listeners[ticket] = nil
  submit(state, CANCEL, ticket)
end

function subscription_methods:receive(timeout) return self.channel:receive(timeout) end
function subscription_methods:values() return self.channel:values() end

-- How many messages were lost as too many waited, and how many could not be read.
function subscription_methods:lost()
  local state = self.state
  local lost = state.closed and 0 or engine.lost(state.engine, self.ticket)
  return lost + self.dropped, self.unreadable
end

function subscription_methods:close()
  core.stop_listening(self.state, self.ticket)
  self.channel:close()
end

Subscription.__close = subscription_methods.close

for _, part in ipairs { "work", "services", "queues", "tables" } do
  engine.source("cluster/" .. part)(core)
end

return cluster
