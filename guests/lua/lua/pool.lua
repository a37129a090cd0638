-- process.pool: objects that processes borrow, such as connections of a database.
--
-- A pool has `size` slots. Whoever has one may have an object: an idle one, or a new one. The slot
-- belongs to a loan, which is there before the slot is taken, and gives it back when it is closed.
-- So a kill loses nothing, wherever it comes. `take` returns the loan, and a kill may come before
-- it is in a variable: the pool knows these loans, and takes them back when their process has
-- ended. `ends` only wakes one that waits, to look for such loans.
local part, refuse_argument, type_given = ...
local process = part

local methods, of_loans = {}, {}
local Pool = { __index = methods, __name = "pool" }
local Loan = { __index = of_loans, __name = "loan" }

-- {== Those who wait, in order

local function enqueue(pool, loan)
  pool.last = pool.last + 1
  pool.queue[pool.last] = loan
  loan.place = pool.last
  loan.gate = process.event()
end

-- Leaves no holes at the ends.
local function leave_queue(pool, loan)
  pool.queue[loan.place] = false
  loan.place = nil
  while pool.first <= pool.last and not pool.queue[pool.first] do
    pool.queue[pool.first] = nil
    pool.first = pool.first + 1
  end
  while pool.first <= pool.last and not pool.queue[pool.last] do
    pool.queue[pool.last] = nil
    pool.last = pool.last - 1
  end
end

-- ==}

-- {== Slots

-- The first that waits gets the slot.
local function hand_on(pool)
  process.critical(function()
    local loan = pool.queue[pool.first]
    if loan then
      leave_queue(pool, loan)
      loan.has_slot = true
      loan.gate:set()
    else
      pool.used = pool.used - 1
    end
  end)
end

local HandOn = { __close = function(self) hand_on(self.pool) end }

-- The object has left the pool already.
local function dispose(pool, object)
  pool.discarded = pool.discarded + 1
  if pool.close_object then pool.close_object(object) end
end

-- What is left to do when a loan has lost its slot. In a `__close` method, as a kill may come.
local Rest = {
  __close = function(rest)
    if not rest.has_slot then return end
    local _ <close> = setmetatable({ pool = rest.pool }, HandOn)
    if rest.object ~= nil then dispose(rest.pool, rest.object) end
  end,
}

local function give_back(loan, is_broken)
  local pool = loan.pool
  local rest <close> = setmetatable({ pool = pool, has_slot = false }, Rest)
  process.critical(function()
    local object = loan.object
    rest.has_slot, loan.has_slot, loan.object, pool.lent[loan] = loan.has_slot, false, nil, nil
    if not rest.has_slot then return end
    if is_broken or pool.is_closed then
      rest.object = object
    elseif object ~= nil then
      pool.idle[#pool.idle + 1] = object
    end
  end)
  return rest.has_slot
end

-- For an object that the calling process has not used: a failure is not its own.
local function report(is_closed, why)
  if not is_closed then io.stderr:write("process.pool: cannot close: ", tostring(why), "\n") end
end

-- Takes back what processes had that have ended.
local function take_back(pool)
  while pool.ends:receive(0) do end
  local left = process.critical(function()
    local left = {}
    for loan in pairs(pool.lent) do
      if loan.owner:status() == "dead" then left[#left + 1] = loan end
    end
    return left
  end)
  for _, loan in ipairs(left) do report(pcall(give_back, loan, not pool.check)) end
end

local function await_slot(loan, timeout)
  local pool = loan.pool
  local deadline = timeout and process.now() + timeout
  while not loan.has_slot and not pool.is_closed do
    local left = deadline and deadline - process.now()
    if not process.select({ loan.gate, pool.ends }, left) then return end
    take_back(pool)
  end
end

-- Returns true, or nil and why not.
local function take_slot(loan, timeout)
  local pool = loan.pool
  if next(pool.lent) then take_back(pool) end
  process.critical(function()
    if pool.is_closed then return end
    if pool.used < pool.size then
      pool.used = pool.used + 1
      loan.has_slot = true
    else
      enqueue(pool, loan)
    end
  end)
  if loan.place then await_slot(loan, timeout) end
  if pool.is_closed then return nil, "closed" end
  if loan.has_slot then return true end
  return nil, "timeout"
end

-- ==}

-- {== Loans

local function next_idle(loan)
  local pool = loan.pool
  return process.critical(function()
    loan.object = table.remove(pool.idle)
    return loan.object
  end)
end

-- A kill in the middle of a check leaves the object in doubt. One whose check fails is refused.
local function is_usable(loan)
  local check = loan.pool.check
  if not check then return true end
  loan.is_doubtful = true
  local is_checked, accepts = pcall(check, loan.object)
  loan.is_doubtful = false
  return is_checked and accepts
end

-- Gives the loan an object. Returns true, or nil and why the making failed.
local function find_object(loan)
  local pool = loan.pool
  while next_idle(loan) ~= nil do
    if is_usable(loan) then return true end
    process.shield(function()
      local object = loan.object
      loan.object = nil
      report(pcall(dispose, pool, object))
    end)
  end
  return process.shield(function()
    if pool.is_closed then return nil, "closed" end
    local object, why = pool.make()
    if not object then return nil, why or "nothing was made" end
    loan.object, pool.made = object, pool.made + 1
    return true
  end)
end

local function new_loan(pool)
  return setmetatable({ pool = pool, has_slot = false, owner = process.current() }, Loan)
end

local function fill(loan, timeout)
  local has_slot, why = take_slot(loan, timeout)
  if not has_slot then return nil, why end
  return find_object(loan)
end

-- Without a `check`, what was in use at an error or a kill is made anew.
local function is_broken(loan, failed) return loan.is_doubtful or failed and not loan.pool.check end

local function end_loan(loan, failure)
  local pool = loan.pool
  process.critical(function()
    if loan.place then leave_queue(pool, loan) end
  end)
  give_back(loan, is_broken(loan, failure ~= nil or loan.is_in_use))
  -- It may have been woken for what another process had.
  if loan.gate then take_back(pool) end
end

Loan.__close = end_loan

-- Ends a loan that `take` has not returned.
local Untaken = {
  __close = function(self, failure)
    if not self.is_taken then end_loan(self.loan, failure) end
  end,
}

local function check_loan(loan, name)
  if getmetatable(loan) ~= Loan then
    refuse_argument(3, 0, name, ("loan expected, got %s"):format(type_given(loan)))
  end
end

-- Gives the object back. Returns false if the loan has none any more.
function of_loans:give_back()
  check_loan(self, ":give_back")
  return give_back(self, false)
end

-- Gives the slot back. The object is closed, and the next one is made anew.
function of_loans:discard()
  check_loan(self, ":discard")
  return give_back(self, true)
end

-- ==}

local function check_pool(pool, name)
  if getmetatable(pool) ~= Pool then
    refuse_argument(3, 0, name, ("pool expected, got %s"):format(type_given(pool)))
  end
end

local function check_timeout(timeout, number, name)
  if timeout ~= nil and (type(timeout) ~= "number" or timeout ~= timeout) then
    local got = timeout ~= timeout and "NaN" or type_given(timeout)
    refuse_argument(3, number, name, ("number expected, got %s"):format(got))
  end
end

-- An error is seen by the loan itself. A coroutine that is closed in `f` leaves none.
local function used(loan, ...)
  loan.is_in_use = false
  return ...
end

-- Calls f(object). Returns its results, or nil and "timeout", "closed" or what `make` has said.
function methods:with(f, timeout)
  check_pool(self, ":with")
  if type(f) ~= "function" then
    refuse_argument(2, 1, ":with", ("function expected, got %s"):format(type_given(f)))
  end
  check_timeout(timeout, 2, ":with")
  local loan <close> = new_loan(self)
  local is_filled, why = fill(loan, timeout)
  if not is_filled then return nil, why end
  loan.is_in_use = true
  return used(loan, f(loan.object))
end

-- Returns a loan with the field `object`, for a `<close>` variable; or nil and why not.
function methods:take(timeout)
  check_pool(self, ":take")
  check_timeout(timeout, 1, ":take")
  local loan = new_loan(self)
  local guard <close> = setmetatable({ loan = loan }, Untaken)
  loan.owner:monitor(self.ends)
  local is_filled, why = fill(loan, timeout)
  if not is_filled then return nil, why end
  process.critical(function() self.lent[loan], guard.is_taken = true, true end)
  return loan
end

-- All idle objects are closed, whatever happens meanwhile. The first error is raised.
local Closing = {
  __close = function(closing)
    local pool, failure = closing.pool, nil
    while #pool.idle > 0 do
      local is_closed, why = pcall(dispose, pool, table.remove(pool.idle))
      if not is_closed then failure = failure or { why } end
    end
    if failure then error(failure[1], 0) end
  end,
}

-- What processes still have that end without giving it back.
local function take_back_the_rest(pool)
  while next(pool.lent) do
    pool.ends:receive()
    take_back(pool)
  end
end

-- Closes the idle objects now, and the others when they are given back. Nobody gets one any more.
function methods:close()
  check_pool(self, ":close")
  local _ <close> = setmetatable({ pool = self }, Closing)
  process.critical(function()
    self.is_closed = true
    while self.queue[self.first] do
      local loan = self.queue[self.first]
      leave_queue(self, loan)
      loan.gate:set()
    end
  end)
  take_back(self)
  if next(self.lent) then
    process.spawn({ daemon = true, quiet = true, name = "pool" }, take_back_the_rest, self)
  end
end

Pool.__close = methods.close

-- Figures of this instant.
function methods:stats()
  check_pool(self, ":stats")
  return process.critical(function()
    local waiting = 0
    for place = self.first, self.last do
      if self.queue[place] then waiting = waiting + 1 end
    end
    return {
      size = self.size,
      idle = #self.idle,
      lent = self.used,
      waiting = waiting,
      made = self.made,
      discarded = self.discarded,
    }
  end)
end

local function check_option(options, name, wanted, is_needed)
  local value = options[name]
  if type(value) ~= wanted and (is_needed or value ~= nil) then
    local got = ("option '%s': %s expected, got %s"):format(name, wanted, type_given(value))
    refuse_argument(3, 1, "pool", got)
  end
end

function part.pool(options)
  if type(options) ~= "table" then
    refuse_argument(2, 1, "pool", ("table expected, got %s"):format(type_given(options)))
  end
  check_option(options, "make", "function", true)
  check_option(options, "check", "function")
  check_option(options, "close", "function")
  local size = math.tointeger(options.size)
  if not size or size < 1 then
    local text = "option 'size': whole number of at least 1 expected, got %s"
    refuse_argument(2, 1, "pool", text:format(tostring(options.size)))
  end
  for name in pairs(options) do
    if not (name == "make" or name == "size" or name == "check" or name == "close") then
      refuse_argument(2, 1, "pool", ("unknown option '%s'"):format(tostring(name)))
    end
  end
  return setmetatable({
    make = options.make,
    check = options.check,
    close_object = options.close,
    size = size,
    used = 0,
    idle = {},
    queue = {},
    first = 1,
    last = 0,
    lent = {},
    ends = process.channel(1),
    made = 0,
    discarded = 0,
    is_closed = false,
  }, Pool)
end
