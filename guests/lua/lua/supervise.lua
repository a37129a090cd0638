-- process.supervise(children, options): a supervisor process, which starts other processes and
-- restarts them by rules when they end.
--
-- Only the supervisor's process changes the state of its children. It waits in one channel, its
-- inbox, for two kinds of messages. Monitors post the ends of children. Other processes send
-- commands: restart, stop, add.
local process, raise, end_process, refuse_argument, type_given = ...

local STOPPED = "stopped by its supervisor"
local MOST_COMMANDS = 1 << 30 -- so that sending a command never waits

-- Maps the objects that programs see to their states.
local state_of = setmetatable({}, { __mode = "k" })

-- Checking
-- -------------------------------------------------------------------------------------------------

local function refuse(level, number, name, text, ...)
  if name ~= "supervise" then name = ":" .. name end -- a method of supervisors
  refuse_argument(level + 1, number, name, text:format(...))
end

local function is_time(value) return type(value) == "number" and value >= 0 end
local function is_boolean(value) return type(value) == "boolean" end
local function is_string(value) return type(value) == "string" end
local function one_of(...)
  local set = {}
  for _, value in ipairs { ... } do set[value] = true end
  return function(value) return type(value) == "string" and set[value] or false end
end

local function is_callable(value)
  local meta = getmetatable(value)
  return type(value) == "function" or type(meta) == "table" and meta.__call ~= nil
end

local function is_start(value)
  return is_callable(value) or type(value) == "table" and is_callable(value[1])
end

local function is_count(value) return math.type(value) == "integer" and value >= 0 end

local function is_span(value) return is_time(value) and value > 0 end

local function is_backoff(value)
  return type(value) == "table"
    and is_time(value[1])
    and is_time(value[2])
    and value[1] <= value[2]
    and #value == 2
end

local CHILD = {
  name = { is_string, "string" },
  start = { is_start, "function, or {function, arguments...}," },
  children = { function(value) return type(value) == "table" end, "table" },
  options = { function(value) return type(value) == "table" end, "table" },
  restart = { one_of("always", "failed", "never"), "'always', 'failed' or 'never'" },
  stop = { is_time, "number of seconds, not negative," },
}

local OPTIONS = {
  strategy = { one_of("one", "all", "rest"), "'one', 'all' or 'rest'" },
  max = { is_count, "integer, not negative," },
  within = { is_span, "positive number of seconds" },
  backoff = { is_backoff, "{first, most}, two numbers of seconds," },
  name = { is_string, "string" },
  quiet = { is_boolean, "boolean" },
  lasting = { is_boolean, "boolean" },
}

local function check_fields(level, number, call, what, values, known)
  for key, value in pairs(values) do
    local rule = known[key]
    if key == "lease" and known == CHILD then
      rule = { is_callable, "function, as c:leasing returns it," }
    elseif key == "vm" and known == CHILD then
      local main = type(value) == "table" and value[1] or value
      local function is_main() return type(main) == "string" or type(main) == "function" end
      rule = { is_main, "name of a module, function, or {main, arguments...}," }
    end
    if not rule then
      refuse(level + 1, number, call, "%s: unknown option '%s'", what, tostring(key))
    end
    if not rule[1](value) then
      refuse(
        level + 1,
        number,
        call,
        "%s, option '%s': %s expected, got %s",
        what,
        key,
        rule[2],
        type(value)
      )
    end
  end
end

local check_children

-- Checks a child's description, and returns a complete copy.
local function check_child(level, call, given, what)
  if type(given) ~= "table" then
    refuse(level + 1, 1, call, "%s: table expected, got %s", what, type(given))
  end
  check_fields(level + 1, 1, call, what, given, CHILD)
  local bodies = (given.start and 1 or 0) + (given.children and 1 or 0) + (given.vm and 1 or 0)
  if bodies ~= 1 then
    refuse(level + 1, 1, call, "%s: 'start', 'vm' or 'children' expected", what)
  end
  if given.lease and not given.start then
    refuse(level + 1, 1, call, "%s: 'lease' without 'start'", what)
  end
  if given.options and not given.children then
    refuse(level + 1, 1, call, "%s: 'options' without 'children'", what)
  end
  local child = {
    name = given.name, restart = given.restart or "failed", stop = given.stop or 5, state = "new",
    restarts = 0,
    in_a_row = 0,
    lease = given.lease,
  }
  if given.children then
    check_fields(level + 1, 1, call, what, given.options or {}, OPTIONS)
    check_children(level + 1, call, given.children)
    child.children, child.options = given.children, given.options or {}
  elseif given.vm then
    child.main = type(given.vm) == "table" and table.pack(table.unpack(given.vm))
      or { given.vm, n = 1 }
  else
    child.start = is_callable(given.start) and { given.start, n = 1 }
      or table.pack(table.unpack(given.start))
  end
  return child
end

function check_children(level, call, given)
  local children, names = {}, {}
  for key in pairs(given) do
    if math.type(key) ~= "integer" or key < 1 or key > #given then
      refuse(level + 1, 1, call, "list of children expected, got the key '%s'", tostring(key))
    end
  end
  for i, each in ipairs(given) do
    local child = check_child(level + 1, call, each, "child " .. i)
    child.name = child.name or "child " .. i
    if names[child.name] then
      refuse(level + 1, 1, call, "two children of the name '%s'", child.name)
    end
    names[child.name] = true
    children[i] = child
  end
  return children
end

-- Starting and stopping
-- -------------------------------------------------------------------------------------------------

local supervise_here

local function body_of(child)
  if child.lease then return child.lease, table.unpack(child.start, 1, child.start.n) end
  if child.start then return table.unpack(child.start, 1, child.start.n) end
  if not child.main then return supervise_here, child end
  -- The child is a VM: its process starts it, and ends as it ends. Made here, as each step at the
  -- start of programs would change what the seeds of simulated runs do.
  return function()
    local w, why = require("baton.vm").spawn(
      { name = child.name, daemon = true, quiet = true },
      table.unpack(child.main, 1, child.main.n)
    )
    if not w then error(why, 0) end
    child.vm = w
    local guard <close> = setmetatable({}, { __close = function(_, err)
      local reason = type(err) == "string" and err or STOPPED
      local grace = child.stop * 0.8 -- the rest is for the end of a VM that must be halted
      if w:kill(reason, grace) then w:join() end
    end })
    local endings = process.channel(1)
    w:monitor(endings)
    local message = endings:receive()
    if message.ended == "killed" then process.current():kill(message.reason) end
    if message.ended == "failed" then error(message.reason, 0) end
    return select(2, w:join())
  end
end

-- Sets a child's state. Counts the children that run or wait for a restart, and lists the latter.
local function set_state(state, child, new)
  local was_alive, is_alive =
    child.state == "running" or child.state == "waiting", new == "running" or new == "waiting"
  state.alive = state.alive + (is_alive and 1 or 0) - (was_alive and 1 or 0)
  state.waiting[child] = new == "waiting" or nil
  child.state = new
end

local function insert(state, child)
  state.inserted = state.inserted + 1
  child.order = state.inserted
  child.state = "new"
  table.insert(state.children, child)
  state.by_name[child.name] = child
end

-- Drops a child that has ended. The list is rebuilt when half of it are dropped children.
local function drop(state, child)
  child.state = "dropped"
  state.by_name[child.name] = nil
  state.dropped = state.dropped + 1
  if state.dropped * 2 <= #state.children then return end
  local kept = {}
  for _, each in ipairs(state.children) do
    if each.state ~= "dropped" then kept[#kept + 1] = each end
  end
  state.children, state.dropped = kept, 0
end

-- A critical section: a kill must not leave a process that the supervisor does not know.
local function start(state, child)
  process.critical(function()
    child.supervisor, child.vm, child.reason = nil, nil, nil
    child.process =
      process.spawn({ name = child.name, quiet = state.options.quiet }, body_of(child))
    child.started = process.now()
    set_state(state, child, "running")
    state.by_process[child.process] = child
    child.process:monitor(state.inbox)
  end)
end

local function forget_process(state, child)
  state.by_process[child.process] = nil
  child.process = nil
end

-- Ends the child's process. After its grace period it is killed again, which also ends its
-- `<close>` methods. A process that does not end then is left alone.
local function stop_process(state, child)
  local p = child.process
  if not p then return end
  end_process(p, STOPPED) -- not p:kill(): after an earlier kill, that would cut `<close>` short
  if p:join(child.stop) == nil then
    p:kill()
    p:join(child.stop)
  end
  if child.process == p then forget_process(state, child) end
end

local function stop_all(state)
  for i = #state.children, 1, -1 do
    local child = state.children[i]
    stop_process(state, child)
    if child.state ~= "ended" and child.state ~= "dropped" then
      set_state(state, child, "stopped")
    end
  end
end

-- Rules
-- -------------------------------------------------------------------------------------------------

-- Fails, since the children end too often.
local function give_up(child, ended, reason)
  if ended == "failed" then
    local trace = child.process:traceback():gsub(
      "^stack traceback:",
      function() return ("raised in process '%s':"):format(child.name) end
    )
    raise(reason, trace)
  end
  if ended == "killed" then
    error(
      ("the child '%s' was killed too often, and last with: %s"):format(
        child.name,
        tostring(reason)
      ),
      0
    )
  end
  error(("the child '%s' has returned too often"):format(child.name), 0)
end

-- Notes a restart. Returns false if there were too many.
local function may_restart(state)
  local now, times = process.now(), state.times
  times[#times + 1] = now
  while times[1] and times[1] < now - state.options.within do table.remove(times, 1) end
  return #times <= state.options.max
end

-- The delay before a child starts again. It doubles each time, and starts anew after the child has
-- run well.
local function delay_of(state, child)
  local backoff = state.options.backoff
  if not backoff then return 0 end
  if process.now() - child.started >= state.options.within then child.in_a_row = 0 end
  child.in_a_row = child.in_a_row + 1
  return math.min(backoff[1] * 2.0 ^ (child.in_a_row - 1), backoff[2])
end

-- Whether a child that was stopped because of another one restarts with it.
local function returns_with_others(child, p)
  if child.restart == "never" then return false end
  return child.restart == "always" or p:join(0) ~= true -- true: it has returned by itself
end

-- Stops the other children that restart with this one by the strategy, the last one first.
local function stop_group(state, child, due)
  local strategy, first = state.options.strategy, 1
  if strategy == "one" then return end
  for i, each in ipairs(state.children) do
    if strategy == "rest" and each == child then first = i + 1 end
  end
  for i = #state.children, first, -1 do
    local each = state.children[i]
    if each ~= child and each.state == "running" then
      local p = each.process
      stop_process(state, each)
      set_state(state, each, returns_with_others(each, p) and "waiting" or "ended")
      each.due = due
    elseif each ~= child and each.state == "waiting" then
      each.due = math.max(each.due, due)
    end
  end
end

local function has_ended(state, message)
  local child = state.by_process[message.process]
  if not child then return end -- the supervisor has stopped it
  message.process:join() -- so that its failure is not reported
  local ended, reason = message.ended, message.reason
  child.ended, child.reason = ended, reason
  set_state(state, child, "ended")
  if child.restart == "always" or child.restart == "failed" and ended == "failed" then
    if not may_restart(state) then give_up(child, ended, reason) end
    child.due = process.now() + delay_of(state, child)
    set_state(state, child, "waiting")
    forget_process(state, child)
    stop_group(state, child, child.due)
  else
    forget_process(state, child)
    if state.options.lasting then drop(state, child) end
  end
end

-- Starts the children that are due, in the order of the list. Returns the time until the next one
-- is due, or nil.
local function start_due(state)
  if next(state.waiting) == nil then return nil end
  local now, due, soonest = process.now(), {}, nil
  for child in pairs(state.waiting) do
    if child.due <= now then
      due[#due + 1] = child
    else
      soonest = math.min(soonest or child.due, child.due)
    end
  end
  table.sort(due, function(one, other) return one.order < other.order end)
  for _, child in ipairs(due) do
    child.restarts = child.restarts + 1
    start(state, child)
  end
  return soonest and soonest - process.now()
end

-- Commands
-- -------------------------------------------------------------------------------------------------

local commands = {}

function commands.restart(state, name)
  local child = state.by_name[name]
  if not child then return nil, "no such child" end
  stop_process(state, child)
  child.in_a_row, child.restarts = 0, child.restarts + 1
  start(state, child)
  return child.process
end

function commands.stop(state, name)
  local child = state.by_name[name]
  if not child then return nil, "no such child" end
  stop_process(state, child)
  set_state(state, child, "stopped")
  return true
end

local function new_name(state)
  local number = state.inserted
  repeat number = number + 1 until not state.by_name["child " .. number]
  return "child " .. number
end

function commands.add(state, child)
  child.name = child.name or new_name(state)
  local former = state.by_name[child.name]
  if former and (former.state == "running" or former.state == "waiting") then
    return nil, "exists"
  end
  if former then drop(state, former) end
  insert(state, child)
  start(state, child)
  return child.process
end

-- The supervisor
-- -------------------------------------------------------------------------------------------------

local Closing = {
  __close = function(closing)
    stop_all(closing.state)
    closing.state.over:close()
    closing.state.inbox:close()
  end,
}

local function run(state)
  local _ <close> = setmetatable({ state = state }, Closing)
  for _, child in ipairs(state.children) do start(state, child) end
  while true do
    local timeout = start_due(state)
    if state.alive == 0 and not state.options.lasting then return end
    local message = state.inbox:receive(timeout)
    if message and message.command then
      message.reply:send(table.pack(commands[message.command](state, message.argument)))
    elseif message then
      has_ended(state, message)
    end
  end
end

local methods = {}

local Supervisor = {
  __name = "supervisor",
  __index = function(self, key)
    local method = methods[key]
    if method then return method end
    local value = state_of[self].process
    if key == "process" then return value end
    value = value[key]
    if type(value) ~= "function" then return value end
    return function(called, ...)
      return value(called == self and state_of[self].process or called, ...)
    end
  end,
  __tostring = function(self) return "supervisor: " .. tostring(state_of[self].process) end,
  __close = function(self)
    local p = state_of[self].process
    end_process(p)
    p:join()
  end,
}

local function make(children, options)
  local state = {
    children = {}, by_name = {}, by_process = {}, waiting = {}, alive = 0, inserted = 0,
    dropped = 0, times = {},
    inbox = process.channel(MOST_COMMANDS), over = process.channel(),
    options = {
      strategy = options.strategy or "one", max = options.max or 3, within = options.within or 5,
      backoff = options.backoff,
      quiet = options.quiet or false, lasting = options.lasting or false,
    },
  }
  for _, child in ipairs(children) do insert(state, child) end
  local object = setmetatable({}, Supervisor)
  state_of[object] = state
  return object, state
end

-- The body of a child that is itself a supervisor.
function supervise_here(child)
  local object, state = make(check_children(1, "supervise", child.children), child.options)
  state.process = process.current()
  child.supervisor = object
  return run(state)
end

function process.supervise(...)
  local children, options = ...
  if type(children) ~= "table" then
    refuse(2, 1, "supervise", "table expected, got %s", type_given(...))
  end
  if options ~= nil and type(options) ~= "table" then
    refuse(2, 2, "supervise", "table expected, got %s", type(options))
  end
  options = options or {}
  check_fields(2, 2, "supervise", "options", options, OPTIONS)
  local object, state = make(check_children(2, "supervise", children), options)
  process.critical(function()
    state.process =
      process.spawn({ name = options.name or "supervisor", quiet = options.quiet }, run, state)
  end)
  return object
end

local function check_self(self, name)
  return state_of[self] or refuse(3, 0, name, "supervisor expected, got %s", type_given(self))
end

-- Makes the supervisor's process execute a command, and returns its results.
local function command(state, name, argument, timeout)
  local reply = process.channel(1)
  if not state.inbox:send { command = name, argument = argument, reply = reply } then
    return false, "dead"
  end
  local index, answer, why = process.select({ reply, state.over }, timeout)
  if index == nil then return nil, answer end
  if why == "closed" then
    answer = reply:receive(0) -- the reply may have come, too
    if not answer then return false, "dead" end
  end
  return table.unpack(answer, 1, answer.n)
end

function methods:restart(name, timeout)
  local state = check_self(self, "restart")
  if type(name) ~= "string" then refuse(2, 1, "restart", "string expected, got %s", type(name)) end
  return command(state, "restart", name, timeout)
end

function methods:stop(name, timeout)
  local state = check_self(self, "stop")
  if type(name) ~= "string" then refuse(2, 1, "stop", "string expected, got %s", type(name)) end
  return command(state, "stop", name, timeout)
end

function methods:add(child, timeout)
  local state = check_self(self, "add")
  return command(state, "add", check_child(2, "add", child, "child"), timeout)
end

function methods:children()
  local state, list = check_self(self, "children"), {}
  process.critical(function()
    for _, child in ipairs(state.children) do
      list[#list + 1] = child.state ~= "dropped" and {
        name = child.name, state = child.state == "new" and "waiting" or child.state,
        process = child.process, restarts = child.restarts, ended = child.ended,
        reason = child.reason,
        supervisor = child.supervisor,
        vm = child.vm,
      } or nil
    end
  end)
  return list
end
