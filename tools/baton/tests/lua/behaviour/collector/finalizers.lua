-- Finalizers and weak tables. Two files include these cases, one for each collector mode.
local t = ...

-- During a full collection only finalizers run, so the log has their order.
local function finalized(log, name) return setmetatable({}, { __gc = function() log(name) end }) end

local function cases()
  -- They run in reverse order of marking, once each, and only after marking by setmetatable.
  for n = 1, 25 do
    local log, keep, wanted = t:log(), {}, {}
    for i = 1, n do keep[i] = finalized(log, i) wanted[n - i + 1] = i end
    collectgarbage()
    log:is ""
    keep = nil
    collectgarbage()
    log:is(table.concat(wanted, " "))
    collectgarbage()
    log:is ""
  end
  do
    local log = t:log()
    local mt = {}
    setmetatable({}, mt)
    mt.__gc = function() log "late" end
    collectgarbage()
    log:is ""
    setmetatable({}, { __gc = true })
    collectgarbage()
    setmetatable({}, { __gc = 42 })
    collectgarbage()
    local replaced = { __gc = true }
    setmetatable({}, replaced)
    replaced.__gc = function() log "set before death" end
    collectgarbage()
    log:is "set before death"
    local changed = setmetatable({}, { __gc = function() log "first" end })
    setmetatable(changed, { __gc = function() log "second" end })
    changed = nil
    collectgarbage()
    log:is "second"
    local dropped = setmetatable({}, { __gc = function() log "dropped" end })
    setmetatable(dropped, nil)
    dropped = nil
    collectgarbage()
    log:is ""
  end

  -- The object is the only argument. It and the objects that it refers to are intact.
  do
    local count, arguments
    local inner = setmetatable({ value = "inner" }, { __gc = function(o) o.value = nil end })
    setmetatable({ inner = inner, n = 7 }, { __gc = function(...)
      count, arguments = select("#", ...), ...
    end })
    inner = nil
    collectgarbage()
    t:equal(count, 1)
    t:equal(arguments.n, 7)
    -- the inner one was marked first, so it is finalized last
    t:equal(arguments.inner.value, nil)
    arguments = nil
  end

  -- Resurrection: an object lives once more, and is finalized again only if it is marked again.
  do
    local log, saved = t:log(), nil
    setmetatable({ name = "phoenix" }, { __gc = function(o) log "finalized" saved = o end })
    collectgarbage()
    log:is "finalized"
    t:equal(saved.name, "phoenix")
    saved = nil
    collectgarbage()
    log:is ""
    local turns = 0
    local mt = {}
    mt.__gc = function(o) turns = turns + 1 if turns < 5 then setmetatable(o, mt) end end
    setmetatable({}, mt)
    for i = 1, 7 do collectgarbage() t:equal(turns, math.min(i, 5)) end
  end

  -- Cycles; finalizers that make garbage, more finalizers, tables and coroutines; and errors that
  -- they catch.
  do
    local log = t:log()
    do
      local a, b = finalized(log, "a"), finalized(log, "b")
      a.other, b.other = b, a
    end
    collectgarbage()
    log:is "b a"
    setmetatable({}, { __gc = function()
      log(pcall(error, "caught") and "?" or "caught")
      log(coroutine.wrap(function() coroutine.yield "yielded" end)())
      local list = {}
      for i = 1, 200 do list[i] = { tostring(i) } end
      log(#list)
      finalized(log, "made by a finalizer")
    end })
    collectgarbage()
    t:that(log.text():find "^caught yielded 200", "what a finalizer did")
    collectgarbage() collectgarbage()
    t:that(log.text():find "made by a finalizer")
    log:clear()
    setmetatable({}, {
      __gc = function()
        t:equal(collectgarbage(), nil)
        t:equal(collectgarbage "count", nil)
        log "inside"
      end,
    })
    collectgarbage()
    log:is "inside"
    setmetatable({}, { __gc = function() log(tostring(coroutine.isyieldable())) end })
    coroutine.wrap(function() collectgarbage() end)()
    log:is "false"
  end

  -- Weak tables: weak values, keys, or both. Strings and numbers are never removed. Ephemerons.
  for _, mode in ipairs { "v", "k", "kv" } do
    local weak = setmetatable({}, { __mode = mode })
    for i = 1, 30 do weak[i] = {} weak[{}] = i weak["s" .. i] = "t" .. i end
    local strong_key, strong_value = {}, {}
    weak[strong_key], weak.kept = "kept", strong_value
    collectgarbage()
    local numbers, tables, strings = 0, 0, 0
    for k, v in pairs(weak) do
      if type(k) == "number" then numbers = numbers + 1
      elseif type(k) == "table" then tables = tables + 1
      else strings = strings + 1 end
    end
    t:equal(numbers, mode == "k" and 30 or 0, "values of mode " .. mode)
    t:equal(tables, mode == "v" and 31 or 1, "keys of mode " .. mode)
    t:equal(strings, 31)
    t:equal(weak[strong_key], "kept")
    t:equal(weak.kept, strong_value)
  end
  do
    local ephemeron = setmetatable({}, { __mode = "k" })
    do
      local k = {}
      ephemeron[k] = { k }
      local a, b = {}, {}
      ephemeron[a], ephemeron[b] = b, a
      local chain = {}
      for _ = 1, 50 do local next_key = {} ephemeron[chain] = next_key chain = next_key end
    end
    collectgarbage()
    t:equal(next(ephemeron), nil)
    local head = {}
    local last = head
    for _ = 1, 50 do local k = {} ephemeron[last] = k last = k end
    last = nil
    collectgarbage()
    local length, k = 0, head
    while ephemeron[k] do k = ephemeron[k] length = length + 1 end
    t:equal(length, 50)
  end
  do -- an object leaves weak values before its finalizer runs, and weak keys after it
    local values, keys = setmetatable({}, { __mode = "v" }), setmetatable({}, { __mode = "k" })
    local in_values, in_keys
    do
      local o = setmetatable({}, { __gc = function(o) in_values, in_keys = values[1], keys[o] end })
      values[1], keys[o] = o, "seen"
    end
    collectgarbage()
    t:equal(in_values, nil)
    t:equal(in_keys, "seen")
    collectgarbage()
    t:equal(next(keys), nil)
  end
  do -- functions, threads and userdata
    local weak = setmetatable({}, { __mode = "v" })
    local n = 0
    weak[1] = function() return n end
    weak[2] = coroutine.create(function() end)
    -- without upvalues they may be one closure, but it is collected all the same
    weak[3] = function() end
    collectgarbage()
    t:values("nil nil nil", weak[1], weak[2], weak[3])
    local file = assert(io.open "/dev/null")
    weak[1] = file
    collectgarbage()
    t:equal(weak[1], file)
    file = nil
    collectgarbage()
    t:equal(weak[1], nil)
  end

  -- Memory grows only for objects that are kept.
  do
    collectgarbage() collectgarbage()
    local before = collectgarbage "count"
    for i = 1, 20000 do local x = { i, {}, tostring(i) } end
    collectgarbage() collectgarbage()
    t:that(collectgarbage "count" < before + 100, "garbage is collected")
    local kept = ("x"):rep(1000000)
    collectgarbage()
    t:that(collectgarbage "count" > before + 900, "what is kept counts")
    kept = nil
    collectgarbage()
    t:that(collectgarbage "count" < before + 100)
  end
end

local before = collectgarbage "incremental"
t:that(before == "incremental" or before == "generational")
cases()
t:equal(collectgarbage "generational", "incremental")
cases()
t:equal(collectgarbage "incremental", "generational")
cases()
