-- The table library, the length operator, next and pairs; on plain tables and through metamethods.
local t = ...

local function list(...) return table.concat({ ... }, " ") end
local function counting(n) local l = {} for i = 1, n do l[i] = i end return l end

t:rows {
  "table.concat {}", "''", "table.concat({ 1, 2, 3 }, ', ')", "'1, 2, 3'",
  "table.concat({ 1, 'a', 2.5 })", "'1a2.5'", "table.concat({ 1, 2, 3 }, '-', 2)", "'2-3'",
  "table.concat({ 1, 2, 3 }, '-', 2, 2)", "'2'", "table.concat({ 1, 2, 3 }, '-', 3, 2)", "''",
  "table.concat({ 1, {}, 3 })", "! row:1: invalid value (table) at index 2 in table for 'concat'",
  "table.concat({ 1, nil, 3 }, '', 1, 3)",
    "! row:1: invalid value (nil) at index 2 in table for 'concat'",
  "table.concat(5)", "! row:1: bad argument #1 to 'concat' (table expected, got number)",
  "table.concat({ [math.maxinteger] = 'x' }, '', math.maxinteger, math.maxinteger)", "'x'",
  "table.concat({}, 'x', 1, 0)", "''",
  "local l = { 1, 2 } table.insert(l, 3) return table.concat(l, ' ')", "'1 2 3'",
  "local l = { 1, 2 } table.insert(l, 1, 0) return table.concat(l, ' ')", "'0 1 2'",
  "local l = { 1, 2 } table.insert(l, 3, 'x') return table.concat(l, ' ')", "'1 2 x'",
  "table.insert({ 1, 2 }, 4, 'x')", "! row:1: bad argument #2 to 'insert' (position out of bounds)",
  "table.insert({ 1, 2 }, 0, 'x')", "! row:1: bad argument #2 to 'insert' (position out of bounds)",
  "table.insert({ 1 })", "! row:1: wrong number of arguments to 'insert'",
  "table.insert({ 1 }, 1, 2, 3)", "! row:1: wrong number of arguments to 'insert'",
  "table.insert(nil, 1)", "! row:1: bad argument #1 to 'insert' (table expected, got nil)",
  "table.insert({ 1 }, 'x', 1)",
    "! row:1: bad argument #2 to 'insert' (number expected, got string)",
  "local l = { 1, 2, 3 } return table.remove(l), #l", "3 2",
  "local l = { 1, 2, 3 } return table.remove(l, 1), table.concat(l, ' ')", "1 '2 3'",
  "table.remove {}", "nil", "table.remove({}, 0)", "nil", "table.remove({ [0] = 'z' }, 0)", "'z'",
  "local l = { 1, 2 } return table.remove(l, 3), #l", "nil 2",
  "table.unpack { 1, 2, 3 }", "1 2 3", "table.unpack({ 1, 2, 3 }, 2)", "2 3",
  "table.unpack({ 1, 2, 3 }, 2, 5)", "2 3 nil nil", "table.unpack({}, 1, 0)", "",
  "table.unpack({ 1, nil, 3 }, 1, 3)", "1 nil 3",
  "table.unpack({}, 1, 1e7)", "! row:1: too many results to unpack",
  "table.unpack({}, math.mininteger, math.maxinteger)", "! row:1: too many results to unpack",
  "table.unpack({ [math.maxinteger] = 'm' }, math.maxinteger, math.maxinteger)", "'m'",
  "table.unpack({}, math.maxinteger, math.mininteger)", "", "table.unpack('abc', 1, 2)", "nil nil",
  "table.pack().n, table.pack(nil).n, table.pack(1, nil, nil).n", "0 1 3",
  "local p = table.pack('a', nil, 'c') return p[1], p[2], p[3], p.n", "'a' nil 'c' 3",
  "table.concat(table.move({ 1, 2, 3 }, 1, 3, 2), ' ')", "'1 1 2 3'",
  "table.concat(table.move({ 1, 2, 3 }, 2, 3, 1), ' ')", "'2 3 3'",
  "table.concat(table.move({ 1, 2, 3 }, 1, 3, 1, {}), ' ')", "'1 2 3'",
  "table.concat(table.move({ 1, 2, 3 }, 1, 0, 5), ' ')", "'1 2 3'",
  "table.move({}, 1, math.maxinteger, 2)",
    "! row:1: bad argument #4 to 'move' (destination wrap around)",
  "table.move({}, math.mininteger, 0, 1)",
    "! row:1: bad argument #3 to 'move' (too many elements to move)",
  "table.move({ 1 }, 1, 1, 1, 5)",
    "! row:1: bad argument #5 to 'move' (table expected, got number)",
  "table.move({ 'x' }, 1, 1, math.maxinteger)[math.maxinteger]", "'x'",
  "local l = { 3, 1, 2 } table.sort(l) return table.concat(l, ' ')", "'1 2 3'",
  "local l = { 'b', 'a' } table.sort(l) return table.concat(l)", "'ab'",
  "local l = { 1, 3, 2 } table.sort(l, function(a, b) return a > b end) return table.concat(l, ' "
    .. "')",
    "'3 2 1'",
  "table.sort { 1, 'x' }", "! attempt to compare string with number",
  "table.sort({ 1, 2 }, 5)", "! row:1: bad argument #2 to 'sort' (function expected, got number)",
  "table.sort({ 3, 2, 1, 5, 4 }, function() return true end)",
    "! row:1: invalid order function for sorting",
  "table.sort({ 1.5, 1, -2, 2 ^ 53 })", "",
  "table.sort({ 1, nil, 2 })", "! attempt to compare nil with number",
  "#{ 1, 2, nil }", "2", "#{ n = 1 }", "0", "#{ nil }", "0", "#{ [1] = 1, [2] = 2 }", "2",
  "select('#', table.unpack { n = 3 })", "0", "next {}", "nil", "next { 5 }", "1 5",
  "next({ 5 }, 1)", "nil", "rawlen { 1, 2 }, rawlen 'abc'", "2 3",
  "rawequal('a', 'a'), rawequal({}, {}), rawequal(1, 1.0)", "true false true",
  "rawget(setmetatable({}, { __index = { x = 1 } }), 'x')", "nil",
  "local o = setmetatable({}, { __newindex = error }) rawset(o, 'x', 1) return o.x", "1",
  "select(-1, 1, 2, 3)", "3", "select(2, 'a', 'b', 'c')", "'b' 'c'", "select('#')", "0",
  "select('#', nil, nil)", "2", "select(5, 1, 2)", "",
  "local l = { 10, 20, x = 1 } local n = 0 for _ in pairs(l) do n = n + 1 end return n", "3",
  "local s = 0 for i, v in ipairs { 1, 2, nil, 4 } do s = s + v end return s", "3",
  "local o = {} o[1.0] = 'one' return o[1], next(o)", "'one' 1 'one'",
  "local o = {} o[2 ^ 53] = 'big' return o[1 << 53]", "'big'",
  "local o = {} o[-0.0] = 'zero' return o[0], o[0.0]", "'zero' 'zero'",
  "({ [1] = 'a', 'b' })[1]", "'b'",
  "#{ (function() return 1, 2, 3 end)() }, #{ (function() return 1, 2, 3 end)(), 4 }", "3 2",
}

-- The number of the argument in the message differs between versions of 5.4.
for _, position in ipairs { 4, 5, -1, math.maxinteger, math.mininteger } do
  t:raises("position out of bounds", table.remove, { 1, 2 }, position)
end

-- Sorting: every permutation of small lists, larger lists of many shapes, and results that agree
-- with counting.
local function permutations(l, n, f)
  if n <= 1 then f(l) return end
  for i = 1, n do
    l[i], l[n] = l[n], l[i]
    permutations(l, n - 1, f)
    l[i], l[n] = l[n], l[i]
  end
end
for n = 1, 5 do
  permutations(counting(n), n, function(l)
    local copy = table.move(l, 1, n, 1, {})
    table.sort(copy)
    t:equal(table.concat(copy, " "), table.concat(counting(n), " "))
  end)
end
for _, n in ipairs { 10, 99, 100, 101, 500, 2000 } do
  for name, value in pairs {
    ascending = function(i) return i end, descending = function(i) return -i end,
    equal = function() return 7 end, scattered = function(i) return (i * 7919) % 1009 end,
    ["two values"] = function(i) return i % 2 end, floats = function(i) return (i * 0.37) % 1 end,
    sawtooth = function(i) return i % 10 end,
  } do
    local l, sum = {}, 0
    for i = 1, n do l[i] = value(i) sum = sum + l[i] end
    table.sort(l, n % 2 == 0 and function(a, b) return a < b end or nil)
    local ordered, after = true, l[1]
    for i = 2, n do ordered = ordered and l[i - 1] <= l[i] after = after + l[i] end
    t:that(ordered and math.abs(after - sum) < 1e-6, name .. " of " .. n)
  end
end
-- insert, remove and move at each position.
for n = 0, 12 do
  for position = 1, n + 1 do
    local l = counting(n)
    table.insert(l, position, "x")
    t:equal(#l, n + 1)
    t:equal(l[position], "x")
    t:equal(table.remove(l, position), "x")
    t:equal(table.concat(l, " "), table.concat(counting(n), " "))
  end
  for distance = -3, 3 do
    local l = table.move(counting(n), 1, n, 1 + distance)
    local good = true
    for i = 1, n do good = good and l[i + distance] == i end
    t:that(good, "moved by " .. distance)
  end
end
-- Each function respects __index, __newindex and __len.
do
  local function proxy(real)
    local reads, writes = 0, 0
    return setmetatable({}, {
      __index = function(_, k) reads = reads + 1 return real[k] end,
      __newindex = function(_, k, v) writes = writes + 1 real[k] = v end,
      __len = function() return #real end,
    }), function() return reads, writes end
  end
  for n = 1, 10 do
    local real = counting(n)
    local p, counts = proxy(real)
    table.insert(p, "new")
    t:equal(real[n + 1], "new")
    t:equal(table.remove(p), "new")
    t:equal(table.concat(p, ","), table.concat(real, ","))
    t:equal(select("#", table.unpack(p)), n)
    table.sort(p, function(a, b) return a > b end)
    t:equal(real[1], n)
    t:equal(table.move(p, 1, n, 1, {})[n], 1)
    local reads, writes = counts()
    t:that(reads >= 2 * n and writes >= 2)
    t:equal(next(p), nil)
  end
  for _, wrong in ipairs { 1.5, "x", {} } do
    t:raises(
      "object length is not an integer",
      table.insert,
      setmetatable({}, { __len = function() return wrong end }),
      1
    )
  end
  t:raises(
    "array too big",
    table.sort,
    setmetatable({}, { __len = function() return math.maxinteger end })
  )
end
-- Traversal while entries are removed and changed; growth and shrinking.
for _, n in ipairs { 1, 10, 100, 1000 } do
  local o, seen = {}, 0
  for i = 1, n do o[i], o["k" .. i] = i, i end
  for k in pairs(o) do o[k] = nil seen = seen + 1 end
  t:equal(seen, 2 * n)
  t:equal(next(o), nil)
  for i = n, 1, -1 do o[i] = i end
  t:equal(#o, n)
  for k, v in pairs(o) do o[k] = v + 1 end
  t:equal(o[n], n + 1)
  for i = 1, n do o[i] = nil end
  t:equal(#o, 0)
end
t:raises("invalid key to 'next'", next, {}, "missing")
