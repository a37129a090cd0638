-- Integers and floats at their edges, conversions both ways, loops, comparison, and the math
-- library.
local t = ...

t:rows {
  "math.maxinteger + 1 == math.mininteger", "true",
  "math.mininteger - 1 == math.maxinteger", "true", "math.maxinteger * 2", "-2",
  "-math.mininteger == math.mininteger", "true", "math.mininteger // -1 == math.mininteger", "true",
  "math.mininteger % -1", "0", "math.abs(math.mininteger) == math.mininteger", "true",
  "9223372036854775807", "9223372036854775807", "9223372036854775808", "9.2233720368547758e+18",
  "-9223372036854775808", "-9.2233720368547758e+18",
  "0x7fffffffffffffff == math.maxinteger", "true", "0xffffffffffffffff", "-1",
  "0x1ffffffffffffffff", "-1", "0x8000000000000000 == math.mininteger", "true",
  "7 // 2, -7 // 2, 7 // -2, -7 // -2", "3 -4 -4 3", "7 % 3, -7 % 3, 7 % -3, -7 % -3", "1 2 -2 -1",
  "7.5 // 2, -7.5 // 2", "3.0 -4.0", "5.5 % 2, -5.5 % 2, 5.5 % -2, -5.5 % -2", "1.5 0.5 -0.5 -1.5",
  "1 // 0.0, -1 // 0.0", "inf -inf", "0/0 ~= 0/0", "true",
  "5 % math.huge, -5 % math.huge, 5 % -math.huge, -5 % -math.huge", "5.0 inf -inf -5.0",
  "1 % 0.0", "nan", "1.0 // 0", "inf", "0.0 / -1", "-0.0", "-0.0 == 0.0", "true",
  "1 / -0.0", "-inf", "0 // -1.0", "-0.0", "3 / 2, 4 / 2", "1.5 2.0",
  "2 ^ 10, 2 ^ -1, (-8) ^ (1/3)", "1024.0 0.5 nan", "2 ^ 63 == math.mininteger", "false",
  "-(2 ^ 63) == math.mininteger", "true", "2 ^ 53 == 2 ^ 53 + 1", "true",
  "(1 << 53) + 1 == 2 ^ 53 + 1", "false",
  "1 == 1.0, 1 < 1.5, 2 > 1.5", "true true true",
  "math.maxinteger < math.huge, math.mininteger > -math.huge", "true true",
  "math.maxinteger + 0.0 == math.maxinteger", "false",
  "math.maxinteger + 0.0 > math.maxinteger", "true",
  "math.mininteger + 0.0 == math.mininteger", "true",
  "math.maxinteger < 2 ^ 63, math.maxinteger <= 2 ^ 63, math.maxinteger >= 2 ^ 63",
    "true true false",
  "1 < 0/0, 1 > 0/0, 1 <= 0/0, 0/0 == 0/0", "false false false false",
  "2 ^ 53 < (1 << 53) + 1", "true", "(1 << 53) + 1 <= 2 ^ 53", "false",
  "-1 < 0.0, 0 <= -0.0", "true true",
  "1 << 62, 1 << 63 == math.mininteger, 1 << 64, 1 << 65", "4611686018427387904 true 0 0",
  "1 << -1, 2 >> 1, -1 >> 1 == math.maxinteger, -1 >> 63, -1 >> 64", "0 1 true 1 0",
  "1 >> -3, 1 << math.mininteger, 1 >> math.maxinteger", "8 0 0",
  "~0, ~5, 5 & 3, 5 | 3, 5 ~ 3", "-1 -6 1 7 6", "3.0 | 0, 2 ^ 31 | 0", "3 2147483648",
  "-1 & 0xff, -1 ~ -1", "255 0", "2 ^ 63 | 0", "! row:1: number has no integer representation",
  "1e100 | 0", "! row:1: number has no integer representation",
  "0/0 | 0", "! row:1: number has no integer representation",
  "-2 ^ 2, 2 ^ 3 ^ 2, -2 ^ -2", "-4.0 512.0 -0.25",
  "1 .. 2 == '12', 2 * 3 % 4, 1 + 2 << 1, 1 << 2 + 1", "true 2 6 8", "5 & 6 == 4", "true",
  "not nil == true, not (1 == 2)", "true true",
  "1 or error(), nil and error(), false or nil", "1 nil nil", "3 | 4 & 6 ~ 1", "7",
  "#'abc' + 1, -3 % 5, -(3 % 5)", "4 2 -3", "2 < 3 == true, 1 <= 1 and 2", "true 2",
  "tonumber '10', tonumber '1e1', tonumber '0x1p4', tonumber '0x.8', tonumber ' 5 '",
    "10 10.0 16.0 0.5 5",
  "tonumber '', tonumber ' ', tonumber '1 2', tonumber '1e', tonumber '0x', tonumber '1..2'",
    "nil nil nil nil nil nil",
  "tonumber 'inf', tonumber 'nan', tonumber '1_000', tonumber '+5', tonumber '- 5', tonumber '--5'",
    "nil nil nil 5 nil nil",
  "tonumber('10', 2), tonumber('zz', 36), tonumber('-ff', 16), tonumber('8', 8), tonumber('1.0', "
    .. "10)",
    "2 1295 -255 nil nil",
  "tonumber('7fffffffffffffff', 16) == math.maxinteger, tonumber('ffffffffffffffff', 16)",
    "true -1",
  "tonumber(5), tonumber(5.5), tonumber(nil), tonumber {}, tonumber(true)", "5 5.5 nil nil nil",
  "tonumber '1\\0', tonumber('1' .. ('0'):rep(400))", "nil inf",
  "tonumber '9223372036854775808', tonumber '-9223372036854775808' == math.mininteger",
    "9.2233720368547758e+18 true",
  "tonumber '.5', tonumber '5.', tonumber '.', tonumber '0x.p1'", "0.5 5.0 nil nil",
  "tonumber '1e+5', tonumber '1E-5', tonumber '0X10', tonumber '0xA.8p1'", "100000.0 1e-05 16 21.0",
  "tonumber('\\t12\\n'), tonumber '12a', tonumber '0b1'", "12 nil nil",
  "3 == 3.0000000000000001, 0.1 + 0.2 == 0.3, 1e308 * 10, -1e308 * 10, 5e-324 / 2",
    "true false inf -inf 0.0",
  "1e15, 1e16, 123456.789e3, .5, 5., 3e0, 0x.1, 0xA",
    "1e+15 1e+16 123456789.0 0.5 5.0 3.0 0.0625 10",
  "0x1p-1074, 0x1.fffffffffffffp1023", "4.9406564584125e-324 1.7976931348623157e+308",
  "1//1, 1.0//1, 2^2, 10/2, 3-3.0, 2*1.0", "1 1.0 4.0 5.0 0.0 2.0",
  "math.type(1), math.type(1.0), math.type '1', math.type(nil)", "'integer' 'float' nil nil",
  "math.type()", "! row:1: bad argument #1 to 'type' (value expected)",
  "math.tointeger(3.0), math.tointeger(3.5), math.tointeger '3', math.tointeger {}, "
    .. "math.tointeger(2 ^ 63)",
    "3 nil 3 nil nil",
  "math.floor(3.7), math.floor(-3.7), math.ceil(3.2), math.ceil(-3.2), math.floor(5)",
    "3 -4 4 -3 5",
  "math.floor(2 ^ 70), math.ceil(-1e100), math.floor(1/0), math.ceil(-1/0)",
    "1.1805916207174113e+21 -1e+100 inf -inf",
  "math.fmod(7, 3), math.fmod(-7, 3), math.fmod(7, -3), math.fmod(5.5, 2)", "1 -1 1 1.5",
  "math.fmod(1, 0)", "! row:1: bad argument #2 to 'fmod' (zero)",
  "math.fmod(1, 0.0), math.fmod(math.mininteger, -1)", "nan 0",
  "math.modf(3.7)", "3 0.70000000000000018", "math.modf(-3.5)", "-3 -0.5",
  "math.modf(1/0)", "inf 0.0", "math.modf(5)", "5 0.0",
  "math.sqrt(16), math.sqrt(2) ^ 2, math.sqrt(-1)", "4.0 2.0000000000000004 nan",
  "math.exp(0), math.log(1), math.log(8, 2), math.log(1000, 10), math.log(0), math.log(27, 3)",
    "1.0 0.0 3.0 3.0 -inf 3.0",
  "math.sin(0), math.cos(0), math.tan(0), math.asin(0), math.acos(1), math.atan(0)",
    "0.0 1.0 0.0 0.0 0.0 0.0",
  "math.atan(1, 0) == math.pi / 2, math.atan(0, -1) == math.pi, math.atan(-1, 0) == -math.pi / 2",
    "true true true",
  "math.max(1, 2.5, -1), math.min(1, 2.5, -1), math.max(5), math.max(1, 1.0), math.max(1.0, 1)",
    "2.5 -1 5 1 1.0",
  "math.max()", "! row:1: bad argument #1 to 'max' (value expected)",
  "math.ult(1, -1), math.ult(-1, 1), math.ult(0, 0)", "true false false",
  "math.pi, math.huge", "3.1415926535897931 inf",
  "math.deg(math.pi), math.rad(180) == math.pi", "180.0 true",
  "math.abs(-5), math.abs(-5.5), math.abs(-0.0), math.abs '-3'", "5 5.5 0.0 3.0",
  "math.random(0) ~= math.random(0)", "true", "math.random(5, 5)", "5", "math.random(1)", "1",
  "math.random(2, 1)", "! row:1: bad argument #1 to 'random' (interval is empty)",
  "math.random(0, 1, 2)", "! row:1: wrong number of arguments",
  "math.random(1.5)", "! row:1: bad argument #1 to 'random' (number has no integer representation)",
  "math.random(-1)", "! row:1: bad argument #1 to 'random' (interval is empty)",
  "math.type(math.random())", "'float'",
  "math.type(math.random(math.mininteger, math.maxinteger))", "'integer'",
  "local n = 0 for i = 1, 0 do n = n + 1 end return n", "0",
  "local n = 0 for i = 1, 3 do n = n + i end return n", "6",
  "local n = 0 for i = 3, 1, -1 do n = n * 10 + i end return n", "321",
  "local n = 0 for i = 1, 2, 0.25 do n = n + 1 end return n", "5",
  "local n = 0 for i = math.maxinteger - 1, math.maxinteger do n = n + 1 end return n", "2",
  "local n = 0 for i = math.mininteger + 1, math.mininteger, -1 do n = n + 1 end return n", "2",
  "local n = 0 for i = 1, math.huge do n = n + 1 if n == 5 then break end end return n", "5",
  "local n = 0 for i = 1, -math.huge do n = n + 1 end return n", "0",
  "local n = 0 for i = 1, 3.9 do n = n + 1 end return n", "3",
  "local n = 0 for i = 1.0, 3 do n = n + i end return n", "6.0",
  "local n = 0 for i = 1, 10, math.maxinteger do n = n + 1 end return n", "1",
  "local n = 0 for i = -1, -10, math.mininteger do n = n + 1 end return n", "1",
  "for i = 1, 3 do i = 10 end return 'ok'", "'ok'",
  "local n = 0 for i = 1, 0/0 do n = n + 1 end return n", "0",
  "local n = 0 for i = math.maxinteger, math.maxinteger + 1.0 do n = n + 1 end return n", "1",
  "local s = '' for i = 0.1, 0.35, 0.1 do s = s .. i .. ' ' end return s", "'0.1 0.2 0.3 '",
}

-- Division and remainder are consistent for all signs, in integers and floats.
local numbers = {
  1,
  -1,
  2,
  -2,
  3,
  -3,
  7,
  -7,
  10,
  -10,
  255,
  -256,
  1000003,
  -1000003,
  math.maxinteger,
  math.mininteger,
  math.maxinteger // 3,
}
for _, a in ipairs(numbers) do
  for _, b in ipairs(numbers) do
    local q, r = a // b, a % b
    t:that(q * b + r == a and (r == 0 or (r < 0) == (b < 0)), a .. " and " .. b)
  end
end
for _, a in ipairs { 0.5, -0.5, 3.25, -3.25, 1e10, -1e10 } do
  for _, b in ipairs { 0.25, -0.25, 2, -2, 7.5 } do
    local q, r = a // b, a % b
    t:that(q == math.floor(a / b) and math.abs(q * b + r - a) < 1e-6, a .. " and " .. b)
  end
end
-- Shifts compared with multiplication and division.
for n = 0, 62 do
  t:equal(1 << n, math.tointeger(2 ^ n))
  t:equal((1 << n) >> n, 1)
  t:equal(-1 << n, -(1 << n))
  t:equal((1 << 62) >> n, (1 << 62) // (1 << n))
end
-- Conversion to text and back: integers exactly, floats with 17 digits.
for n = 0, 62 do
  for _, i in ipairs { 1 << n, -(1 << n), (1 << n) - 1 } do
    t:equal(math.tointeger(tostring(i)), i)
  end
  local f = 1 / 3 * 2 ^ (n * 10 - 300)
  t:equal(tonumber(("%.17g"):format(f)), f)
  t:equal(tonumber(("%a"):format(f)), f)
end
-- The same seed gives the same numbers, and numbers stay in their range. (The program has one
-- generator.)
do
  local function in_range(lo, hi)
    for _ = 1, 50 do
      local n = math.random(lo, hi)
      if n < lo or n > hi then return false end
    end
    return true
  end
  for _, range in ipairs {
    { 1, 2 },
    { -5, 5 },
    { 0, 255 },
    { math.mininteger, 0 },
    { 0, math.maxinteger },
    { math.maxinteger - 1, math.maxinteger },
  } do
    t:that(in_range(range[1], range[2]), range[1] .. " to " .. range[2])
  end
  for _ = 1, 20 do local f = math.random() t:that(f >= 0 and f < 1) end
end
