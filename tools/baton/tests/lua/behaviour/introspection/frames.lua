-- debug.getinfo, getlocal, setlocal and traceback, over all kinds of frames and functions.
local t = ...
local getinfo, getlocal, setlocal = debug.getinfo, debug.getlocal, debug.setlocal

-- Functions that are not running.
do
  local f = load("local a, b = ...\nlocal function g(x, y, ...)\nreturn a\nend\nreturn g", "=named")
  local g = f()
  local i = getinfo(g)
  t:equal(i.what, "Lua")
  t:equal(i.source, "=named")
  t:equal(i.short_src, "named")
  t:equal(i.linedefined, 2)
  t:equal(i.lastlinedefined, 4)
  t:equal(i.currentline, -1)
  t:equal(i.nups, 1)
  t:equal(i.nparams, 2)
  t:equal(i.isvararg, true)
  t:equal(i.name, nil) t:equal(i.namewhat, "") t:equal(i.func, g) t:equal(i.istailcall, false)
  i = getinfo(f)
  t:equal(i.what, "main")
  t:equal(i.linedefined, 0)
  t:equal(i.lastlinedefined, 0)
  t:equal(i.nparams, 0)
  t:equal(i.isvararg, true)
  t:equal(i.nups, 1)
  for _, c in ipairs {
    print,
    pcall,
    string.find,
    table.sort,
    io.write,
    coroutine.resume,
    debug.getinfo,
    math.abs,
    os.time,
    utf8.char,
  } do
    i = getinfo(c)
    t:equal(i.what, "C")
    t:equal(i.source, "=[C]")
    t:equal(i.short_src, "[C]")
    t:equal(i.linedefined, -1)
    t:equal(i.lastlinedefined, -1)
    t:equal(i.currentline, -1)
    t:equal(i.nparams, 0)
    t:equal(i.isvararg, true)
    t:equal(i.func, c)
    t:equal(i.activelines, nil)
  end
end
-- Each option sets its own fields and no others.
do
  local fields = {
    S = "lastlinedefined linedefined short_src source what", l = "currentline",
    u = "isvararg nparams nups",
    n = "namewhat", t = "istailcall", f = "func", L = "activelines", r = "ftransfer ntransfer",
  }
  for option, wanted in pairs(fields) do
    local names = {}
    for name in pairs(getinfo(function() return 1 end, option)) do names[#names + 1] = name end
    table.sort(names)
    t:equal(table.concat(names, " "), wanted, option)
  end
  t:equal(next(getinfo(print, "")), nil)
  t:raises("invalid option", getinfo, print, "X")
  t:raises("invalid option", getinfo, print, ">")
  t:raises("number expected", getinfo, "x")
  t:equal(getinfo(1000), nil)
  t:equal(getinfo(-1), nil)
  local lines = {}
  for line in
    pairs(getinfo(load("local a = 1\n\nlocal b = 2\nreturn a", "=lines"), "L").activelines)
  do
    lines[#lines + 1] = line
  end
  table.sort(lines)
  t:that(table.concat(lines, " "):find "1 3 4", "active lines")
end
-- Names of running functions, by the way they were called.
do
  local function me() local i = getinfo(2, "n") return i.namewhat .. ":" .. tostring(i.name) end
  local function plain() return (me()) end
  global_of_this_file = plain
  local object = { field = plain, method = function(self) return (me()) end, [1] = plain }
  local nested = { inner = { field = plain } }
  t:equal((plain()), "local:plain")
  t:equal((global_of_this_file()), "global:global_of_this_file")
  t:equal((object.field()), "field:field")
  t:equal((object:method()), "method:method")
  t:equal((nested.inner.field()), "field:field")
  t:equal(((function() return (plain()) end)()), "upvalue:plain")
  t:equal((select(2, pcall(plain))), ":nil")
  t:equal((coroutine.wrap(plain)()), ":nil")
  local events = {
    { "__index", function(o) return o.x end, "index" },
    { "__add", function(o) return o + 1 end, "add" },
    { "__concat", function(o) return o .. "" end, "concat" },
    { "__unm", function(o) return -o end, "unm" }, { "__len", function(o) return #o end, "len" },
    { "__idiv", function(o) return o // 1 end, "idiv" },
    { "__band", function(o) return o & 1 end, "band" },
    { "__shl", function(o) return o << 1 end, "shl" },
    { "__bnot", function(o) return ~o end, "bnot" },
    { "__mod", function(o) return o % 1 end, "mod" },
    { "__pow", function(o) return o ^ 1 end, "pow" },
    { "__div", function(o) return o / 1 end, "div" },
    { "__sub", function(o) return o - 1 end, "sub" },
    { "__mul", function(o) return o * 1 end, "mul" },
    { "__bor", function(o) return o | 1 end, "bor" },
  }
  for _, event in ipairs(events) do
    local o = setmetatable({}, { [event[1]] = function() return (me()) end })
    t:equal(event[2](o), "metamethod:" .. event[3])
  end
  local seen
  for _ in function(_, k) seen = (me()) if not k then return 1 end end do end
  t:equal(seen, "for iterator:for iterator")
  do local c <close> = setmetatable({}, { __close = function() seen = (me()) end }) end
  t:equal(seen, "metamethod:close")
end
-- Levels: 0 is getinfo itself, and each call adds one. Tail calls are marked and have no frame.
do
  t:equal(getinfo(0, "f").func, getinfo)
  local function depth()
    local n = 0
    while getinfo(n + 2, "f") do n = n + 1 end
    return n
  end
  local base = depth()
  local function down(n) if n == 0 then return (depth()) end return (down(n - 1)) end
  local function tail(n) if n == 0 then return depth() end return tail(n - 1) end
  for n = 0, 40 do
    t:equal(down(n), base + n + 1)
    t:equal((tail(n)), base)
  end
  t:equal((function() return (function() return getinfo(1, "t").istailcall end)() end)(), true)
  t:equal((function() return ((function() return getinfo(1, "t").istailcall end)()) end)(), false)
  local co = coroutine.create(function()
    local function inner()
      coroutine.yield()
      return nil
    end
    inner()
    return nil
  end)
  coroutine.resume(co)
  t:equal(getinfo(co, 0, "f").func, coroutine.yield)
  t:equal(getinfo(co, 1, "l").currentline > 0, true)
  t:equal(getinfo(co, 3), nil)
  t:equal(coroutine.wrap(function() return getinfo(2) end)(), nil)
end
-- Current lines as the function runs.
for line = 1, 25 do
  local code = ("\n"):rep(line - 1) .. "return debug.getinfo(1, 'l').currentline"
  t:equal((load(code)()), line)
  local co = coroutine.create(load(("\n"):rep(line - 1) .. "coroutine.yield()\n\nlocal x"))
  coroutine.resume(co)
  t:equal(getinfo(co, 1, "l").currentline, line)
end

-- Locals by level: parameters, varargs, temporaries, out of scope.
do
  local function f(a, b, ...)
    local c = "c"
    do local gone = 1 end
    local names = {}
    for i = 1, math.huge do
      local name, value = getlocal(1, i)
      if not name or name:sub(1, 1) == "(" then break end
      names[#names + 1] = name .. "=" .. tostring(value):sub(1, 5)
    end
    return table.concat(names, " ")
  end
  t:equal((f(1, nil, 3)):match "^a=1 b=nil c=c names=table", "a=1 b=nil c=c names=table")
  local function varargs(...)
    local list = {}
    for i = 1, 300 do
      local name, value = getlocal(1, -i)
      if not name then break end
      t:equal(name, "(vararg)")
      list[i] = value
    end
    return #list, list[#list]
  end
  for _, n in ipairs { 1, 2, 10, 50 } do
    local list = {}
    for i = 1, n do list[i] = i * 10 end
    t:values(n .. " " .. n * 10, varargs(table.unpack(list)))
  end
  local function set(a, ...)
    t:equal(setlocal(1, 1, "new"), "a")
    t:equal(setlocal(1, -2, "second"), "(vararg)")
    t:equal(setlocal(1, 500, 1), nil)
    t:equal(setlocal(1, -3, 1), nil)
    return a, ...
  end
  t:values("'new' 1 'second'", set("old", 1, 2))
  for level = 1, 10 do
    local function down(n)
      local mark = n
      if n == 1 then
        local found
        for i = 1, 10 do
          local name, value = getlocal(level, i)
          if name == "mark" then found = value end
        end
        return found
      end
      return (down(n - 1))
    end
    t:equal((down(10)), level)
  end
  t:raises("level out of range", getlocal, 1000, 1)
  t:raises("level out of range", setlocal, 1000, 1, 1)
  -- Parameters of a function that is not running.
  local function params(one, two, ...) local three end
  t:values("'one'", getlocal(params, 1))
  t:values("'two'", getlocal(params, 2))
  t:values("nil", getlocal(params, 3))
  t:values("nil", getlocal(print, 1))
  t:values("nil", getlocal(params, 0))
  t:values("nil", getlocal(params, -1))
end
-- Locals of another coroutine, read and written while it is suspended.
for n = 1, 20 do
  local co = coroutine.create(function(a, b) local c = a + b coroutine.yield() return a, b, c end)
  coroutine.resume(co, n, 2 * n)
  t:values("'a' " .. n, getlocal(co, 1, 1))
  t:values("'b' " .. 2 * n, getlocal(co, 1, 2))
  t:values("'c' " .. 3 * n, getlocal(co, 1, 3))
  t:equal(setlocal(co, 1, 3, "changed"), "c")
  t:values("true " .. n .. " " .. 2 * n .. " 'changed'", coroutine.resume(co))
end

-- Tracebacks.
do
  local traceback = debug.traceback
  t:equal(traceback("m", 1000), "m\nstack traceback:")
  t:equal(traceback(nil, 1000), "stack traceback:")
  for _, value in ipairs { {}, print, true, io.stdout } do t:equal(traceback(value), value) end
  t:equal(traceback(5, 1000), "5\nstack traceback:")
  local co = load(
    "local function inner()\ncoroutine.yield() return nil end\n"
      .. "local function outer()\ninner() return nil end\n"
      .. "return coroutine.create(function()\nouter() return nil end)",
    "=co"
  )()
  coroutine.resume(co)
  local frames =
    "co:2: in upvalue 'inner'\n\tco:4: in upvalue 'outer'\n\tco:6: in function <co:5>"
  t:equal(traceback(co), "stack traceback:\n\t[C]: in function 'coroutine.yield'\n\t" .. frames)
  t:equal(traceback(co, "m"), "m" .. "\n" .. traceback(co))
  t:equal(traceback(co, nil, 1), "stack traceback:\n\t" .. frames)
  t:equal(traceback(co, "m", 3), "m\nstack traceback:\n\tco:6: in function <co:5>")
  t:equal(traceback(co, "m", 4), "m\nstack traceback:")
  t:equal(traceback(co, co), co)
  local function deep(n) if n == 0 then return (traceback("m", 1)) end return (deep(n - 1)) end
  for _, n in ipairs { 1, 5, 10, 15 } do
    local _, frames = deep(n):gsub("in [%a ]*function <[^\n]*frames%.lua", "")
    local _, upvalues = deep(n):gsub("in upvalue 'deep'", "")
    t:equal(upvalues, n)
  end
  for _, n in ipairs { 30, 100, 1000 } do
    local text = deep(n)
    local skipped = tonumber(text:match "\n\t%.%.%.\t%(skipping (%d+) levels%)")
    local _, shown = text:gsub("\n\t%(%.%.%.tail[^\n]*", ""):gsub("\n\t", "")
    t:equal(shown, 22, "10 levels at the top, 11 at the bottom, and one line for those between")
    t:that(skipped > n - 25, "levels skipped")
  end
end
