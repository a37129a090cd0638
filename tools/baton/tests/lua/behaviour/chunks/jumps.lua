-- goto, scopes and closures. A jump leaves captured variables as they were; each iteration makes
-- new ones.
local t = ...

t:rows {
  "local i = 1 ::top:: if i < 5 then i = i + 1 goto top end return i", "5",
  "for i = 1, 3 do for j = 1, 3 do if j == 2 then goto next end end ::next:: end return 'end'",
    "'end'",
  "local s = '' for i = 1, 5 do if i % 2 == 0 then goto continue end s = s .. i ::continue:: end "
    .. "return s",
    "'135'",
  "do goto inner ::inner:: end return 1", "1", "goto a do ::b:: end ::a:: return 'a'", "'a'",
  "local n = 0 while true do n = n + 1 if n > 9 then goto out end end ::out:: return n", "10",
  "local n = 0 repeat n = n + 1 if n == 3 then goto out end until n == 5 ::out:: return n", "3",
  "local function f() goto l1 ::l2:: do return 2 end ::l1:: goto l2 end return f()", "2",
  "do local a = 1 goto done end ::done:: return 'done'", "'done'",
  "local x = 0 ::a:: x = x + 1 if x == 1 then goto a elseif x == 2 then goto b end ::b:: return x",
    "2",
  "local a = {} for i = 1, 3 do local x = i a[i] = function() x = x + 1 return x end end return "
    .. "a[1](), a[1](), a[2](), a[3]()",
    "2 3 3 4",
  "local a, i = {}, 1 ::top:: local x = i a[i] = function() return x end i = i + 1 if i <= 3 then "
    .. "goto top end return a[1](), a[2](), a[3]()",
    "1 2 3",
  "local a = {} for i = 1, 3 do a[i] = function() i = i + 10 return i end end return a[1](), "
    .. "a[1](), a[2]()",
    "11 21 12",
  "local a = {} local i = 0 while i < 3 do i = i + 1 local x = i a[i] = function() return x, i "
    .. "end end return a[1](), a[2](), a[3]()",
    "1 2 3 3",
  "local a = {} local i = 0 repeat i = i + 1 local x = i a[i] = function() return x end until x "
    .. ">= 3 return a[1](), a[3]()",
    "1 3",
  "local x = 1 do local x = 2 end return x", "1", "local x = 1 local x = x + 1 return x", "2",
  "local function f() return f end return f() == f", "true",
  "local f = function() return f end return f()", "nil",
  "local a <const>, b = 1, 2 return a + b", "3",
  "local x <const> = 5 local f = function() return x end return f()", "5",
  "local a, b, c = (function() return 1, 2, 3 end)() return a, b, c", "1 2 3",
  "local a, b = ((function() return 1, 2 end)()) return a, b", "1 nil",
  "local a, b = 1 return a, b", "1 nil", "local a, b = 1, 2, 3 return a, b", "1 2",
  "local a, b = 1, 2 a, b = b, a return a, b", "2 1",
  "local i, l = 1, {} i, l[i] = 2, 'x' return i, l[1], l[2]", "2 'x' nil", "return (...)", "nil",
  "return select('#', ...)", "0", "return #{ ... }", "0",
  "local function f(...) local a, b = ... return a, b, select('#', ...) end return f(1)", "1 nil 1",
  "local function f(a, ...) return ... end return f(1, 2, 3)", "2 3",
  "local function f(...) return (...) end return f(5, 6)", "5",
  "return (function(...) return select('#', ...) end)(nil, nil)", "2",
  "return 1, (function() return 2, 3 end)()", "1 2 3",
  "return (function() return 2, 3 end)(), 1", "2 1", "; ; ; return 1", "1", "return", "",
  "return;", "", "do end return 1", "1", "while false do end repeat until true return 1", "1",
  "return not nil and 1 or 2", "1", "return nil and 1 or 2", "2", "return false == nil", "false",
  "return 2 and 3, nil or 4, false and 5", "3 4 false", "return 'a' .. 'b' .. 'c' == 'abc'", "true",
  "return [==[\nfirst newline dropped]]]==]", "'first newline dropped]]'",
  "return '\\z   \n  x\\x41\\65\\u{42}'", "'xAAB'",
  "return 0xA, 0Xa, 1e2, 1E+2, .5, 3.", "10 10 100.0 100.0 0.5 3.0",
  "return -- comment\n 1 --[[ long ]] + --[==[ ]] ]==] 2", "3",
  "local t = { 1, 2; 3, n = 4, [10] = 5, } return #t, t.n, t[10]", "3 4 5",
  "return ({ f = function(self, x) return x end }):f(7)", "7",
  "return ('x'):rep(3), #'abc', ('%d'):format(5)", "'xxx' 3 '5'",
  "local t = {} function t.a() return 1 end function t:b() return self end return t.a(), t:b() == "
    .. "t",
    "1 true",
  "local t = { a = { b = {} } } function t.a.b.c() return 'c' end function t.a.b:d() return self "
    .. "end return t.a.b.c(), t.a.b:d() == t.a.b",
    "'c' true",
  "f = function(s) return s end return f 'x', f [[y]], #f { 1 }", "'x' 'y' 1",
}

-- Closures made in loops keep their variables, however the loop is left.
for n = 1, 20 do
  for _, way in ipairs { "break", "goto out", "return", "error('x', 0)", "coroutine.yield()" } do
    local env = setmetatable({ kept = {} }, { __index = _G })
    local f = load(([[
      local function body()
        for i = 1, %d do
          local a, b = i, i * 2
          kept[i] = function(x) if x then a = x end return a, b end
          if i == %d then %s end
        end
        ::out::
      end
      coroutine.wrap(pcall)(body)
    ]]):format(n + 5, n, way == "return" and "do return end" or way), "=closures", "t", env)
    f()
    t:equal(#env.kept, n, way)
    t:equal(table.concat({ env.kept[n]() }, " "), n .. " " .. 2 * n)
    env.kept[n]("changed")
    t:equal((env.kept[n]()), "changed")
    t:equal((env.kept[1]()), n == 1 and "changed" or 1)
  end
end

-- Many locals, upvalues, constants, labels, arguments and levels: at the limits, and past them.
do
  local function many(n, f, separator)
    local l = {}
    for i = 1, n do
      l[i] = f(i)
    end
    return table.concat(l, separator or " ")
  end
  for _, n in ipairs { 1, 100, 200 } do
    t:equal(
      load(many(n, function(i) return ("local a%d = %d"):format(i, i) end) .. " return a" .. n)(),
      n
    )
  end
  t:has(
    select(2, load(many(201, function(i) return "local a" .. i end))),
    "too many local variables (limit is 200)"
  )
  for _, n in ipairs { 1, 60, 250 } do
    local locals = many(n, function(i) return ("u[%d] = %d"):format(i, i) end)
    t:equal(load("local u = {} " .. locals .. " return #u")(), n)
  end
  for _, n in ipairs { 10, 255, 256, 257, 1000, 70000 } do
    local l = load("return { " .. many(n, function(i) return i .. ".5" end, ", ") .. " }")()
    t:equal(#l, n)
    t:equal(l[n], n + 0.5)
  end
  for _, n in ipairs { 1, 100, 250 } do
    t:equal(select("#", load("return " .. many(n, tostring, ", "))()), n)
  end
  t:has(
    select(2, load("return f(" .. many(300, tostring, ", ") .. ")")),
    "function or expression needs too many registers"
  )
  for _, n in ipairs { 10, 1000 } do
    local code = many(n, function(i) return ("if x == %d then goto l%d end"):format(i, i) end)
      .. " do return 'none' end "
      .. many(n, function(i) return ("::l%d:: do return %d end"):format(i, i) end)
    local f = load("local x = ... " .. code)
    t:equal(f(1), 1) t:equal(f(n), n) t:equal(f(0), "none")
  end
  local long = ("x"):rep(50000)
  t:equal(load("local " .. long .. " = 7 return " .. long)(), 7)
end
