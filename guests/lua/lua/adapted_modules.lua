-- Adapted modules: compiled modules in which processes can wait.
--
-- Such a module was written for programs with one thread. Some of its state belongs to the whole
-- program, such as the loop that runs or the handshake in progress. A process that waited inside of
-- the module would block all others, or the module would confuse it with another one. But these
-- modules can be called without waiting, and then report what they would wait for. So the process
-- waits outside of the module, and calls it again.
--
-- Arguments, which are functions in C:
--   here()                               the running process, or nil at the end of the program
--   await(descriptor, timeout, writes)   waits until the descriptor can be read or written, for at
--                                        most `timeout` seconds (nil: no limit). Returns "ready" or
--                                        "timeout". Returns nil at once where a process cannot
--                                        wait, such as in a critical section or a finalizer
--   hold_kills(f, ...)                   calls f, and holds kills back until it has returned
--   shut_down(descriptor)                ends a connection in both directions, and so wakes the
--                                        processes that wait for it
--   metatable_of(name)                   a metatable in the registry
local name, module, process, here, await, hold_kills, shut_down, metatable_of = ...

-- Makes a turn: a recursive lock, which a process holds during a call, callbacks included.
--
-- As long as one process has been the only one to take the turn, it takes no mutex, and only notes
-- that it is inside. It notes that before it looks whether it is still the only one. The second
-- process first says that it is not, and then looks whether the first one is inside. So at least
-- one of them sees the other. From then on the turn is the mutex. The second process, which holds
-- it, waits until the first one has left.
local function new_turn()
  local mutex = process.mutex()
  local lock, unlock = mutex.lock, mutex.unlock
  local first -- the first process that took the turn
  local is_alone = true -- no other process has taken the turn
  local is_inside = false -- the first one has the turn, and took no mutex
  local has_left -- an event, when another process has come
  -- the processes that hold it or are about to: a finalizer may come in between
  local inside = setmetatable({}, { __mode = "k" })
  local stays = setmetatable({}, { __mode = "k" }) -- by process: the value that ends its turn
  local Stay = { __close = function(stay)
    pcall(unlock, mutex) -- if it was locked
    inside[stay.process] = nil
  end }
  local turn = {}

  -- Whether the calling process holds the turn, or no other process ever will.
  function turn.is_mine()
    local me = here()
    if me == nil then return true end
    if me == first and (is_inside or is_alone) then return is_inside end
    return inside[me] ~= nil
  end

  local function leave()
    is_inside = false
    if has_left then has_left:set() end
  end
  local alone = setmetatable({}, { __close = leave })

  -- Called by another process than the first. It holds the mutex.
  local function await_first(timeout)
    if is_alone then
      has_left = has_left or process.event()
      is_alone = false
    end
    return not is_inside or has_left:wait(timeout)
  end

  local function come(me)
    if not stays[me] then stays[me] = setmetatable({ process = me }, Stay) end
    inside[me] = true
    return stays[me]
  end

  -- Calls f with the turn. Returns `otherwise` if the timeout is over first (nil: no limit).
  function turn.take_within(timeout, otherwise, f, ...)
    if turn.is_mine() then return f(...) end
    local me = here()
    if first == nil then process.critical(function() first = first or me end) end
    if me == first and is_alone then
      local _ <close> = alone -- first, as a kill may come at any instruction
      is_inside = true
      if is_alone then return f(...) end
      leave()
    end
    local _ <close> = come(me)
    if not lock(mutex, timeout) then return otherwise end
    if me ~= first and not await_first(timeout) then return otherwise end
    return f(...)
  end

  function turn.take(f, ...)
    if is_alone and not is_inside and first and first == here() then
      local _ <close> = alone
      is_inside = true
      if is_alone then return f(...) end
      leave()
    end
    return turn.take_within(nil, nil, f, ...)
  end

  -- Whether one process at most has taken the turn so far.
  function turn.is_for_one() return is_alone end

  return turn
end

-- The shorter of two timeouts in seconds; nil means no limit.
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
  local is_mine, take = turn.is_mine, turn.take
  local nobody, is_nested = running()

  function core.running()
    if is_mine() then return running() end
    return nobody, is_nested
  end

  local waits = setmetatable({}, { __mode = "k" }) -- by controller: a turn for its wait
  local step

  local function wait_and_step(controller, timeout)
    local limit = shorter(timeout, controller:timeout())
    local waits = limit ~= 0 and controller:count() > 0
    if waits and await(controller:pollfd(), limit) then timeout = 0 end
    return turn.take(step, controller, timeout)
  end

  -- Whether a step would not wait.
  local function has_work(controller, timeout)
    return (timeout == nil or math.type(timeout) ~= nil)
      and core.type(controller) == "controller"
      and controller:timeout() == 0
  end

  step = core.interpose("step", function(controller, timeout)
    if turn.is_for_one() and (timeout == 0 or has_work(controller, timeout)) then
      return take(step, controller, 0)
    end
    local limit = timeout
    if limit ~= limit then limit = nil end -- NaN means no limit, too
    local is_wrong = core.type(controller) ~= "controller"
      or limit ~= nil and type(limit) ~= "number"
    if turn.is_mine() or is_wrong then return turn.take(step, controller, timeout) end
    local wait = waits[controller] or new_turn()
    waits[controller] = waits[controller] or wait -- another process may have set it meanwhile
    wait = waits[controller]
    if wait.is_mine() then return turn.take(step, controller, timeout) end
    return wait.take_within(limit, true, wait_and_step, controller, limit)
  end)
end

-- Outside of a loop, cqueues waits with one controller for the whole program. Here each wait has
-- its own controller.
function adapt.cqueues(core)
  if not (core.poll and core.new and core.running) then return end
  local poll = core.poll
  local spare = {} -- controllers without a wait

  local give_back = { __close = function(wait, failure)
    if failure == nil and wait.controller:empty() then
      spare[#spare + 1] = wait.controller
    else
      wait.controller:close()
    end
  end }

  function core.poll(...)
    if core.running() or here() == nil then return poll(...) end
    local wait <close> = setmetatable({ controller = table.remove(spare) or core.new() }, give_back)
    local answers
    wait.controller:wrap(function(...) answers = table.pack(poll(...)) end, ...)
    repeat
      local ok, why = wait.controller:step()
      if not ok then error(why) end -- at the caller: this function is in no traceback
    until answers
    return table.unpack(answers, 1, answers.n)
  end
end

-- The loop of libuv. A kill in a callback would be an error that nothing catches, and luv would end
-- the program.
function adapt.luv(uv)
  if not (uv.run and uv.stop and uv.backend_fd and uv.backend_timeout and uv.update_time) then
    return
  end
  local turn, running = new_turn(), new_turn()
  local run, stop, loop_mode = uv.run, uv.stop, uv.loop_mode
  local stops, stops_seen = 0, 0
  local asked -- the mode in which the program runs the loop

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

  -- A run uses up all earlier stops.
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
