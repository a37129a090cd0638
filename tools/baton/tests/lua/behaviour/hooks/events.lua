-- debug.sethook: the events, their number and their arguments.
local t = ...
local sethook, gethook = debug.sethook, debug.gethook

local function under(mask, count, hook, f, ...)
  sethook(hook, mask, count)
  local results = table.pack(pcall(f, ...))
  sethook()
  return table.unpack(results, 1, results.n)
end

-- Setting and reading hooks.
t:values("nil", gethook())
for _, mask in ipairs { "c", "r", "l", "cr", "cl", "rl", "crl" } do
  for _, count in ipairs { 0, 1, 100 } do
    local hook = function() end
    sethook(hook, mask, count)
    local got, got_mask, got_count = gethook()
    sethook()
    t:equal(got, hook)
    t:equal(got_mask, mask)
    t:equal(got_count, count)
  end
end
local function nothing() end
sethook(nothing, "", 5) t:equal(select(3, gethook()), 5) sethook()
sethook(nothing, "") t:values("nil", gethook())
sethook(nil, "crl") t:values("nil", gethook())
sethook(nothing, "x") t:values("nil", gethook())
t:raises("function expected", function() sethook(5, "l") end)
sethook()

-- Lines: one event each time a line is reached. A loop on one line has one event per iteration.
local function lines_of(code, ...)
  local f, lines = assert(load(code, "=traced")), {}
  under("l", 0, function(event, line)
    if debug.getinfo(2, "S").source == "=traced" then
      t:equal(event, "line")
      lines[#lines + 1] = line
    end
  end, f, ...)
  return table.concat(lines, " ")
end
for code, wanted in pairs {
  ["local a = 1\nlocal b = 2\nreturn a + b"] = "1 2 3",
  ["\n\n\nlocal a = 1\n\n\nlocal b = 2"] = "4 7",
  ["if true then\nlocal a = 1\nelse\nlocal a = 2\nend\nlocal c"] = "2 6",
  ["local x = ...\nif x then\nx = 1\nelse\nx = 2\nend\nx = 3"] = "1 2 5 7",
  ["for i = 1, 3 do\nlocal a = i\nend"] = "1 2 1 2 1 2 1 3",
  ["local i = 0\nwhile i < 2 do\ni = i + 1\nend"] = "1 2 3 2 3 2 4",
  ["local i = 0\nrepeat\ni = i + 1\nuntil i == 2"] = "1 3 4 3 4",
  ["for i = 1, 3 do end"] = "1 1 1",
  ["local function f()\nreturn 1\nend\nf()\nf()"] = "3 4 2 5 2",
  ["local t = {\n1,\n2,\n}"] = "1 2 4",
  ["goto last\ndo local a = 1 end\n::last::\nlocal b = 2"] = "1 4",
  ["local a = 1 local b = 2 local c = 3"] = "1",
  ["for _, v in ipairs { 1, 2 } do\nlocal a = v\nend"] = "1 2 1 2 1 3",
  ["local s = 'a'\n.. 'b'\n.. 'c'"] = "2 3",
  ["pcall(\nfunction()\nerror 'x'\nend)\nlocal z"] = "1 4 1 3 5",
} do t:equal(lines_of(code), wanted, code) end
for n = 1, 30 do
  t:equal(select(2, lines_of("for i = 1, " .. n .. " do\nlocal a = i\nend"):gsub("2", "")), n)
end

-- Calls and returns come in pairs, except tail calls. C functions are included.
local function events_of(mask, f, ...)
  local events = {}
  under(mask, 0, function(event)
    local name = debug.getinfo(2, "n").name
    events[#events + 1] = event:sub(1, 4) .. (event == "tail call" and "" or ":" .. tostring(name))
  end, f, ...)
  -- Events of sethook and pcall themselves are left out.
  return events
end
local function counts(events)
  local count = { call = 0, retu = 0, tail = 0 }
  for _, event in ipairs(events) do
    local kind = event:sub(1, 4)
    count[kind] = count[kind] + 1
  end
  return count
end
local function leaf() end
for n = 0, 25 do
  local c = counts(events_of("cr", function() for i = 1, n do leaf() end end))
  -- pcall, the body, table.pack, sethook at the end; returns: sethook at the beginning, the body,
  -- pcall, table.pack.
  t:equal(c.call, n + 4, "calls")
  t:equal(c.retu, n + 4, "returns")
  local d = counts(events_of("cr", function() for i = 1, n do math.abs(i) end end))
  t:equal(d.call, n + 4)
  t:equal(d.retu, n + 4)
end
do
  local function tail(n) if n > 0 then return tail(n - 1) end end
  for n = 0, 20 do
    local c = counts(events_of("cr", function() tail(n) end))
    t:equal(c.tail, n, "tail calls")
    t:equal(c.call, 5)
    t:equal(c.retu, 5)
  end
  local function recurse(n) if n > 0 then recurse(n - 1) end return nil end
  for _, n in ipairs { 1, 5, 50, 150 } do
    local c = counts(events_of("cr", recurse, n))
    t:equal(c.call, n + 4)
    t:equal(c.retu, n + 4)
  end
  -- An error unwinds without return events.
  local c = counts(events_of("cr", function()
    local function deep(n)
      if n == 0 then error "x" end
      deep(n - 1)
    end
    deep(9)
  end))
  t:equal(c.call, 4 + 10 + 1)
  t:equal(c.retu, 3)
end

-- Counts: one event per so many instructions, the same number in each run.
do
  local function work(n) local x = 0 for i = 1, n do x = x + i end return x end
  for _, every in ipairs { 1, 2, 3, 7, 10, 64, 100, 1000 } do
    local first
    for run = 1, 4 do
      local n = 0
      t:values(
        "true 500500",
        under("", every, function(event)
          if event == "count" then n = n + 1 end
        end, work, 1000)
      )
      first = first or n
      t:equal(n, first, "count events, every " .. every)
    end
    t:that(
      first >= 2000 // every and first <= 2100,
      "the hook's own instructions count too: " .. first
    )
  end
end

-- Transferred values, as getinfo returns them in a hook.
do
  local function four() return 1, 2, 3, 4 end
  local function three(a, b, c) end
  local got = {}
  under("cr", 0, function(event)
    local info = debug.getinfo(2, "fr")
    if info.func == four and event == "return" or info.func == three and event == "call" then
      for i = info.ftransfer, info.ftransfer + info.ntransfer - 1 do
        got[#got + 1] = select(2, debug.getlocal(2, i))
      end
    end
  end, function() four() three(7, 8, 9) end)
  t:equal(table.concat(got, " "), "1 2 3 4 7 8 9")
end

-- Inside a hook, hooks are off. Errors leave it. It can change locals, set another hook, and remove
-- itself.
do
  local depth, deepest = 0, 0
  under("crl", 1, function()
    depth = depth + 1
    deepest = math.max(deepest, depth)
    local x = 0
    for i = 1, 10 do x = x + math.abs(i) end
    depth = depth - 1
  end, function() for i = 1, 10 do math.abs(i) end end)
  t:equal(deepest, 1)
  for _, mask in ipairs { "c", "r", "l" } do
    t:values("false 'stop'", pcall(function()
      sethook(function() sethook() error("stop", 0) end, mask)
      local x = math.abs(1)
      return x
    end))
    t:values("nil", gethook())
  end
  t:values(
    "false 'stop'",
    pcall(function()
      sethook(function()
        sethook()
        error("stop", 0)
      end, "", 10)
      while true do
      end
    end)
  )
  t:values("nil", gethook())
  local function changed() local x = 1
    x = x
    return x end
  local value
  under("l", 0, function(_, line)
    if debug.getinfo(2, "f").func == changed and not value then
      value = 42
      debug.setlocal(2, 1, 42)
    end
  end, changed)
  t:equal(value, 42)
  local log = t:log()
  sethook(function() log "first" sethook(function() log "second" sethook() end, "l") end, "l")
  local a = 1
  local b = 2
  local c = 3
  log:is "first second"
  t:values("nil", gethook())
end

-- Each coroutine has its own hook. A new one starts with the mask of its creator, but without a
-- function.
do
  local log = t:log()
  local co = coroutine.create(function() local a = 1 coroutine.yield() local b = 2 end)
  sethook(co, function(event) log(event) end, "c")
  t:values("nil", gethook())
  coroutine.resume(co)
  t:equal(type(gethook(co)), "function")
  t:that(log.text():find "call")
  log:clear()
  sethook(co)
  t:values("nil", gethook(co))
  coroutine.resume(co)
  log:is ""
  local inherited
  sethook(function() end, "c")
  inherited = coroutine.create(function() end)
  sethook()
  t:values("nil 'c' 0", gethook(inherited))
  for n = 1, 20 do
    local lines = 0
    local worker = coroutine.create(function()
      for i = 1, n do
        coroutine.yield()
      end
    end)
    sethook(worker, function() lines = lines + 1 end, "l")
    for i = 1, n + 1 do coroutine.resume(worker) end
    t:equal(lines, 2 * n + 2, "lines in a coroutine that yields")
  end
end

-- A hook under pcall, sort, gsub and metamethods, and an error in a hook that ends a part of the
-- program.
do
  local function limited(limit, f, ...)
    local n = 0
    return under("", 100, function()
      n = n + 1
      if n > limit then error("too long", 0) end
    end, f, ...)
  end
  t:values("false 'too long'", limited(50, function() while true do end end))
  t:values("false 'too long'", limited(50, function() local function f() return f() end f() end))
  t:values("false 'too long'", limited(50, function() while true do pcall(error) end end))
  t:values("true 3", limited(50, function() return 3 end))
  local sorted = {}
  for i = 1, 200 do sorted[i] = (i * 7919) % 211 end
  t:values("false 'too long'", limited(5, table.sort, sorted, function(a, b) return a < b end))
  t:values(
    "false 'too long'",
    limited(5, string.gsub, ("x"):rep(5000), "x", function(c) return c .. c end)
  )
  t:values(
    "false 'too long'",
    limited(5, function()
      local o = setmetatable({}, { __index = function(_, k) return k end })
      while true do
        local x = o.y
      end
    end)
  )
  t:values("nil", gethook())
end
