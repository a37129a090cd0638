-- Philosophers around a table: each thinks, takes the fork at its left and the one at its right,
-- eats, and puts them back.
--
--   baton examples/philosophers.lua [-n PHILOSOPHERS] [-m MEALS] [-t SECONDS] [--monitor]
--   [--symmetric]
--
-- By default there are forty, and -n 40000 works too. Each eats ten meals, and thinks and eats for
-- up to -t seconds each time. The forks are semaphores, or with --monitor a mutex with conditions.
-- The last philosopher takes the right fork first, so that one of them can always eat. With
-- --symmetric it takes the left one first, as the others do, and all take their left forks at the
-- same moment. Then none can go on, and Baton reports the deadlock.
--
-- A terminal shows each of them: "." thinks, "h" is hungry, "E" eats.

local process = require "baton.process"

local USAGE =
  "usage: philosophers.lua [-n PHILOSOPHERS] [-m MEALS] [-t SECONDS] [--monitor] [--symmetric]"
local SHOWN = 400 -- philosophers on the terminal
local FRAME = 0.05 -- seconds between two pictures

-- Forks as semaphores with a count of one. With `reach`, a barrier, no philosopher takes the second
-- fork before all have the first.
local function semaphores(number)
  local forks = {}
  for i = 1, number do forks[i] = process.semaphore(1) end
  local hands = {}
  function hands.take(first, second, reach)
    forks[first]:wait()
    if reach then reach:wait() end
    forks[second]:wait()
  end
  function hands.put(first, second)
    forks[second]:signal()
    forks[first]:signal()
  end
  return hands
end

-- Forks in a monitor. A philosopher holds the mutex while it reads or changes them, and waits for
-- the condition of a fork that is taken. It takes both forks under one lock of the mutex if it can.
-- With two locks, the second one would queue behind all philosophers that want their first fork.
-- Soon each of them would hold one fork and wait for the other.
local function monitor(number)
  local mutex, taken, put_back = process.mutex(), {}, {}
  for i = 1, number do put_back[i] = process.condition(mutex) end
  local function take(i)
    while taken[i] do put_back[i]:wait() end
    taken[i] = true
  end
  local function put(i)
    taken[i] = nil
    put_back[i]:signal()
  end
  local hands = {}
  function hands.take(first, second, reach)
    if reach then
      mutex:with(take, first)
      reach:wait()
      return mutex:with(take, second)
    end
    mutex:with(function()
      take(first)
      take(second)
    end)
  end
  function hands.put(first, second)
    mutex:with(function()
      put(second)
      put(first)
    end)
  end
  return hands
end

-- What each philosopher does at the moment, and an event that says that this has changed.
local View = {}
View.__index = View

local function new_view(number)
  local view = { number = number, meals = 0, changed = process.event() }
  for i = 1, number do view[i] = "." end
  return setmetatable(view, View)
end

function View:set(i, state)
  self[i] = state
  self.changed:set()
end

function View:draw(again)
  local rows, shown = {}, math.min(self.number, SHOWN)
  for i = 1, shown, 40 do rows[#rows + 1] = table.concat(self, " ", i, math.min(i + 39, shown)) end
  rows[#rows + 1] = ("%d meals"):format(self.meals)
  local up = again and ("\27[%dA"):format(#rows) or ""
  io.write(up, "\27[K", table.concat(rows, "\n\27[K"), "\n")
  io.flush()
end

-- Draws only when something has changed. A timer that went on would hide a deadlock.
function View:watch()
  local again = false
  while true do
    self:draw(again)
    again = true
    process.sleep(FRAME)
    self.changed:wait()
    self.changed:clear()
  end
end

local function pause(options)
  if options.seconds > 0 then
    process.sleep(math.random() * options.seconds)
  else
    process.yield()
  end
end

-- The life of one philosopher.
local function live(i, options, hands, view, reach)
  local first, second = i, i % options.number + 1
  if i == options.number and not options.symmetric then first, second = second, first end
  for _ = 1, options.meals do
    pause(options)
    view:set(i, "h")
    hands.take(first, second, reach)
    view:set(i, "E")
    pause(options)
    hands.put(first, second)
    view.meals = view.meals + 1 -- not atomic, but it is only shown
    view:set(i, ".")
  end
  return options.meals
end

local function read_options(arguments)
  local options = { number = 40, meals = 10, seconds = 0.02 }
  local names = { ["-n"] = "number", ["-m"] = "meals", ["-t"] = "seconds" }
  local flags = { ["--monitor"] = "monitor", ["--symmetric"] = "symmetric" }
  local i, understood = 1, true
  while arguments[i] do
    local name, flag = names[arguments[i]], flags[arguments[i]]
    if name then
      i = i + 1
      options[name] = tonumber(arguments[i])
    elseif flag then
      options[flag] = true
    else
      understood = false
    end
    i = i + 1
  end
  local function whole(n, least) return math.type(n) == "integer" and n >= least end
  local seconds = options.seconds
  if
    not (
      understood
      and whole(options.number, 2)
      and whole(options.meals, 1)
      and seconds
      and seconds >= 0
    )
  then
    io.stderr:write(USAGE, "\n")
    os.exit(2)
  end
  return options
end

local function is_terminal()
  local ffi = require "baton.ffi"
  ffi.cdef "int isatty(int descriptor);"
  return ffi.C.isatty(1) == 1
end

local options = read_options(arg)
local hands = (options.monitor and monitor or semaphores)(options.number)
local view = new_view(options.number)
local reach = options.symmetric and process.barrier(options.number)
local viewer = is_terminal() and process.spawn({ name = "view", daemon = true }, view.watch, view)
local start = process.now()

local philosophers = {}
for i = 1, options.number do
  philosophers[i] =
    process.spawn({ name = "philosopher " .. i }, live, i, options, hands, view, reach)
end
local meals = 0
for _, philosopher in ipairs(philosophers) do
  local _, eaten = assert(philosopher:join())
  meals = meals + eaten
end
if viewer then
  viewer:kill()
  viewer:join()
  view.meals = meals
  view:draw(true)
end
local way = options.monitor and "a monitor" or "semaphores"
print(
  ("%d philosophers with %s have eaten %d meals in %.1f s"):format(
    options.number,
    way,
    meals,
    process.now() - start
  )
)
