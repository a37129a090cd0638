-- Prints the depth of each kind of recursion, and its error.
local function measure(name, body)
  local depth = 0
  local function deeper() depth = depth + 1 end
  local ok, message = pcall(body, deeper)
  print(name, depth, ok, #tostring(message) < 200 and message)
end

measure("function", function(deeper)
  local function f() deeper() return f() + 1 end
  f()
end)
measure("function with locals", function(deeper)
  local function f(a, b, c) deeper() local d, e, g = a, b, c return f(d, e, g) + 1 end
  f(1, 2, 3)
end)
measure("gsub", function(deeper)
  local function f(s) deeper() return string.gsub(s, ".", f) end
  f("a")
end)
measure("pcall", function(deeper)
  local function f() deeper() return assert(pcall(f)) end
  f()
end)
measure("pcall that reports", function(deeper)
  local function f() deeper() local ok, e = pcall(f) if not ok then error(e, 0) end end
  f()
end)
measure("xpcall", function(deeper)
  local function f()
    deeper()
    local ok, e = xpcall(f, function(m) return m end)
    if not ok then error(e, 0) end
  end
  f()
end)
measure("error in error handling", function(deeper)
  local function handler() deeper() error("again", 0) end
  local ok, e = xpcall(error, handler, "first")
  error(e, 0)
end)
measure("sort", function(deeper)
  local function f() deeper() table.sort({ 1, 2, 3 }, f) return false end
  f()
end)
measure("tostring", function(deeper)
  local t = setmetatable({}, {})
  getmetatable(t).__tostring = function(s) deeper() return tostring(s) end
  tostring(t)
end)
measure("metamethod", function(deeper)
  local t = setmetatable({}, {})
  getmetatable(t).__index = function(s, k) deeper() return s[k] end
  return t.x
end)
measure("concatenation", function(deeper)
  local t = setmetatable({}, {})
  getmetatable(t).__concat = function(a, b) deeper() return a .. b end
  return t .. "x"
end)
measure("load by a reader", function(deeper)
  local function reader() deeper() return load(reader) end
  assert(load(reader))
end)
measure("gsub through globals", function(deeper)
  function AGAIN() deeper() return select(2, string.gsub("a", "a", AGAIN)) + 1 end
  AGAIN()
end)
measure("coroutine.wrap", function(deeper)
  local function f() deeper() return coroutine.wrap(f)() end
  f()
end)
measure("coroutine.resume", function(deeper)
  local function f()
    deeper()
    local ok, e = coroutine.resume(coroutine.create(f))
    if not ok then error(e, 0) end
  end
  f()
end)
measure("gsub in a coroutine", function(deeper)
  local function f(s) deeper() return string.gsub(s, ".", f) end
  coroutine.wrap(f)("a")
end)
measure("for iterator", function(deeper)
  local function f() deeper() for _ in f do end end
  f()
end)
measure("require", function(deeper)
  local function searcher(name)
    return function() deeper() package.loaded[name] = nil return require(name .. "x") end
  end
  table.insert(package.searchers, 1, searcher)
  local ok, e = pcall(require, "m")
  table.remove(package.searchers, 1)
  error(e, 0)
end)
