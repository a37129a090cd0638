-- An incremental solver of constraints of different strength, similar to the DeltaBlue benchmark
-- (Freeman-Benson, Maloney, Borning 1990). A stronger constraint may overrule a weaker one, and a
-- plan recomputes the variables that depend on an edit.
local rounds = tonumber(arg[1]) or 340

-- Strengths, from the strongest.
local REQUIRED, PREFERRED, DEFAULT, WEAKEST = 0, 2, 4, 6

local Variable = {}
Variable.__index = Variable

local function variable(value)
  return setmetatable(
    { value = value, users = {}, source = nil, strength = WEAKEST, mark = 0, stay = true },
    Variable
  )
end

local function remove(list, item)
  for i = 1, #list do
    if list[i] == item then
      table.remove(list, i)
      return
    end
  end
end

-- A constraint can be satisfied in one of several ways. Each way names the variable that it sets,
-- and those that it reads.
local Constraint = {}
Constraint.__index = Constraint

local function class(compute, is_input)
  local new = setmetatable({ compute = compute, is_input = is_input }, { __index = Constraint })
  new.__index = new
  return new
end

local Stay = class(function() end, false)
local Edit = class(function() end, true)
local Equal = class(function(constraint)
  local way = constraint.way
  way.sets.value = way.reads[1].value
end, false)
local Linear = class(function(constraint)
  local a, b = constraint.a, constraint.b
  local factor, offset = constraint.factor.value, constraint.offset.value
  if constraint.way.sets == b then
    b.value = a.value * factor + offset
  else
    a.value = (b.value - offset) // factor
  end
end, false)

local function constraint(type, strength, ways, fields)
  local new = setmetatable(fields or {}, type)
  new.strength, new.ways, new.way = strength, ways, nil
  return new
end

local function unary(type, on, strength)
  return constraint(type, strength, { { sets = on, reads = {} } })
end

local function equal(a, b, strength)
  return constraint(Equal, strength, { { sets = b, reads = { a } }, { sets = a, reads = { b } } })
end

local function linear(a, factor, offset, b, strength)
  local ways =
    { { sets = b, reads = { a, factor, offset } }, { sets = a, reads = { b, factor, offset } } }
  return constraint(Linear, strength, ways, { a = a, b = b, factor = factor, offset = offset })
end

function Constraint:each_variable(visit)
  local way = self.ways[1]
  visit(way.sets)
  for i = 1, #way.reads do
    visit(way.reads[i])
  end
end

-- Chooses the way whose variable is set most weakly. Returns false if none is weaker than this
-- constraint.
function Constraint:choose(mark)
  self.way = nil
  local weakest = self.strength
  for _, way in ipairs(self.ways) do
    if way.sets.mark ~= mark and way.sets.strength > weakest then
      self.way, weakest = way, way.sets.strength
    end
  end
  return self.way ~= nil
end

-- Gives the variable that this constraint sets its strength, and notes whether it can change by
-- itself.
function Constraint:pass_on()
  local sets, strength, stay = self.way.sets, self.strength, not self.is_input
  for _, way in ipairs(self.ways) do
    if way ~= self.way and way.sets.strength > strength then
      strength = way.sets.strength
    end
  end
  for _, read in ipairs(self.way.reads) do
    stay = stay and read.stay
  end
  sets.strength, sets.stay = strength, stay
  if stay then
    self:compute()
  end
end

local Planner = {}
Planner.__index = Planner

local function planner()
  return setmetatable({ mark = 0 }, Planner)
end

function Planner:new_mark()
  self.mark = self.mark + 1
  return self.mark
end

-- Satisfies a constraint, and returns the one that it overrules.
function Planner:keep(new, mark)
  if not new:choose(mark) then
    assert(new.strength ~= REQUIRED, "a required constraint cannot be kept")
    return nil
  end
  for _, read in ipairs(new.way.reads) do
    read.mark = mark
  end
  local sets = new.way.sets
  local overruled = sets.source
  if overruled then
    overruled.way = nil
  end
  sets.source = new
  self:propagate(new, mark)
  sets.mark = mark
  return overruled
end

function Planner:add(new)
  new:each_variable(function(used)
    used.users[#used.users + 1] = new
  end)
  local mark = self:new_mark()
  local next_one = new
  while next_one do
    next_one = self:keep(next_one, mark)
  end
end

-- Passes strengths and values on to all variables that depend on what a constraint sets.
function Planner:propagate(from, mark)
  local pending = { from }
  while #pending > 0 do
    local current = table.remove(pending)
    assert(current.way.sets.mark ~= mark, "constraints go in a circle")
    current:pass_on()
    self:push_dependents(current.way.sets, pending)
  end
end

function Planner:push_dependents(of, pending)
  for _, user in ipairs(of.users) do
    if user ~= of.source and user.way and user.way.sets ~= of then
      pending[#pending + 1] = user
    end
  end
end

function Planner:remove(old)
  local sets = old.way and old.way.sets
  old:each_variable(function(used)
    remove(used.users, old)
  end)
  if not sets then
    return
  end
  old.way, sets.source, sets.strength, sets.stay = nil, nil, WEAKEST, true
  local unkept, pending, seen = {}, { sets }, {}
  while #pending > 0 do
    local changed = table.remove(pending)
    for _, user in ipairs(changed.users) do
      if not user.way then
        if not seen[user] then
          seen[user] = true
          unkept[#unkept + 1] = user
        end
      elseif user ~= changed.source and user.way.sets ~= changed then
        user:pass_on()
        pending[#pending + 1] = user.way.sets
      end
    end
  end
  for strength = REQUIRED, WEAKEST do
    for _, user in ipairs(unkept) do
      if user.strength == strength and not user.way then
        local mark, next_one = self:new_mark(), user
        while next_one do
          next_one = self:keep(next_one, mark)
        end
      end
    end
  end
end

-- The constraints to compute, in order, when the inputs change.
function Planner:plan(input)
  local mark, plan, pending = self:new_mark(), {}, { input }
  while #pending > 0 do
    local current = table.remove(pending)
    local sets = current.way.sets
    if sets.mark ~= mark then
      local known = true
      for _, read in ipairs(current.way.reads) do
        known = known and (read.mark == mark or read.stay)
      end
      if known then
        plan[#plan + 1] = current
        sets.mark = mark
        self:push_dependents(sets, pending)
      end
    end
  end
  return plan
end

local function execute(plan)
  for i = 1, #plan do
    plan[i]:compute()
  end
end

-- Edits a variable several times, through a plan.
local function change(solver, of, values)
  local edit = unary(Edit, of, PREFERRED)
  solver:add(edit)
  local plan = solver:plan(edit)
  for i = 1, #values do
    of.value = values[i]
    execute(plan)
  end
  solver:remove(edit)
  return #plan
end

-- A chain of equalities: a value set at one end arrives at the other.
local function chain(length)
  local solver, links = planner(), {}
  for i = 0, length do
    links[i] = variable(0)
  end
  for i = 1, length do
    solver:add(equal(links[i - 1], links[i], REQUIRED))
  end
  solver:add(unary(Stay, links[length], DEFAULT))
  local steps = change(solver, links[0], { 11, 22, 33 })
  assert(links[length].value == 33, "the chain is broken")
  return steps
end

-- Pairs of variables, of which one is a linear function of the other. The relation holds in both
-- directions.
local function projection(count)
  local solver, pairs_of = planner(), {}
  local factor, offset = variable(10), variable(1000)
  solver:add(unary(Stay, factor, DEFAULT))
  solver:add(unary(Stay, offset, DEFAULT))
  for i = 1, count do
    local from, to = variable(i), variable(i)
    pairs_of[i] = { from, to }
    solver:add(unary(Stay, from, DEFAULT))
    solver:add(linear(from, factor, offset, to, REQUIRED))
  end
  local first, last = pairs_of[1], pairs_of[count]
  local steps = change(solver, first[1], { 17 })
  assert(first[2].value == 1170, "not projected")
  steps = steps + change(solver, last[2], { 1050 })
  assert(last[1].value == 5, "not projected back")
  steps = steps + change(solver, factor, { 5, 3 })
  for i = 1, count - 1 do
    assert(pairs_of[i][2].value == pairs_of[i][1].value * 3 + 1000, "the factor did not arrive")
  end
  return steps
end

local checksum = 0
for round = 1, rounds do
  checksum = (checksum * 17 + chain(80) + projection(60) * round) % 1000000007
end
print(checksum)
