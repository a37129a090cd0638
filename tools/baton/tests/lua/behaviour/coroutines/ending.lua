-- How coroutines end: errors through resume and wrap, coroutine.close, and the order of closing.
local t = ...
local create, resume, yield, wrap, status, close =
  coroutine.create,
  coroutine.resume,
  coroutine.yield,
  coroutine.wrap,
  coroutine.status,
  coroutine.close

local function closing(f) return setmetatable({}, { __close = function(_, e) f(e) end }) end

-- Error values pass unchanged, through resume, wrap, and a chain of either.
local values = { "text", 1, 1.5, true, false, {}, print, create(print), io.stdout }
for i, value in ipairs(values) do
  local co = create(function() error(value, 0) end)
  local ok, got = resume(co)
  t:equal(ok, false)
  t:equal(got, value, "error value " .. i)
  t:equal(status(co), "dead")
  local again, why = resume(co)
  t:equal(again, false)
  t:equal(why, "cannot resume dead coroutine")
  local late = create(function() yield() error(value, 0) end)
  resume(late)
  t:equal(select(2, resume(late)), value)
  if type(value) ~= "string" then
    t:equal(select(2, pcall(wrap(function() error(value) end))), value)
    t:equal(
      select(
        2,
        pcall(wrap(function()
          wrap(function()
            wrap(function() error(value) end)()
          end)()
        end))
      ),
      value
    )
  end
end
t:values("false nil", resume(create(function() error() end)))
t:values("false nil", pcall(wrap(function() error(nil) end)))

-- An error message that passes through wrap gets the caller's position as a prefix, once per wrap.
do
  local f = load("local wrap = ... wrap(function() error('deep', 0) end)()", "=one")
  t:gives("! one:1: deep", f, wrap)
  local g =
    load("local wrap = ... wrap(function() wrap(function() error('deep', 0) end)() end)()", "=two")
  t:gives("! two:1: two:1: deep", g, wrap)
  local h = load("local wrap = ... return pcall(wrap(function() error('deep', 0) end))", "=three")
  t:gives("false 'deep'", h, wrap)
  local dead = wrap(function() end)
  dead()
  t:gives("! cannot resume dead coroutine", dead)
  local failed = wrap(function() error "x" end)
  pcall(failed)
  t:gives("! cannot resume dead coroutine", failed)
  local me
  me = wrap(function() return pcall(me) end)
  t:values("false 'cannot resume non-suspended coroutine'", me())
end

-- close in each state.
do
  local fresh = create(print)
  t:values("true", close(fresh))
  t:equal(status(fresh), "dead")
  t:values("true", close(fresh))
  t:values("false 'cannot resume dead coroutine'", resume(fresh))
  local waiting = create(yield)
  resume(waiting)
  t:values("true", close(waiting))
  t:values("true", close(waiting))
  local ended = create(function() return 1 end)
  resume(ended)
  t:values("true", close(ended))
  local failed = create(function() error("why", 0) end)
  resume(failed)
  t:values("false 'why'", close(failed))
  t:equal(status(failed), "dead")
  local object = {}
  local thrown = create(function() error(object) end)
  resume(thrown)
  local ok, got = close(thrown)
  t:equal(ok, false)
  t:equal(got, object)
end

-- close runs pending __close methods, innermost first, with the previous error. Each failure
-- replaces the error.
for n = 0, 24 do
  local log = t:log()
  local co = create(function()
    local function open(i)
      if i > n then yield "open" return end
      local a <close> = closing(function(e) log(i .. (e and "!" or "")) end)
      open(i + 1)
      return nil
    end
    open(1)
  end)
  t:values("true 'open'", resume(co))
  t:values("true", close(co))
  local wanted = {}
  for i = n, 1, -1 do wanted[#wanted + 1] = i end
  log:is(table.concat(wanted, " "))
  t:equal(status(co), "dead")
end
for failing = 1, 12 do
  local log = t:log()
  local co = create(function()
    local function open(i)
      if i > 12 then yield() return end
      local a <close> = closing(function(e)
        log(tostring(e))
        if i == failing then error("from " .. i, 0) end
      end)
      open(i + 1)
      return nil
    end
    open(1)
  end)
  resume(co)
  t:values("false 'from " .. failing .. "'", close(co))
  log:is((("nil "):rep(13 - failing) .. ("from " .. failing .. " "):rep(failing - 1)):sub(1, -2))
end
do
  local co = create(function()
    local a <close> = closing(function(e) error(e .. "c", 0) end)
    local b <close> = closing(function(e) error(e .. "b", 0) end)
    local c <close> = closing(function(e) error("a", 0) end)
    yield()
  end)
  resume(co)
  t:values("false 'abc'", close(co))
  t:values("true", close(co))
end

-- An error does not close a coroutine's variables. close does, and returns the error.
do
  local log = t:log()
  local co = create(function()
    local a <close> = closing(function(e) log("a:" .. e) end)
    local b <close> = closing(function(e) log("b:" .. e) end)
    error("why", 0)
  end)
  t:values("false 'why'", resume(co))
  log:is ""
  t:values("false 'why'", close(co))
  log:is "b:why a:why"
  t:values("true", close(co))
  -- wrap does close.
  local wrapped = wrap(function()
    local a <close> = closing(function(e) log("w:" .. e) end)
    error("why", 0)
  end)
  t:gives("! why", wrapped)
  log:is "w:why"
  local replaced = wrap(function()
    local a <close> = closing(function(e) error("instead of " .. e, 0) end)
    error("why", 0)
  end)
  t:gives("! instead of why", replaced)
end

-- Inside __close during close: another coroutine may run and yield, but the closed one cannot be
-- resumed.
do
  local co, seen
  co = create(function()
    local a <close> = closing(function()
      seen = {
        status(co),
        wrap(function() yield(7) end)(),
        select(2, resume(co)),
        (coroutine.running()) == co,
      }
    end)
    yield()
  end)
  resume(co)
  t:values("true", close(co))
  t:equal(seen[2], 7)
  t:equal(seen[3], "cannot resume non-suspended coroutine")
  t:equal(status(co), "dead")
end

-- close from inside another coroutine, of a coroutine that is not resuming another one, and in
-- chains of nested closes.
for depth = 1, 15 do
  local log = t:log()
  local function chain(n)
    local co = create(function()
      local inner = n > 1 and chain(n - 1)
      local a <close> = closing(function() log(n) if inner then t:equal(close(inner), true) end end)
      yield()
    end)
    t:that(resume(co))
    return co
  end
  t:values("true", close(chain(depth)))
  local wanted = {}
  for i = depth, 1, -1 do wanted[#wanted + 1] = i end
  log:is(table.concat(wanted, " "))
end

-- A coroutine closed by one that is being closed itself, and iterators as closing values.
do
  local log = t:log()
  local function generator(n)
    local co = wrap(function() for i = 1, n do yield(i) end end)
    return co, nil, nil, closing(function(e) log(e and "failed" or "closed") end)
  end
  for i in generator(3) do if i == 2 then break end end
  log:is "closed"
  for _ in generator(0) do end
  log:is "closed"
  t:gives("! row", function() for _ in generator(2) do error("row", 0) end end)
  log:is "failed"
  local function early() for i in generator(9) do if i == 4 then return i, "early" end end end
  t:values("4 'early'", early())
  log:is "closed"
  for i in generator(2) do for _ in generator(2) do goto next end ::next:: log(i) end
  log:is "closed 1 closed 2 closed"
  local co = create(function() for _ in generator(5) do yield "in" end end)
  t:values("true 'in'", resume(co))
  t:values("true", close(co))
  log:is "closed"
end

-- A coroutine that returned has no frames to inspect. One that failed keeps its stack for a
-- traceback until it is closed.
do
  local failed = create(function() local kept = "seen" error "why" end)
  resume(failed)
  t:has(debug.traceback(failed), "ending.lua")
  t:equal(select(2, debug.getlocal(failed, 1, 1)), "seen")
  close(failed)
  t:equal(debug.traceback(failed), "stack traceback:")
  local ended = create(function() end)
  resume(ended)
  t:equal(debug.traceback(ended), "stack traceback:")
  t:equal(debug.traceback(create(print)), "stack traceback:")
end

-- An unreachable coroutine is collected, suspended or not. Its <close> variables do not run then.
do
  local log, weak = t:log(), setmetatable({}, { __mode = "k" })
  for i = 1, 50 do
    local co = create(function()
      local a <close> = closing(function() log "closed" end)
      yield(i)
    end)
    if i % 2 == 0 then resume(co) end
    weak[co] = true
  end
  collectgarbage() collectgarbage()
  t:equal(next(weak), nil)
  log:is ""
end
