-- process.scope(f): processes that do not outlive the call that they were spawned in.
local process, is_killed, end_process, spawner_of = ...

local methods = {}
local Scope = { __index = methods, __name = "scope" }

-- Nobody is added any more when this is called.
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

-- The end of a child. The first failure counts, whatever its value, and ends the others; a kill is none.
local End = {}

function End:__close(failure)
  local scope = self.scope
  if self.has_returned then
    scope.children[process.current()] = nil
  elseif not is_killed() then
    process.critical(function() scope.failure = scope.failure or { failure } end)
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

local function refuse(number, name, wanted, got)
  error(("bad argument #%d to '%s' (%s expected, got %s)"):format(number, name, wanted, type(got)), 3)
end

-- As process.spawn. Nobody but the scope reports a failure.
function methods:spawn(...)
  local options, f, first = {}, (...), 2
  if type(f) == "table" then options, f, first = f, (select(2, ...)), 3 end
  if type(f) ~= "function" then refuse(first - 1, "spawn", "function", f) end
  local own = { quiet = true }
  for name, value in pairs(options) do own[name] = value end
  local spawn = self.spawner
  local child = spawn(own, live, self, f, select(first, ...))
  if not child then error(self.is_over and "the scope has ended" or "a process of the scope has failed", 2) end
  return child
end

-- Without a failure nobody is left by now. What came first is raised: also instead of an error in the function, which may have come of it.
function Scope:__close()
  local failure = self.failure
  self.is_over = true
  kill_all(self)
  join_all(self)
  if failure then error(failure[1], 0) end
end

local function run(f)
  local scope <close> = setmetatable({ children = {} }, Scope)
  scope.spawner = spawner_of(scope)
  local results = table.pack(f(scope))
  join_all(scope)
  return table.unpack(results, 1, results.n)
end

function process.scope(f)
  if type(f) ~= "function" then refuse(1, "scope", "function", f) end
  return run(f)
end
