-- Overflow of the Lua stack. Each needs 16 MB for its million slots, so few processes may run it at
-- once.
local t = ...

-- Overflow of the Lua stack: an error like any other, at the same depth each time.
do
  local depth = 0
  local function endless() depth = depth + 1 return 1 + endless() end
  local depths = {}
  for i = 1, 3 do
    depth = 0
    local ok, message = pcall(endless)
    t:equal(ok, false)
    t:has(message, "stack overflow")
    depths[i] = depth
  end
  t:that(depths[1] > 100000 and depths[1] < 1000000, "the depth: " .. depths[1])
  t:equal(depths[2], depths[1])
  t:equal(depths[3], depths[1])
  local handled
  t:equal((xpcall(endless, function(m) handled = m return m end)), false)
  t:has(handled, "stack overflow")
  local function bounded(n) if n == 0 then error "bottom" end return 1 + bounded(n - 1) end
  local _, text = xpcall(bounded, debug.traceback, 5000)
  t:has(text, "bottom")
  t:has(text, "\n\t...\t(skipping ")
  t:that(#text < 5000, "a traceback is short")
  t:raises("stack overflow", function() local function f(...) return 1 + f(1, ...) end f() end)
  t:raises("too many results to unpack", function() return table.unpack({}, 1, 1000000) end)
end

-- With each kind of recursion: methods, metamethods of Lua, varargs, inside pcall and coroutines.
do
  local object = {}
  function object:down(n) return 1 + self:down(n + 1) end
  local called = setmetatable({}, { __call = function(self, n) return 1 + self(n + 1) end })
  local ways = {
    method = function() return object:down(1) end,
    ["__call"] = function() return called(1) end,
    mutual = function() local f,
    g function f() return 1 + g() end function g() return 1 + f() end return f() end,
    ["under pcall"] = function() return select(2, assert(pcall(object.down, object, 1))) end,
    wrapped = function() return coroutine.wrap(object.down)(object, 1) end,
  }
  for name, way in pairs(ways) do
    local ok, message = pcall(way)
    t:equal(ok, false, name)
    t:has(message, "stack overflow", name)
    t:equal((pcall(string.rep, "x", 10)), true, "after it")
  end
end

-- A stack overflow in a coroutine is caught there, and the resumer continues.
do
  local function endless(n) return 1 + endless(n + 1) end
  for _ = 1, 2 do
    local co = coroutine.create(endless)
    local ok, message = coroutine.resume(co, 1)
    t:equal(ok, false)
    t:has(message, "stack overflow")
    t:equal((coroutine.close(co)), false)
  end
  local caught = coroutine.wrap(function()
    local ok, message = pcall(endless, 1)
    coroutine.yield(ok)
    return message:find "stack overflow" and "said"
  end)
  t:equal(caught(), false)
  t:equal(caught(), "said")
end
