-- debug.getupvalue, setupvalue, upvalueid, upvaluejoin; registry, metatables and user values.
local t = ...
local getupvalue, setupvalue, upvalueid, upvaluejoin =
  debug.getupvalue, debug.setupvalue, debug.upvalueid, debug.upvaluejoin

for n = 0, 60 do
  local code, names = {}, {}
  for i = 1, n do code[i] = ("local u%d = %d"):format(i, i * i) names[i] = "u" .. i end
  local list = table.concat(names, ", ")
  local get, set = load(
    table.concat(code, " ")
      .. " return function() return "
      .. (n > 0 and list or "nil")
      .. " end, function(x) "
      .. (n > 0 and "u" .. n .. " = x" or "")
      .. " end"
  )()
  for _, i in ipairs { 1, n // 2, n } do
    if i >= 1 and i <= n then
      t:values("'u" .. i .. "' " .. i * i, getupvalue(get, i))
    end
  end
  t:values("", getupvalue(get, n + 1))
  t:values("", getupvalue(get, 0))
  if n > 0 then
    set "by the other"
    t:equal(select(2, getupvalue(get, n)), "by the other")
    t:equal(setupvalue(get, n, "by debug"), "u" .. n)
    t:equal(select(n, get()), "by debug")
    t:equal(upvalueid(get, n), upvalueid(set, 1))
    t:that(n < 2 or upvalueid(get, 1) ~= upvalueid(set, 1))
  end
  t:equal(setupvalue(get, n + 1, 1), nil)
end

-- Open upvalues: variables that are still on a stack, here and in a suspended coroutine.
do
  local x = 1
  local function f() return x end
  t:equal(setupvalue(f, 1, 2), "x")
  t:equal(x, 2)
  local inner
  local co = coroutine.create(function()
    local y = "open"
    inner = function() return y end
    coroutine.yield()
    coroutine.yield(y)
  end)
  coroutine.resume(co)
  t:values("'y' 'open'", getupvalue(inner, 1))
  setupvalue(inner, 1, "written")
  t:values("true 'written'", coroutine.resume(co))
  debug.setlocal(co, 1, 1, "by its local")
  t:equal(inner(), "by its local")
  coroutine.close(co)
  t:equal(inner(), "by its local")
end

-- Stripped functions have upvalues without names. C functions have upvalues too.
do
  local a, b = 1, 2
  local stripped = load(string.dump(function() return a, b end, true))
  t:values("'(no name)' nil", getupvalue(stripped, 2))
  t:equal(setupvalue(stripped, 2, 5), "(no name)")
  t:equal((stripped()), _G) -- load sets the first upvalue to the globals
  local iterator = ("a"):gmatch "a"
  t:equal((getupvalue(iterator, 1)), "")
  t:values("", getupvalue(print, 1))
  t:raises("function expected", getupvalue, 5, 1)
  t:raises("number expected", getupvalue, print, "x")
end

-- Each closure of a loop has its own upvalue. Joining two leaves the third unchanged.
for n = 2, 12 do
  local getters, setters = {}, {}
  for i = 1, n do
    local v = i
    getters[i], setters[i] = function() return v end, function(x) v = x end
  end
  for i = 1, n do t:equal(upvalueid(getters[i], 1), upvalueid(setters[i], 1)) end
  t:that(upvalueid(getters[1], 1) ~= upvalueid(getters[2], 1))
  upvaluejoin(getters[1], 1, getters[2], 1)
  t:equal(upvalueid(getters[1], 1), upvalueid(getters[2], 1))
  t:equal(getters[1](), 2)
  setters[2](20)
  t:equal(getters[1](), 20)
  setters[1](10)
  t:equal(getters[1](), 20)
  if n > 2 then t:equal(getters[3](), 3) end
end
t:equal(upvalueid(print, 1), nil)
t:raises("invalid upvalue index", upvaluejoin, function() end, 1, function() end, 1)
t:raises("Lua function expected", upvaluejoin, ("a"):gmatch "a", 1, ("a"):gmatch "a", 1)
t:equal(upvalueid(function() end, 1), nil)
t:equal(upvalueid(function() return t end, 2), nil)

-- The environment is an upvalue like any other.
do
  local f = load "return x, _ENV"
  t:equal((getupvalue(f, 1)), "_ENV")
  local env = { x = "mine" }
  t:equal(setupvalue(f, 1, env), "_ENV")
  local x, got = f()
  t:equal(x, "mine")
  t:equal(got, env)
  local g = load "return x"
  upvaluejoin(g, 1, f, 1)
  t:equal(g(), "mine")
  setupvalue(f, 1, { x = "other" })
  t:equal(g(), "other")
end

-- Metatables of every type, regardless of __metatable; user values; the registry.
do
  local mt = { __metatable = "locked" }
  local o = setmetatable({}, mt)
  t:equal(getmetatable(o), "locked")
  t:equal(debug.getmetatable(o), mt)
  t:raises("protected", setmetatable, o, {})
  t:equal(debug.setmetatable(o, nil), o)
  t:equal(getmetatable(o), nil)
  for _, value in ipairs { 1, 1.5, true, print, coroutine.create(print) } do
    t:equal(debug.getmetatable(value), nil)
  end
  t:equal(debug.getmetatable("x").__index, string)
  t:equal(debug.getmetatable(nil), nil)
  t:raises("nil or table expected", debug.setmetatable, {}, 5)
  t:equal(type(debug.getregistry()), "table")
  t:equal(debug.getregistry()._LOADED, package.loaded)
  t:values("nil", debug.getuservalue(io.stdout, 1))
  t:values("nil", debug.getuservalue({}, 1))
  t:values("nil", debug.setuservalue(io.stdout, 1, 5))
  t:raises("userdata expected", debug.setuservalue, {}, 1)
end
