-- string.format, rep, byte, char, sub and friends, and the coercions between strings and numbers.
local t = ...

t:rows {
  "('%d'):format(42)", "'42'",
  "('%5d|%-5d|%05d|%+d|% d'):format(42, 42, 42, 42, 42)", "'   42|42   |00042|+42| 42'",
  "('%.3d|%8.3d|%-8.3d|'):format(5, 5, 5)", "'005|     005|005     |'", "('%d'):format(3.0)", "'3'",
  "('%d'):format('10')", "'10'",
  "('%d'):format(-0.0)", "'0'", "('%d'):format(math.mininteger)", "'-9223372036854775808'",
  "('%i'):format(7)", "'7'",
  "('%u'):format(7)", "'7'",
  "('%d'):format(1.5)",
    "! row:1: bad argument #1 to 'format' (number has no integer representation)",
  "('%d'):format('1.5')",
    "! row:1: bad argument #1 to 'format' (number has no integer representation)",
  "('%d'):format 'x'", "! row:1: bad argument #1 to 'format' (number expected, got string)",
  "('%d'):format()", "! row:1: bad argument #1 to 'format' (no value)",
  "('%d'):format(2^63)",
    "! row:1: bad argument #1 to 'format' (number has no integer representation)",
  "('%x %X %#x %o %#o'):format(255, 255, 255, 8, 8)", "'ff FF 0xff 10 010'",
  "('%x'):format(-1)", "'ffffffffffffffff'", "('%08x'):format(48879)", "'0000beef'",
  "('%c%c%c'):format(76, 117, 97)", "'Lua'", "('%c'):format(0)", "'\\000'",
  "('%5c|%-5c|'):format(65, 65)", "'    A|A    |'",
  "('%f'):format(1)", "'1.000000'",
  "('%.0f %.1f %.10f'):format(2.5, 2.25, 1/3)", "'2 2.2 0.3333333333'",
  "('%8.2f|%-8.2f|%+.2f'):format(3.14159, 3.14159, 3.14159)", "'    3.14|3.14    |+3.14'",
  "('%e %E %.2e'):format(12345.678, 12345.678, 0)", "'1.234568e+04 1.234568E+04 0.00e+00'",
  "('%g %g %g %g'):format(1e20, 1e-5, 100000, 1e15)", "'1e+20 1e-05 100000 1e+15'",
  "('%g %G'):format(1e300, 1e-300)", "'1e+300 1E-300'", "('%#.3g'):format(1)", "'1.00'",
  "('%a'):format(1)", "'0x1p+0'", "('%a %A'):format(0.5, -2)", "'0x1p-1 -0X1P+1'",
  "('%.1a'):format(1)", "'0x1.0p+0'", "('%f %g %d'):format(1/0, -1/0, 3)", "'inf -inf 3'",
  "('%.14g'):format(0.1)", "'0.1'", "('%.17g'):format(0.1)", "'0.10000000000000001'",
  "('%5.1f|'):format(-0.04)", "' -0.0|'", "('%.3f'):format('2.5')", "'2.500'",
  "('%s %s %s'):format(1, 1.0, 'x')", "'1 1.0 x'", "('%s %s'):format(nil, true)", "'nil true'",
  "('%10s|%-10s|%.2s|%5.1s|'):format('abc', 'abc', 'abc', 'abc')",
    "'       abc|abc       |ab|    a|'",
  "('%s'):format(('x'):rep(500)) == ('x'):rep(500)", "true",
  "('%s'):format('a\\0b')", "'a\\000b'",
  "('%.20s'):format('a\\0b')", "! row:1: bad argument #1 to 'format' (string contains zeros)",
  "('%20s'):format('a\\0b')", "! row:1: bad argument #1 to 'format' (string contains zeros)",
  "#('%99d'):format(1)", "99", "#('%.99f'):format(1/3)", "101",
  "('%100d'):format(1)", "! row:1: invalid conversion specification: '%100d'",
  "('%.100f'):format(1)", "! row:1: invalid conversion specification: '%.100f'",
  "#('%.99f'):format(1e300)", "401", "#('%.99f'):format(-1e308)", "410", "('%%'):format()", "'%'",
  "('100%% of %d'):format(5)", "'100% of 5'",
  "('%'):format(1)", "! row:1: invalid conversion '%' to 'format'",
  "('%y'):format(1)", "! row:1: invalid conversion '%y' to 'format'",
  "('%-#0+ 5d'):format(1)", "! row:1: invalid conversion specification: '%-#0+ 5d'",
  "('%0s'):format 'x'", "! row:1: invalid conversion specification: '%0s'",
  "('%q'):format('a\\nb\\0c\\\"d\\\\')", "'\"a\\092\\010b\\0920c\\092\"d\\092\\092\"'",
  "('%q'):format(1)", "'1'", "('%q'):format(math.mininteger)", "'0x8000000000000000'",
  "('%q'):format(0.1)", "'0x1.999999999999ap-4'",
  "('%q'):format(1/0)", "'1e9999'", "('%q'):format(-1/0)", "'-1e9999'",
  "('%q'):format(0/0)", "'(0/0)'", "('%q %q %q'):format(nil, true, false)", "'nil true false'",
  "('%q'):format({})", "! row:1: bad argument #1 to 'format' (value has no literal form)",
  "('%5q'):format 'x'", "! row:1: specifier '%q' cannot have modifiers",
  "('%q'):format '\\r\\t\\1271'", "'\"\\09213\\0929\\0921271\"'",
  "('%s'):format(setmetatable({}, { __tostring = function() return 'me' end }))", "'me'",
  "('%s'):format(setmetatable({}, { __name = 'Kind' })):match '^Kind: '", "'Kind: '",
  "('%10s'):format(setmetatable({}, { __tostring = function() return 'me' end }))", "'        me'",
  "('%p'):format(1)", "'(null)'",
  "('%p'):format(print) == ('%p'):format(print)", "true",
  "('%p'):format({}) == ('%p'):format({})", "false", "#('%20p'):format(print) >= 20", "true",
  "('%d %d'):format(1)", "! row:1: bad argument #2 to 'format' (no value)",
  "('%s'):format()", "! row:1: bad argument #1 to 'format' (no value)",
  "('none'):format(1, 2, 3)", "'none'", "string.format(5)", "'5'",
  "string.format()", "! row:1: bad argument #1 to 'format' (string expected, got no value)",
  "('x'):rep(0)", "''", "('x'):rep(-1)", "''", "('x'):rep(3)", "'xxx'",
  "('ab'):rep(3, ',')", "'ab,ab,ab'", "('ab'):rep(1, ',')", "'ab'", "('ab'):rep(0, ',')", "''",
  "(''):rep(1000000)", "''", "(''):rep(3, 'x')", "'xx'", "('x'):rep(2.0)", "'xx'",
  "('x'):rep(1e18)", "! row:1: resulting string too large",
  "('x'):rep(math.maxinteger)", "! row:1: resulting string too large",
  "('xx'):rep(2^62 | 0)", "! row:1: resulting string too large",
  "('x'):rep(2, ('y'):rep(10)):len()", "12", "#('x'):rep(1000000)", "1000000",
  "('x'):rep(math.mininteger)", "''", "('abc'):rep(2, '\\0')", "'abc\\000abc'",
  "('abc'):sub(2)", "'bc'", "('abc'):sub(-2)", "'bc'", "('abc'):sub(2, 2)", "'b'",
  "('abc'):sub(0)", "'abc'", "('abc'):sub(4)", "''", "('abc'):sub(-100, 100)", "'abc'",
  "('abc'):sub(3, 2)", "''", "('abc'):sub(math.mininteger, math.maxinteger)", "'abc'",
  "('abc'):sub(math.maxinteger)", "''", "('abc'):sub(1, math.mininteger)", "''",
  "('abc'):sub(2.0)", "'bc'", "('abc'):sub('2')", "'bc'",
  "('abc'):sub(1.5)", "! row:1: bad argument #1 to 'sub' (number has no integer representation)",
  "('abc'):byte()", "97", "('abc'):byte(1, -1)", "97 98 99", "('abc'):byte(10)", "",
  "('abc'):byte(0)", "", "('abc'):byte(-1)", "99", "('\\0\\255'):byte(1, 2)", "0 255",
  "string.char()", "''", "string.char(0, 127, 255)", "'\\000\\127\\255'",
  "string.char(256)", "! row:1: bad argument #1 to 'char' (value out of range)",
  "string.char(1, -1)", "! row:1: bad argument #2 to 'char' (value out of range)",
  "('aBc'):upper() .. ('aBc'):lower()", "'ABCabc'", "('abc'):reverse()", "'cba'",
  "(''):reverse()", "''", "('a\\0b'):reverse()", "'b\\000a'", "('a\\0b'):len()", "3",
  "#'\\u{10FFFF}\\x41\\065\\z   b'", "7",
  "'a' < 'b', 'a' < 'B', '' < 'a', 'a\\0b' < 'a\\0c', 'a' < 'a\\0'", "true false true true true",
  "'Z' < 'a', '10' < '9', 'abc' <= 'abc'", "true true true",
  "'10' + 5", "15", "'10' * '2'", "20", "'3' // 2", "1", "'3.0' + 1", "4.0", "'0x10' + 0", "16",
  "' 5 ' + 1", "6", "'1e1' + 0", "10.0", "-'2'", "-2", "-'2.0'", "-2.0", "'7' % '4'", "3",
  "'2' ^ 2", "4.0", "'10' / 2", "5.0",
  "'3' | 0", "! row:1: attempt to perform bitwise operation on a string value (constant '3')",
  "'0xff' & 15",
    "! row:1: attempt to perform bitwise operation on a string value (constant '0xff')",
  "'3.0' | 0", "! row:1: attempt to perform bitwise operation on a string value (constant '3.0')",
  "~'0'", "! row:1: attempt to perform bitwise operation on a string value (constant '0')",
  "'1' << 4", "! row:1: attempt to perform bitwise operation on a string value (constant '1')",
  "10 .. 20", "'1020'", "1.5 .. ''", "'1.5'", "2^53 .. ''", "'9.007199254741e+15'",
  "-0.0 .. ''", "'-0.0'", "1e100 .. ''", "'1e+100'", "math.pi .. ''", "'3.1415926535898'",
  "'9223372036854775808' + 0", "9.2233720368547758e+18",
  "'9223372036854775807' + 0", "9223372036854775807",
  "'abc' + 1", "! row:1: attempt to add a 'string' with a 'number'",
  "'' + 1", "! row:1: attempt to add a 'string' with a 'number'",
  "1 == '1'", "false", "'1' < 2", "! row:1: attempt to compare string with number",
  "tostring(1e15), tostring(1e16), tostring(-1e15)", "'1e+15' '1e+16' '-1e+15'",
  "tostring(123456789012345.0)", "'1.2345678901234e+14'",
  "tostring(2^31), tostring(2^63)", "'2147483648.0' '9.2233720368548e+18'",
  "tostring(1/0), tostring(-1/0)", "'inf' '-inf'",
  "tostring(3) == '3', tostring(3.0) == '3.0'", "true true", "#tostring(print) > 10", "true",
  "tostring('x')", "'x'", "tostring(setmetatable({}, { __name = 'N' })):find '^N: ' ~= nil", "true",
}

-- Every width and precision, compared with a result that is computed in another way.
for width = 0, 40 do
  local text = ("%" .. (width > 0 and width or "") .. "d"):format(-123)
  t:equal(text, (" "):rep(width - 4) .. "-123")
  t:equal(
    ("%-" .. (width > 0 and width or "") .. "s|"):format "abc",
    "abc" .. (" "):rep(width - 3) .. "|"
  )
  t:equal(
    ("%." .. width .. "s"):format "some text of a good length, as it is",
    ("some text of a good length, as it is"):sub(1, width)
  )
  t:equal(("%0" .. (width > 0 and width or "") .. "d"):format(7), ("0"):rep(width - 1) .. "7")
end
for digits = 0, 30 do
  t:equal(
    ("%." .. digits .. "f"):format(0.5),
    digits == 0 and "0" or "0.5" .. ("0"):rep(digits - 1)
  )
end
for _, size in ipairs { 0, 1, 10, 255, 256, 1000, 1023, 1024, 1025, 4096, 65536, 1000000 } do
  local text = ("q"):rep(size)
  t:equal(("%s-%s"):format(text, text), text .. "-" .. text)
  t:equal(load("return " .. ("%q"):format(text))(), text)
  t:equal(#text:upper():lower():reverse(), size)
end
do -- reading %q gives the original value
  local all = {}
  for i = 0, 255 do all[i + 1] = string.char(i) end
  local text = table.concat(all)
  t:equal(load("return " .. ("%q"):format(text))(), text)
  for i = 0, 255, 5 do
    t:equal(load("return " .. ("%q"):format(string.char(i) .. "1"))(), string.char(i) .. "1")
  end
  for _, n in ipairs {
    0,
    1,
    -1,
    math.maxinteger,
    math.mininteger,
    0.1,
    -2.5,
    1e308,
    5e-324,
    1 / 0,
    -1 / 0,
    2 ^ 63,
  } do
    t:equal(load("return " .. ("%q"):format(n))(), n)
  end
end
