-- Compiled modules whose waits are made by processes: for what cannot wait in C as it is.
--
-- A module was written for programs with one thread. Where it notes something for the whole program
-- (which loop runs, whose handshake this is), a process that waits inside of it would keep all
-- others out, or be taken for another one. These modules can also be asked not to wait, and tell
-- what they would wait for: so the process waits, outside of the module, and calls again.
--
-- What C lends:
--   here()                               the running process; nil where there are none any more, as
--                                        the program ends
--   await(descriptor, timeout, writes)   waits until there is something to read, or room to write,
--                                        for so many seconds at most (nil: for ever). Returns
--                                        "ready" or "timeout"; nil at once where a process cannot
--                                        wait, such as in a critical section or a finalizer
--   hold_kills(f, ...)                   calls f, and puts a kill off until it has returned
--   shut_down(descriptor)                ends a connection in both directions: who waits for it
--                                        goes on
--   metatable_of(name)                   of the registry
local name, module, process, here, await, hold_kills, shut_down, metatable_of = ...

-- What one process at a time is inside of, callbacks included, as deep as it likes.
local function new_turn()
  local mutex = process.mutex()
  local lock, unlock = mutex.lock, mutex.unlock
  -- processes that are, or are about to be: a finalizer may come in between
  local inside = setmetatable({}, { __mode = "k" })
  local stays = setmetatable({}, { __mode = "k" }) -- by process: what ends its stay
  local Stay = { __close = function(stay)
    pcall(unlock, mutex) -- if it had come to that
    inside[stay.process] = nil
  end }
  local turn = {}

  -- Nobody else is inside, or ever will be.
  function turn.is_mine()
    local me = here()
    return me == nil or inside[me] ~= nil
  end

  local function come(me)
    if not stays[me] then stays[me] = setmetatable({ process = me }, Stay) end
    inside[me] = true
    return stays[me]
  end

  -- Calls f. Returns `otherwise` if the turn has not come in time (nil: there is no limit).
  function turn.take_within(timeout, otherwise, f, ...)
    local me = here()
    if me == nil or inside[me] then return f(...) end
    local _ <close> = come(me)
    if not lock(mutex, timeout) then return otherwise end
    return f(...)
  end

  function turn.take(f, ...) return turn.take_within(nil, nil, f, ...) end

  return turn
end

-- Of two timeouts in seconds; nil is for ever.
local function shorter(a, b)
  if a and b then return math.min(a, b) end
  return a or b
end

local adapt = {}

-- The controllers of cqueues.
function adapt._cqueues(core)
  if not (core.interpose and core.running) then return end
  local turn = new_turn()
  local running = core.running
  local nobody = table.pack(running())

  function core.running()
    if turn.is_mine() then return running() end
    return table.unpack(nobody, 1, nobody.n)
  end

  local waits = setmetatable({}, { __mode = "k" }) -- for controllers: one process at a time
  local step

  local function wait_and_step(controller, timeout)
    local limit = shorter(timeout, controller:timeout())
    local waits = limit ~= 0 and controller:count() > 0
    if waits and await(controller:pollfd(), limit) then timeout = 0 end
    return turn.take(step, controller, timeout)
  end

  step = core.interpose("step", function(controller, timeout)
    local limit = timeout
    if limit ~= limit then limit = nil end -- not a number is for ever, too
    local is_wrong = core.type(controller) ~= "controller"
      or limit ~= nil and type(limit) ~= "number"
    if turn.is_mine() or is_wrong then return turn.take(step, controller, timeout) end
    local wait = waits[controller] or new_turn()
    waits[controller] = waits[controller] or wait -- others may have come meanwhile
    wait = waits[controller]
    if wait.is_mine() then return turn.take(step, controller, timeout) end
    return wait.take_within(limit, true, wait_and_step, controller, limit)
  end)
end

-- Outside of a loop, cqueues waits by a controller of its own, which is one for the whole program:
-- here, for each wait.
function adapt.cqueues(core)
  if not (core.poll and core.new and core.running) then return end
  local poll = core.poll
  local spare = {} -- controllers for which nobody waits

  local give_back = { __close = function(wait, failure)
    if failure == nil and wait.controller:empty() then
      spare[#spare + 1] = wait.controller
    else
      wait.controller:close()
    end
  end }

  function core.poll(...)
    if here() == nil or core.running() then return poll(...) end
    local wait <close> = setmetatable({ controller = table.remove(spare) or core.new() }, give_back)
    local answers
    wait.controller:wrap(function(...) answers = table.pack(poll(...)) end, ...)
    repeat
      local ok, why = wait.controller:step()
      if not ok then error(why, 2) end
    until answers
    return table.unpack(answers, 1, answers.n)
  end
end

-- The loop of libuv. A kill inside of a callback would be an error that nobody catches, for which
-- luv ends the program.
function adapt.luv(uv)
  if not (uv.run and uv.stop and uv.backend_fd and uv.backend_timeout and uv.update_time) then
    return
  end
  local turn, running = new_turn(), new_turn()
  local run, stop, loop_mode = uv.run, uv.stop, uv.loop_mode
  local stops, stops_seen = 0, 0
  local asked -- the mode that the program has the loop run in

  local function run_as(mode)
    local before = asked
    asked = mode
    return setmetatable({}, { __close = function() asked = before end })
  end

  if loop_mode then
    function uv.loop_mode() return asked or loop_mode() end
  end

  function uv.stop()
    stops = stops + 1
    return stop()
  end

  -- After a run nothing is left of earlier stops.
  local function run_here(mode)
    local is_alive = hold_kills(run, mode)
    local stops_now = stops
    local was_stopped = stops_now ~= stops_seen
    stops_seen = stops_now
    return is_alive, was_stopped
  end

  local function run_once(mode)
    local _ <close> = run_as(mode)
    return run_here(mode)
  end

  local function wait()
    uv.update_time()
    local timeout = uv.backend_timeout()
    if timeout ~= 0 then return await(uv.backend_fd(), timeout > 0 and timeout / 1000 or nil) end
    return true
  end

  local function run_to_the_end()
    local _ <close> = run_as "default"
    while true do
      local is_alive, was_stopped = turn.take(run_here, "nowait")
      if not is_alive or was_stopped then return is_alive end
      if not wait() then return (turn.take(run_here, "default")) end
    end
  end

  function uv.run(mode)
    if turn.is_mine() then
      local is_alive = run(mode)
      stops_seen = stops
      return is_alive
    end
    if mode == nil or mode == "default" then return running.take(run_to_the_end) end
    if mode == "once" or mode == "nowait" then return (turn.take(run_once, mode)) end
    local refused = run(mode)
    return refused
  end
end

adapt[name](module)
