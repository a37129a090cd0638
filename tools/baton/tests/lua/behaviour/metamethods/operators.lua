-- Metamethods: operands and their order, results, inheritance of fields, and operations that call
-- none.
local t = ...

-- Every binary operation, with the metamethod at the left, the right, or both. The operands arrive
-- in order.
local binary = {
  { "+", "__add" }, { "-", "__sub" }, { "*", "__mul" }, { "/", "__div" }, { "%", "__mod" },
  { "^", "__pow" }, { "//", "__idiv" },
  { "&", "__band" }, { "|", "__bor" }, { "~", "__bxor" }, { "<<", "__shl" }, { ">>", "__shr" },
  { "..", "__concat" },
}
for _, row in ipairs(binary) do
  local operator, event = table.unpack(row)
  local apply = load("local a, b = ... return a " .. operator .. " b")
  local function object(name)
    return setmetatable({ name = name }, { [event] = function(a, b) return a, b, name end })
  end
  for _, other in ipairs { 1, 1.5, "text", {}, true, print, "10", false } do
    local o = object "o"
    t:equal(apply(o, other), o)
    local right = setmetatable({}, { [event] = function(a, b) return b end })
    t:equal(apply(other, right), right)
  end
  local which = function(name)
    return setmetatable({}, { [event] = function(a, b) return name end })
  end
  t:equal(apply(which "left", which "right"), "left")
  t:equal(apply({}, which "right"), "right")
  t:equal(apply(which "left", {}), "left")
  -- Constants use other instructions.
  local first = setmetatable(
    {},
    { [event] = function(a, b) return (a == 3 and "a" or b == 3 and "b") end }
  )
  t:equal(load("local o = ... return o " .. operator .. " 3")(first), "b")
  t:equal(load("local o = ... return 3 " .. operator .. " o")(first), "a")
  -- There is one result, however many the metamethod returns; none becomes nil. A callable table
  -- works too.
  local many = setmetatable({}, { [event] = function() return 1, 2, 3 end })
  t:values("1", apply(many, many))
  t:values("nil", apply(setmetatable({}, { [event] = function() end }), 1))
  t:equal(
    apply(
      setmetatable({}, { [event] = setmetatable({}, { __call = function(_, a, b) return b end }) }),
      "x"
    ),
    "x"
  )
  t:raises("attempt to call a number value", apply, setmetatable({}, { [event] = 5 }), 1)
  t:raises("attempt to", apply, {}, 1)
  -- An error passes through, and the metatable may change meanwhile.
  t:gives("! E", apply, setmetatable({}, { [event] = function() error("E", 0) end }), 1)
  t:equal(
    apply(
      setmetatable({}, {
        [event] = function(a)
          setmetatable(a, nil)
          return "done"
        end,
      }),
      1
    ),
    "done"
  )
  t:equal(
    apply(
      setmetatable({}, {
        [event] = function(a)
          setmetatable(a, nil)
          collectgarbage "step"
          return "done"
        end,
      }),
      1
    ),
    "done"
  )
end
for _, row in ipairs { { "-", "__unm" }, { "~", "__bnot" }, { "#", "__len" } } do
  local apply = load("local a = ... return " .. row[1] .. "a")
  for _, result in ipairs { 1, "x", true, {}, 2.5 } do
    t:equal(apply(setmetatable({}, { [row[2]] = function() return result end })), result)
  end
  t:raises("attempt to", apply, row[1] == "#" and 5 or {})
  t:values("nil", apply(setmetatable({}, { [row[2]] = function() end })))
  local same
  apply(setmetatable({}, { [row[2]] = function(a, b) same = rawequal(a, b) or row[1] == "#" end }))
  t:equal(same, true)
end

-- Comparison: results become booleans; == is not called for the same object, other types, or other
-- primitives.
do
  local function comparing(result)
    return {
      __lt = function() return result end,
      __le = function() return result end,
      __eq = function() return result end,
    }
  end
  for _, row in ipairs {
    { 1, true },
    { "", true },
    { {}, true },
    { true, true },
    { false, false },
    { nil, false },
    n = 6,
  } do
    local mt = comparing(row[1])
    local a, b = setmetatable({}, mt), setmetatable({}, mt)
    t:equal(a < b, row[2])
    t:equal(a <= b, row[2])
    t:equal(a > b, row[2])
    t:equal(a >= b, row[2])
    t:equal(a == b, row[2])
    t:equal(a ~= b, not row[2])
    t:equal(a < 1, row[2])
    t:equal(1 < a, row[2])
    t:equal(a >= 2.5, row[2])
    t:equal("x" > a, row[2])
  end
  local none = setmetatable({}, { __eq = function() error "called" end })
  t:equal(none == none, true)
  for _, other in ipairs { 1, "x", true, print, io.stdout } do
    t:equal(none == other, false)
    t:equal(other ~= none, true)
  end
  t:equal(rawequal(none, setmetatable({}, getmetatable(none))), false)
  local order = t:log()
  local named = {
    __lt = function(a, b)
      order(a.n .. b.n)
      return true
    end,
    __le = function(a, b)
      order(a.n .. b.n)
      return true
    end,
  }
  local a, b = setmetatable({ n = "a" }, named), setmetatable({ n = "b" }, named)
  local _ = a < b, a > b, a <= b, a >= b
  order:is "ab ba ab ba"
  t:raises(
    "attempt to compare two table values",
    function() return setmetatable({}, { __le = rawequal }) < {} end
  )
end

-- __index and __newindex: chains of tables and functions, raw fields first, limits.
for depth = 1, 50 do
  local bottom = { found = depth }
  local top = bottom
  for _ = 1, depth do top = setmetatable({}, { __index = top, __newindex = top }) end
  t:equal(top.found, depth)
  t:equal(top.missing, nil)
  top.written = depth
  t:equal(bottom.written, depth)
  t:equal(rawget(top, "written"), nil)
end
do
  local top = {}
  for _ = 1, 2001 do top = setmetatable({}, { __index = top, __newindex = top }) end
  t:raises("'__index' chain too long; possible loop", function() return top.x end)
  t:raises("'__newindex' chain too long; possible loop", function() top.x = 1 end)
  local loop = {}
  setmetatable(loop, { __index = loop, __newindex = loop })
  t:raises("possible loop", function() return loop.x end)
  t:raises("possible loop", function() loop.x = 1 end)
  local o = setmetatable({ raw = 1, no = false }, { __index = function(o, k) return k .. "!" end })
  t:values("1 false 'x!' '1!'", o.raw, o.no, o.x, o[1])
  t:values("'x!'", (setmetatable({}, { __index = function(_, k) return k .. "!", "second" end })).x)
  local log = t:log()
  local w = setmetatable(
    { old = 1 },
    { __newindex = function(_, k, v) log(k .. "=" .. tostring(v)) end }
  )
  w.old, w.new, w[1], w.new = 2, 3, 4, nil
  t:that(log.text():find "new=3" and log.text():find "1=4" and log.text():find "new=nil")
  t:equal(rawget(w, "new"), nil)
  t:equal(w.old, 2)
  t:raises(
    "attempt to index a number value",
    function() return setmetatable({}, { __index = 5 }).x end
  )
  t:equal(setmetatable({}, { __index = "text" }).len, string.len)
  t:equal(("x").len, string.len)
  t:equal(("abc"):len(), 3)
  t:equal(#setmetatable({}, { __index = { 1, 2, 3 } }), 0)
end

-- __call: arguments, results, chains, tail calls, as an iterator, in pcall and coroutine.
for n = 0, 20 do
  local o = setmetatable({}, { __call = function(self, ...) return select("#", ...), ... end })
  local arguments = {}
  for i = 1, n do arguments[i] = i end
  t:equal((o(table.unpack(arguments))), n)
  t:equal(select("#", o(table.unpack(arguments))), n + 1)
  local chain = o
  for _ = 1, n do chain = setmetatable({}, { __call = chain }) end
  t:equal((chain()), n)
  t:equal((function(...) return chain(...) end)(), n)
  t:equal(select(2, pcall(chain)), n)
end
do
  local sum = 0
  for i in
    setmetatable({}, {
      __call = function(_, limit, i)
        if i < limit then return i + 1 end
      end,
    }),
    5,
    0
  do
    sum = sum + i
  end
  t:equal(sum, 15)
  t:equal(
    select(
      2,
      coroutine.resume(
        coroutine.create(function(o) return o() end),
        setmetatable({}, { __call = function() return coroutine.running() ~= nil end })
      )
    ),
    true
  )
  t:raises("attempt to call a table value", function()
    local f = setmetatable({}, { __call = {} })
    return f()
  end)
end

-- The other events of the library: __tostring, __name, __metatable, __pairs, __len in #, __close
-- and __gc elsewhere.
do
  t:equal(tostring(setmetatable({}, { __tostring = function() return "shown" end })), "shown")
  t:equal(tostring(setmetatable({}, { __tostring = function() return "a\0b" end })), "a\0b")
  for _, wrong in ipairs { true, {}, print } do
    t:raises(
      "'__tostring' must return a string",
      tostring,
      setmetatable({}, { __tostring = function() return wrong end })
    )
  end
  t:matches(tostring(setmetatable({}, { __name = "My.Kind" })), "^My%.Kind: ")
  t:matches(tostring(setmetatable({}, { __name = 5 })), "^table: ")
  t:has(
    select(2, pcall(math.abs, setmetatable({}, { __name = "My.Kind" }))),
    "number expected, got My.Kind"
  )
  t:equal(getmetatable(setmetatable({}, { __metatable = false })), false)
  t:equal(getmetatable(setmetatable({}, { __metatable = "m" })), "m")
  t:equal(getmetatable "".__name, nil)
  t:raises(
    "cannot change a protected metatable",
    setmetatable,
    setmetatable({}, { __metatable = false }),
    nil
  )
  t:values("1 2 3", pairs(setmetatable({}, { __pairs = function() return 1, 2, 3, 4 end })))
  t:values("nil nil nil", pairs(setmetatable({}, { __pairs = function() end })))
  local keys = {}
  for k, v in
    pairs(setmetatable({}, {
      __pairs = function(o)
        return function(_, k)
          k = (k or 0) + 1
          if k <= 3 then return k, k * k end
        end,
          o,
          nil
      end,
    }))
  do
    keys[k] = v
  end
  t:equal(table.concat(keys, " "), "1 4 9")
  for _, value in ipairs { nil, 1, true, print } do t:equal(getmetatable(value), nil) end
end
