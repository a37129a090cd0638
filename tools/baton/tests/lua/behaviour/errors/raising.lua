-- Errors: values, levels and positions, messages of the language, pcall and xpcall.
local t = ...

-- Every value can be raised, and is caught unchanged.
for i, value in ipairs {
  "text",
  "",
  1,
  2.5,
  true,
  false,
  {},
  print,
  coroutine.create(print),
  io.stdout,
  setmetatable({}, { __tostring = function() return "x" end }),
} do
  for level = 0, 3 do
    local ok, got = pcall(error, value, level)
    t:equal(ok, false)
    if type(value) ~= "string" then t:equal(got, value, "value " .. i) end
  end
  t:equal(select(2, pcall(error, value, 0)), value)
  t:equal(select(2, xpcall(error, function(v) return v end, value, 0)), value)
  t:equal(select("#", pcall(error, value)), 2)
end
t:values("false nil", pcall(error))
t:values("false nil", pcall(error, nil))
t:values("true", pcall(function() end))
t:values("true nil", pcall(function() return nil end))
t:values("true 1 nil 3 nil", pcall(function() return 1, nil, 3, nil end))

-- Levels select the caller whose position the message gets.
do
  local code = [[local raise = ...
local function one(level) error("m", level) end
local function two(level) one(level); return 1 end
local function three(level)
  two(level); return 1
end
three(raise)
]]
  local expected = { [0] = "m", "lines:2: m", "lines:3: m", "lines:5: m", "lines:7: m" }
  for level = 0, 4 do t:gives("! " .. expected[level], load(code, "=lines"), level) end
  t:gives("! m", load(code, "=lines"), 5) -- pcall is a function of C and has no line
  t:gives("! m", load(code, "=lines"), 5000)
  t:gives("! @x:1: m", load("error 'm'", "=@x"))
  t:gives("! x.lua:1: m", load("error 'm'", "@x.lua"))
  t:gives("! [string \"error 'm'\"]:1: m", load "error 'm'")
  t:gives("! [string \"local a...\"]:2: m", load "local a\nerror 'm'")
  t:gives("! " .. ("x"):rep(59) .. ":1: m", load("error 'm'", "=" .. ("x"):rep(80)))
  t:gives("! ..." .. ("x"):rep(56) .. ":1: m", load("error 'm'", "@" .. ("x"):rep(80)))
end

-- assert.
t:values("1 2 nil", assert(1, 2, nil))
t:gives("! assertion failed!", assert, false)
t:gives("! assertion failed!", assert, nil)
t:gives("! why", assert, false, "why")
t:gives("! why", assert, nil, "why", "not this")
t:gives("! nil", assert, false, nil)
t:gives("! table", assert, false, {})
t:gives("! 5", assert, false, 5)
t:raises("bad argument #1 to 'assert' (value expected)", function() assert() end)

-- Messages of the language: each names the operand and its type.
t:rows {
  "local x; return x.y", "! row:1: attempt to index a nil value (local 'x')",
  "local x; x.y = 1", "! row:1: attempt to index a nil value (local 'x')",
  "x.y.z = 1", "! row:1: attempt to index a nil value (global 'x')",
  "local a = {} return a.b.c", "! row:1: attempt to index a nil value (field 'b')",
  "local a = {} return a.b.c.d", "! row:1: attempt to index a nil value (field 'b')",
  "local a = {} return a[1].c", "! row:1: attempt to index a nil value (field 'integer index')",
  "local a, k = {}, 'key' return a[k].c", "! row:1: attempt to index a nil value (field '?')",
  "local a = 5 local function f() return a.x end f()",
    "! row:1: attempt to index a number value (upvalue 'a')",
  "local a = true; a.x = 1", "! row:1: attempt to index a boolean value (local 'a')",
  "undefined()", "! row:1: attempt to call a nil value (global 'undefined')",
  "local f f()", "! row:1: attempt to call a nil value (local 'f')",
  "local a = {} a.b()", "! row:1: attempt to call a nil value (field 'b')",
  "local a = {} a:b()", "! row:1: attempt to call a nil value (method 'b')",
  "('x'):nothing()", "! row:1: attempt to call a nil value (method 'nothing')",
  "local f = 1 local function g() f() end g()",
    "! row:1: attempt to call a number value (upvalue 'f')",
  "(1)()", "! row:1: attempt to call a number value",
  "({})()", "! row:1: attempt to call a table value",
  "local a = 'x' return a + 1", "! row:1: attempt to add a 'string' with a 'number'",
  "local a = {} return a + 1",
    "! row:1: attempt to perform arithmetic on a table value (local 'a')",
  "local a return 1 - a", "! row:1: attempt to perform arithmetic on a nil value (local 'a')",
  "return nothing * 2", "! row:1: attempt to perform arithmetic on a nil value (global 'nothing')",
  "local a = {} return a.b / 2",
    "! row:1: attempt to perform arithmetic on a nil value (field 'b')",
  "local a = {} return -a", "! row:1: attempt to perform arithmetic on a table value (local 'a')",
  "local a = true return a ^ 2",
    "! row:1: attempt to perform arithmetic on a boolean value (local 'a')",
  "local a = print return a % 2",
    "! row:1: attempt to perform arithmetic on a function value (local 'a')",
  "local a = {} return a | 1",
    "! row:1: attempt to perform bitwise operation on a table value (local 'a')",
  "local a = 1.5 return a | 1", "! row:1: number (local 'a') has no integer representation",
  "return 2^63 & 1", "! row:1: number has no integer representation",
  "return ~1.5", "! row:1: number has no integer representation",
  "return '1.5' | 1",
    "! row:1: attempt to perform bitwise operation on a string value (constant '1.5')",
  "return 'a' | 1",
    "! row:1: attempt to perform bitwise operation on a string value (constant 'a')",
  "local a = nil return a .. 'x'", "! row:1: attempt to concatenate a nil value (local 'a')",
  "local a = {} return 'x' .. a", "! row:1: attempt to concatenate a table value (local 'a')",
  "return 'x' .. true", "! row:1: attempt to concatenate a boolean value",
  "return nothing .. 'x'", "! row:1: attempt to concatenate a nil value (global 'nothing')",
  "return #5", "! row:1: attempt to get length of a number value",
  "local a return #a", "! row:1: attempt to get length of a nil value (local 'a')",
  "return #nothing", "! row:1: attempt to get length of a nil value (global 'nothing')",
  "return 1 < 'x'", "! row:1: attempt to compare number with string",
  "return {} < {}", "! row:1: attempt to compare two table values",
  "return nil < 1", "! row:1: attempt to compare nil with number",
  "return 'a' <= 1", "! row:1: attempt to compare string with number",
  "return true > false", "! row:1: attempt to compare two boolean values",
  "return print >= print", "! row:1: attempt to compare two function values",
  "return {} <= 1", "! row:1: attempt to compare table with number",
  "return 1 // 0", "! row:1: attempt to divide by zero",
  "return 1 % 0", "! row:1: attempt to perform 'n%0'",
  "local a = {} a[nil] = 1", "! row:1: table index is nil",
  "local a = {} a[0/0] = 1", "! row:1: table index is NaN",
  "for i = 1, 10, 0 do end", "! row:1: 'for' step is zero",
  "for i = 'a', 10 do end", "! row:1: bad 'for' initial value (number expected, got string)",
  "for i = 1, {} do end", "! row:1: bad 'for' limit (number expected, got table)",
  "for i = 1, 2, true do end", "! row:1: bad 'for' step (number expected, got boolean)",
  "for i = '1', 2 do end", "",
  "for k in 5 do end", "! row:1: attempt to call a number value (for iterator 'for iterator')",
  "for k in nil do end", "! row:1: attempt to call a nil value (for iterator 'for iterator')",
  "local a <close> = 5", "! row:1: variable 'a' got a non-closable value",
  "local a <close> = {}", "! row:1: variable 'a' got a non-closable value",
  "setmetatable(5, {})", "! row:1: bad argument #1 to 'setmetatable' (table expected, got number)",
  "setmetatable({}, 5)",
    "! row:1: bad argument #2 to 'setmetatable' (nil or table expected, got number)",
  "setmetatable({})",
    "! row:1: bad argument #2 to 'setmetatable' (nil or table expected, got no value)",
  "setmetatable(setmetatable({}, { __metatable = 1 }), {})",
    "! row:1: cannot change a protected metatable",
  "getmetatable()", "! row:1: bad argument #1 to 'getmetatable' (value expected)",
  "ipairs()", "! row:1: bad argument #1 to 'ipairs' (value expected)",
  "pairs(nil)", "function nil nil",
  "next({}, 'no such key')", "! invalid key to 'next'",
  "select(0)", "! row:1: bad argument #1 to 'select' (index out of range)",
  "select(-2, 1)", "! row:1: bad argument #1 to 'select' (index out of range)",
  "select('x')", "! row:1: bad argument #1 to 'select' (number expected, got string)",
  "tonumber()", "! row:1: bad argument #1 to 'tonumber' (value expected)",
  "tonumber(5, 10)", "! row:1: bad argument #1 to 'tonumber' (string expected, got number)",
  "tonumber('5', 1)", "! row:1: bad argument #2 to 'tonumber' (base out of range)",
  "tonumber('5', 37)", "! row:1: bad argument #2 to 'tonumber' (base out of range)",
  "tostring()", "! row:1: bad argument #1 to 'tostring' (value expected)",
  "type()", "! row:1: bad argument #1 to 'type' (value expected)",
  "rawset(1, 2, 3)", "! row:1: bad argument #1 to 'rawset' (table expected, got number)",
  "rawget('x', 1)", "! row:1: bad argument #1 to 'rawget' (table expected, got string)",
  "rawlen(5)", "! row:1: bad argument #1 to 'rawlen' (table or string expected, got number)",
  "collectgarbage 'nothing'",
    "! row:1: bad argument #1 to 'collectgarbage' (invalid option 'nothing')",
  "tostring(setmetatable({}, { __tostring = function() return 1 end }))", "'1'",
  "load(5)", "nil '[string \"5\"]:1: unexpected symbol near '5''",
  "math.floor({})", "! row:1: bad argument #1 to 'floor' (number expected, got table)",
  "('x'):rep({})", "! row:1: bad argument #1 to 'rep' (number expected, got table)",
  "('x').rep()", "! row:1: bad argument #1 to 'rep' (string expected, got no value)",
  "string.rep('x', 1.5)",
    "! row:1: bad argument #2 to 'rep' (number has no integer representation)",
  "io.open({})", "! row:1: bad argument #1 to 'open' (string expected, got table)",
  "pcall()", "! row:1: bad argument #1 to 'pcall' (value expected)",
  "xpcall(print)", "! row:1: bad argument #2 to 'xpcall' (function expected, got no value)",
  "xpcall(print, 5)", "! row:1: bad argument #2 to 'xpcall' (function expected, got number)",
  "pcall(5)", "false 'attempt to call a number value'",
  "pcall(nil)", "false 'attempt to call a nil value'",
  "pcall({})", "false 'attempt to call a table value'",
  "pcall(setmetatable({}, { __call = function(_, a) return a end }), 7)", "true 7",
  "local a <const> = 1; a = 2", "! row:1: attempt to assign to const variable 'a'",
  "break", "! row:1: break outside loop at line 1",
  "x =", "! row:1: unexpected symbol near <eof>",
  "x = = 1", "! row:1: unexpected symbol near '='",
  "local function end", "! row:1: <name> expected near 'end'",
  "return 'open", "! row:1: unfinished string near <eof>",
  "return [[open", "! row:1: unfinished long string (starting at line 1) near <eof>",
  "--[[ open", "! row:1: unfinished long comment (starting at line 1) near <eof>",
  "if x then", "! row:1: 'end' expected near <eof>",
  "f(", "! row:1: unexpected symbol near <eof>",
  "x = 5 5", "! row:1: unexpected symbol near '5'",
  "local x <nope> = 1", "! row:1: unknown attribute 'nope'",
  "return '\\q'", "! row:1: invalid escape sequence near ''\\q'",
  "return '\\300'", "! row:1: decimal escape too large near ''\\300''",
  "return '\\xZ'", "! row:1: hexadecimal digit expected near ''\\xZ'",
  "return '\\u{80000000}'", "! row:1: UTF-8 value too large near ''\\u{80000000'",
  "return 3x", "! row:1: malformed number near '3x'",
  "return 0x", "! row:1: malformed number near '0x'",
  "return 1..2", "! row:1: malformed number near '1..2'",
  "::a:: ::a::", "! row:1: label 'a' already defined on line 1",
  "return ...; local x", "! row:1: <eof> expected near 'local'",
  "function f() return ... end", "! row:1: cannot use '...' outside a vararg function near '...'",
}

-- An error in a loop's iterator, an argument or a table constructor: the statement has no effect
-- after that point.
do
  local done
  t:gives("! stop", function() done = { 1, error("stop", 0), 3 } end)
  t:equal(done, nil)
  t:gives("! stop", function() done = (function(...) return ... end)(1, error("stop", 0)) end)
  t:equal(done, nil)
  for n = 1, 20 do
    local sum = 0
    t:gives("! stop", function()
      for i in
        function(_, i)
          if i == n then error("stop", 0) end
          return i + 1
        end,
        nil,
        0
      do
        sum = sum + i
      end
    end)
    t:equal(sum, n * (n + 1) // 2)
  end
end
