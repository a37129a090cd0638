-- Compiled modules whose waits are made by processes: for what cannot wait in C as it is.
--
-- A module was written for programs with one thread. Where it notes something for the whole program (which loop runs, whose handshake this is), a process
-- that waits inside of it would keep all others out, or be taken for another one. These modules can also be asked not to wait, and tell what
-- they would wait for: so the process waits, outside of the module, and calls again.
local name, module, process, await, metatable_of = ...

-- await(descriptor, timeout, writes): waits until there is something to read, or room to write. Returns "ready" or "timeout", or nil at once
-- where a process cannot wait.

-- An owner of `mutex` that lets go of it when its function is left.
local function hold(mutex)
  return setmetatable({}, { __close = function() mutex:unlock() end })
end

-- What one process at a time is inside of, callbacks included, as deep as it likes.
local function new_turn()
  local mutex, holder = process.mutex(), nil
  local leave = { __close = function()
    holder = nil
    mutex:unlock()
  end }
  local turn = {}

  function turn.is_mine() return holder == process.current() end

  function turn.take(f, ...)
    if turn.is_mine() then return f(...) end
    mutex:lock()
    holder = process.current()
    local _ <close> = setmetatable({}, leave)
    return f(...)
  end

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
  local turn = new_turn()
  local running = core.running
  local nobody = table.pack(running())

  function core.running()
    if turn.is_mine() then return running() end
    return table.unpack(nobody, 1, nobody.n)
  end

  local mutexes = setmetatable({}, { __mode = "k" }) -- of controllers: one process at a time waits for each

  local step
  local function wait_and_step(controller, timeout)
    if not mutexes[controller] then mutexes[controller] = process.mutex() end
    local mutex = mutexes[controller]
    if not mutex:lock(timeout) then return true end
    local _ <close> = hold(mutex)
    local limit = shorter(timeout, controller:timeout())
    if controller:count() > 0 and await(controller:pollfd(), limit) then timeout = 0 end
    return turn.take(step, controller, timeout)
  end

  step = core.interpose("step", function(controller, timeout)
    local limit = timeout
    if limit ~= limit then limit = nil end -- not a number is for ever, too
    local is_wrong = core.type(controller) ~= "controller" or limit ~= nil and type(limit) ~= "number"
    if turn.is_mine() or is_wrong then return turn.take(step, controller, timeout) end
    return wait_and_step(controller, limit)
  end)
end

-- Outside of a loop, cqueues waits by a controller of its own, which is one for the whole program: here, for each wait.
function adapt.cqueues(core)
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
    if core.running() then return poll(...) end
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

-- The loop of libuv.
function adapt.luv(uv)
  local turn, running = new_turn(), new_turn()
  local run, stop, is_stopped = uv.run, uv.stop, false

  function uv.stop()
    is_stopped = true
    return stop()
  end

  -- Nothing is left, or somebody stopped it.
  local function turn_once()
    local is_alive = turn.take(run, "nowait")
    local was_stopped = is_stopped
    is_stopped = false
    return is_alive, not is_alive or was_stopped
  end

  local function wait()
    local timeout = uv.backend_timeout()
    if timeout ~= 0 then return await(uv.backend_fd(), timeout > 0 and timeout / 1000 or nil) end
    return true
  end

  local function run_until(is_enough)
    while true do
      local is_alive, is_over = turn_once()
      if is_over or is_enough() then return is_alive end
      if not wait() then return turn.take(run, "default") end
    end
  end

  local function never() return false end

  -- The first turn registers what is to be waited for; the next one is the one that was asked for.
  local function after_one()
    local turns = 0
    return function()
      turns = turns + 1
      return turns == 2
    end
  end

  function uv.run(mode)
    if turn.is_mine() then return run(mode) end
    if mode == nil or mode == "default" then return running.take(run_until, never) end
    if mode == "once" then return running.take(run_until, after_one()) end
    if mode == "nowait" then return turn.take(run, mode) end
    local refused = run(mode)
    return refused
  end
end

-- The handshakes of LuaSec, which note in the context of a connection on which state they run.
adapt["ssl.core"] = function()
  local metatable = metatable_of "SSL:Connection"
  local methods = metatable.__index
  local dohandshake, settimeout = methods.dohandshake, methods.settimeout
  local limits = setmetatable({}, { __mode = "k" }) -- of connections, by the first letter of their mode: seconds, or nil

  function methods.settimeout(connection, seconds, mode)
    local result = settimeout(connection, seconds, mode)
    local limit = limits[connection] or {}
    seconds = tonumber(seconds)
    if seconds and seconds < 0 then seconds = nil end
    limit[(mode or "b"):sub(1, 1) == "b" and "each" or "all"] = seconds
    limits[connection] = limit
    return result
  end

  local function shake(connection, limit)
    local last = limit.all and process.now() + limit.all
    while true do
      local done, why = dohandshake(connection)
      if done then return done end
      if why ~= "wantread" and why ~= "wantwrite" then return done, why end
      local came = await(connection:getfd(), shorter(limit.each, last and last - process.now()), why == "wantwrite")
      if came ~= "ready" then return done, why, came == nil end
    end
  end

  function methods.dohandshake(connection)
    local limit = limits[connection] or {}
    if getmetatable(connection) ~= metatable or limit.each == 0 then return dohandshake(connection) end
    local done, why, must_block
    do
      local _ <close> = setmetatable({}, { __close = function() settimeout(connection, limit.each, "b") end })
      settimeout(connection, 0, "b")
      done, why, must_block = shake(connection, limit)
    end
    if must_block then return dohandshake(connection) end
    if done then return done end
    return done, why
  end
end

adapt[name](module)
