-- Message handlers, errors inside them, overflow of the C stack, and errors through library
-- functions that call back.
local t = ...

-- The handler runs where the error is, before anything is unwound; its result is the message.
for depth = 1, 20 do
  local function down(n) if n == 0 then error("bottom", 0) end down(n - 1) return nil end
  local seen
  local ok, result = xpcall(down, function(message)
    local level, count = 2, 0
    while true do
      local info = debug.getinfo(level, "f")
      if not info then break end
      if info.func == down then count = count + 1 end
      level = level + 1
    end
    seen = count
    return message .. "!"
  end, depth)
  t:equal(seen, depth + 1, "frames of the failing function")
  t:values("false 'bottom!'", ok, result)
end
t:values("false 'h'", xpcall(error, function() return "h", "second is lost" end))
t:values("false nil", xpcall(error, function() end))
t:values("true 1 2 3", xpcall(function(...) return ... end, error, 1, 2, 3))
t:values("false 'E'", xpcall(error, string.upper, "e", 0))
t:values("false 'table'", xpcall(error, type, {}))
for _, value in ipairs { 1, true, {}, print } do
  t:equal(select(2, xpcall(error, function(v) return { v } end, value))[1], value)
end
do -- debug.traceback as the handler names the functions on the stack
  local function inner() error "here" end
  local function outer() inner() return nil end
  local _, text = xpcall(outer, debug.traceback)
  t:matches(text, "^[^\n]*handlers.lua:%d+: here\nstack traceback:\n\t%[C%]: in function 'error'\n")
  t:has(text, "in upvalue 'inner'")
  t:has(text, "[C]: in function 'xpcall'")
end

-- Only the innermost handler gets an error. Outer handlers get errors that are raised again.
do
  local log = t:log()
  local function handler(name) return function(m) log(name .. ":" .. m) return m end end
  xpcall(function() xpcall(error, handler "inner", "e", 0) end, handler "outer")
  log:is "inner:e"
  xpcall(function()
    local _, m = xpcall(error, handler "inner", "e", 0)
    error(m .. "2", 0)
  end, handler "outer")
  log:is "inner:e outer:e2"
  xpcall(function() pcall(error, "quiet", 0) end, handler "outer")
  log:is ""
  xpcall(function() coroutine.resume(coroutine.create(error), "elsewhere", 0) end, handler "outer")
  log:is ""
  xpcall(function() coroutine.wrap(error) { "through" } end, function(m) log("outer:" .. m[1]) end)
  log:is "outer:through"
end
for depth = 1, 15 do
  local log = t:log()
  local function nest(n)
    if n == 0 then error("0", 0) end
    local _, message = xpcall(nest, function(m) log(n) return m .. n end, n - 1)
    error(message, 0)
  end
  local ok, message = pcall(nest, depth)
  local digits, order = "0", {}
  for i = 1, depth do digits, order[i] = digits .. i, i end
  t:values("false '" .. digits .. "'", ok, message)
  log:is(table.concat(order, " "))
end

-- An error inside a handler calls the handler again with that error. If it fails each time, the
-- result is an error all the same.
do
  local calls = 0
  local ok, message = xpcall(error, function(m)
    calls = calls + 1
    if calls < 5 then error("again", 0) end
    return m .. calls
  end, "first", 0)
  t:values("false 'again5'", ok, message)
  t:equal((xpcall(error, function() error "never ends" end, "first")), false)
  t:equal((xpcall(error, function() local x = nil; return x.y end, "first")), false)
  t:values("true 'and goes on'", pcall(function() return "and goes on" end))
end

-- Overflow of the C stack: 200 calls of C within each other, whatever calls them.
do
  local forms = {
    gsub = function(self, n) return (("x"):gsub("x", function() self(self, n + 1) end)) end,
    sort = function(self, n)
      table.sort({ 1, 2 }, function()
        self(self, n + 1)
        return false
      end)
end,
    tostring = function(self, n)
      tostring(setmetatable({}, {
        __tostring = function()
          self(self, n + 1)
          return ""
        end,
      }))
    end,
    index = function(self, n)
      return setmetatable({}, { __index = function() self(self, n + 1) end }).x
    end,
    concat = function(self, n)
      return setmetatable({}, { __concat = function() self(self, n + 1) end }) .. "x"
    end,
    equal = function(self, n)
      local mt = {
        __eq = function()
          self(self, n + 1)
          return true
        end,
      }
      return setmetatable({}, mt) == setmetatable({}, mt)
    end,
    coroutine = function(self, n) coroutine.wrap(function() self(self, n + 1) end)() end,
    load = function(self, n) load(function() self(self, n + 1) end) end,
    length = function(self, n)
      return #setmetatable({}, {
        __len = function()
          self(self, n + 1)
          return 0
        end,
      })
    end,
    close = function(self, n)
      do
       local a <close> = setmetatable({}, { __close = function() self(self, n + 1) end })
    end
end,
    pairs = function(self, n)
      pairs(setmetatable({}, {
        __pairs = function()
          self(self, n + 1)
          return next, {}
        end,
      }))
    end,
  }
  for name, form in pairs(forms) do
    local deepest = 0
    local counting = function(self, n)
      if n > deepest then deepest = n end
      return form(self, n)
    end
    for _ = 1, 3 do
      local ok, message = pcall(counting, counting, 1)
      if name == "load" then
        -- load gives the error as its second result, at each level.
        t:equal(ok, true, name)
      else
        t:equal(ok, false, name)
        t:matches(message, "stack overflow", name)
      end
    end
    t:that(deepest >= 180 and deepest <= 200, name .. " went " .. deepest .. " deep")
    t:equal((("ab"):gsub("%w", string.upper)), "AB", "after it")
  end
end
do -- the parser counts C levels too
  for _, row in ipairs {
    { ("("):rep(250) .. "1" .. (")"):rep(250), "C stack overflow" },
    { ("{"):rep(250) .. ("}"):rep(250), "C stack overflow" },
    { ("-"):rep(250) .. "1", nil }, { ("not "):rep(250) .. "1", "C stack overflow" },
    { "1" .. ("^1"):rep(250), "C stack overflow" },
    { "1" .. (" .. 1"):rep(250), "C stack overflow" },
    { ("#"):rep(250) .. "{}", "C stack overflow" },
    { ("function() return "):rep(250) .. "1" .. (" end"):rep(250), "C stack overflow" },
  } do
    local chunk, message = load("return " .. row[1])
    if row[2] then
      t:equal(chunk, nil)
      t:has(message, row[2])
    else
      t:equal(type(chunk), "function") -- "--" begins a comment
    end
  end
  for _, n in ipairs { 10, 100, 180 } do
    t:equal(load("return " .. ("("):rep(n) .. "7" .. (")"):rep(n))(), 7)
    t:equal(type(load(("do "):rep(n) .. ("end "):rep(n))), "function")
    t:equal(
      load("local x = 0 " .. ("do "):rep(n) .. "x = x + 1 " .. ("end "):rep(n) .. "return x")(),
      1
    )
  end
  t:has(select(2, load(("do "):rep(250) .. ("end "):rep(250))), "C stack overflow")
end

-- An error that passes through a library function ends only that function.
do
  local through = {
    sort = function(e) table.sort({ 3, 2, 1 }, function() error(e, 0) end) end,
    gsub = function(e) return ("abc"):gsub(".", function() error(e, 0) end) end,
    load = function(e) local _, m = load(function() error(e, 0) end) error(m, 0) end,
    tostring = function(e)
      tostring(setmetatable({}, { __tostring = function() error(e, 0) end }))
    end,
    format = function(e)
      return ("%s"):format(setmetatable({}, { __tostring = function() error(e, 0) end }))
    end,
    concat = function(e)
      return table.concat(
        setmetatable({}, { __index = function() error(e, 0) end, __len = function() return 1 end })
      )
    end,
    unpack = function(e)
      return table.unpack(setmetatable({}, { __index = function() error(e, 0) end }), 1, 1)
    end,
    insert = function(e)
      table.insert(setmetatable({}, { __newindex = function() error(e, 0) end }), 1)
    end,
    remove = function(e)
      return table.remove(
        setmetatable({}, { __index = function() error(e, 0) end, __len = function() return 2 end })
      )
    end,
    move = function(e) return table.move(setmetatable({}, { __index = function()
      error(e, 0) end }), 1, 1, 2)
    end,
    next = function(e) for _ in pairs(setmetatable({}, { __pairs = function()
      error(e, 0) end })) do end
    end,
    ipairs = function(e) for _ in ipairs(setmetatable({}, { __index = function()
      error(e, 0) end })) do end
    end,
    require = function(e)
      -- a table of this copy's own: copies of this file may run concurrently
      local name = "behaviour.fails." .. tostring {}
      package.preload[name] = function() package.preload[name] = nil error(e, 0) end
      require(name)
    end,
    select = function(e) return select(setmetatable({}, {}), (error(e, 0))) end,
    wrap = function(e) coroutine.wrap(function() error(e, 0) end)() end,
    len = function(e) return #setmetatable({}, { __len = function() error(e, 0) end }) end,
  }
  for name, f in pairs(through) do
    for _, e in ipairs { "text", 42, {}, false } do
      local ok, got = pcall(f, e)
      t:equal(ok, false, name)
      if type(e) == "string" then
        t:matches(got, "^[^\n]*text$", name)
      else
        t:equal(got, e, name)
      end
    end
  end
end
