-- process.scope([options,] f): processes that do not outlive the call that spawned them.
local process, is_killed, end_process, spawner_of, ending_of, raise, refuse_argument, type_given =
  ...

local methods = {}
local Scope = { __index = methods, __name = "scope" }

-- Called when no child can be added any more.
local function kill_all(scope)
  for child in pairs(scope.children) do
    if child ~= process.current() then end_process(child) end
  end
end

local function join_all(scope)
  local child = next(scope.children)
  while child do
    child:join()
    scope.children[child] = nil
    child = next(scope.children)
  end
end

-- The end of a child. The first failure counts, whatever its value is, and ends the other children.
-- A kill is not a failure.
local End = {}

function End:__close(failure)
  local scope = self.scope
  if self.has_returned then
    scope.children[process.current()] = nil
  elseif not is_killed() then
    process.critical(function()
      if not scope.cancelled then
        scope.failure = scope.failure or { failure, from = process.current() }
      end
    end)
    kill_all(scope)
  end
end

local function returned(ending, ...)
  ending.has_returned = true
  return ...
end

local function live(scope, f, ...)
  local ending <close> = setmetatable({ scope = scope }, End)
  return returned(ending, f(...))
end

-- The last arguments are the one that is refused, if it was given, and those after it.
local function refuse(number, name, wanted, ...)
  refuse_argument(3, number, name, ("%s expected, got %s"):format(wanted, type_given(...)))
end

local function why_nobody_is_taken(scope)
  if scope.is_over then return "the scope has ended" end
  return scope.cancelled and "the scope was cancelled" or "a process of the scope has failed"
end

-- A name for the scope's next process without a name of its own.
local function next_name(scope)
  if not scope.name then return nil end
  return process.critical(function()
    scope.unnamed = (scope.unnamed or 0) + 1
    return scope.name .. "/" .. scope.unnamed
  end)
end

-- A process of a scope without a name needs no options of its own. Not changed by anybody.
local QUIET = { quiet = true }

-- As process.spawn, but only the scope reports a failure.
function methods:spawn(...)
  if getmetatable(self) ~= Scope then refuse(0, ":spawn", "scope", self) end
  if type((...)) == "function" and not self.name then
    return self.spawner(QUIET, live, self, ...) or error(why_nobody_is_taken(self), 2)
  end
  local options, f, first = {}, (...), 2
  if type(f) == "table" then options, f, first = f, (select(2, ...)), 3 end
  if type(f) ~= "function" then refuse(first - 1, ":spawn", "function", select(first - 1, ...)) end
  local own = { quiet = true }
  for name, value in pairs(options) do own[name] = value end
  if own.name == nil then own.name = next_name(self) end
  local spawn = self.spawner
  local child = spawn(own, live, self, f, select(first, ...))
  if not child then error(why_nobody_is_taken(self), 2) end
  return child
end

-- Ends all processes of the scope. The scope's call returns nil and the reason of the first cancel.
-- If the caller is a process of the scope, it ends here.
function methods:cancel(reason)
  if getmetatable(self) ~= Scope then refuse(0, ":cancel", "scope", self) end
  if reason == nil then reason = "cancelled" end
  local is_first = process.critical(function()
    if self.is_over then return nil end
    local first = not self.cancelled and not self.failure
    if first then self.cancelled = { reason } end
    return first
  end)
  if is_first == nil then return false, "dead" end
  kill_all(self)
  local me = process.current()
  if self.children[me] then end_process(me) end
  return true
end

-- Raises the error with which a process of the scope has failed. A message handler's traceback
-- continues with the traceback of the process.
local function raise_failure(failure)
  local from = failure.from
  local trace = from:traceback():gsub(
    "^stack traceback:",
    function() return ("raised in process '%s':"):format(from.name) end
  )
  raise(failure[1], trace)
end

-- Without a failure, no child is left here. The first failure of a child is raised, even instead of
-- an error in the function, as that may result from it.
function Scope:__close()
  self.is_over = true
  kill_all(self)
  join_all(self)
  if self.failure then raise_failure(self.failure) end
end

local function make(options)
  local scope = setmetatable({ children = {}, name = options.name }, Scope)
  scope.spawner = spawner_of(scope)
  return scope
end

-- The results of the scope's call: those of the function, or nil and a reason after a cancel.
local function results_of(scope, ...)
  if scope.cancelled then return nil, scope.cancelled[1] end
  return ...
end

local function results_after_all(scope, ...)
  join_all(scope)
  return results_of(scope, ...)
end

local function run(f)
  local scope <close> = make {}
  return results_after_all(scope, f(scope))
end

-- Waits for the process until the deadline. Returns whether it has ended.
local function has_ended(child, deadline)
  return child:join(deadline and deadline - process.now()) ~= nil
end

-- As join_all, but with a deadline. It also waits for processes that are spawned meanwhile.
local function join_all_until(scope, deadline)
  local child = next(scope.children)
  while child do
    if not has_ended(child, deadline) then
      scope:cancel "timeout"
      return join_all(scope)
    end
    scope.children[child] = nil
    child = next(scope.children)
  end
end

local function deadline_of(timeout)
  return timeout and timeout < math.huge and process.now() + timeout or nil
end

-- The results of the call, from the end of the scope's first process.
local function outcome(scope, body, ended_well, ...)
  -- leaving the scope raises a failure
  if ended_well or ending_of(body) == "failed" then return results_of(scope, ...) end
  return results_of(scope, nil, ...)
end

-- The function runs as a process of the scope, so that it can be ended, too.
local function run_with(options, f)
  local scope <close> = make(options)
  local deadline = deadline_of(options.timeout)
  local body = scope:spawn({ name = options.name, time_left = options.timeout }, f, scope)
  join_all_until(scope, deadline)
  return outcome(scope, body, body:join())
end

local option_types = { timeout = "number", name = "string" }

local function check_options(options)
  for name, value in pairs(options) do
    local wanted = option_types[name]
    if not wanted then
      refuse_argument(3, 1, "scope", ("unknown option '%s'"):format(tostring(name)))
    end
    if type(value) ~= wanted or value ~= value then
      local got = value ~= value and "NaN" or type_given(value)
      local text = ("option '%s': %s expected, got %s"):format(name, wanted, got)
      refuse_argument(3, 1, "scope", text)
    end
  end
end

function process.scope(...)
  local options, f = ...
  if type(options) == "table" then
    check_options(options)
    if type(f) ~= "function" then refuse(2, "scope", "function", select(2, ...)) end
    if options.timeout and options.timeout <= 0 then return nil, "timeout" end
    return run_with(options, f)
  end
  if type(options) ~= "function" then refuse(1, "scope", "function or table of options", ...) end
  return run(options)
end
