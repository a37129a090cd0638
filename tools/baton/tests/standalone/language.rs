//! The language's own messages, warnings and the collector's modes.

use crate::case::{case, code};
use crate::run::compare;

#[test]
fn the_language_fails_as_in_lua() {
    compare(&[
        code(
            "goto that repeats",
            "local i = 1 ::top:: io.write(i, ' ') i = i + 1 if i < 4 then goto top end print()",
        ),
        code("integer division by zero", "print(1 // 0)"),
        code("modulo by zero", "print(1 % 0)"),
        code(
            "float division by zero",
            "print(1 / 0, -1 // 0.0, 1 % math.huge, 0/0 ~= 0/0)",
        ),
        code(
            "integers wrap around",
            "print(math.maxinteger + 1 == math.mininteger, math.mininteger // -1)",
        ),
        code(
            "integer and float division",
            "print(7 // 2, -7 // 2, 7 // 2.0, -7 % 3, 7 % -3, 5.5 // 2)",
        ),
        code(
            "strings become numbers",
            "print('10' + 5, '0x10' * 2, '1e1' // 1, 10 .. 20)",
        ),
        code("a string that is no number", "print('abc' + 1)"),
        code("a float without an integer", "print(1.5 | 1)"),
        code("a string without an integer", "print('1.5' | 1)"),
        code("a concatenation of nil", "local t = {} print('x' .. t.name)"),
        code("arithmetic on nil, a global", "print(undefined + 1)"),
        code("arithmetic on a field", "local t = {} print(t.x.y)"),
        code(
            "arithmetic on an upvalue",
            "local u local function f() return u + 1 end f()",
        ),
        code("arithmetic on a constant", "print(nil + 1)"),
        code("a call of nil, a global", "undefined()"),
        code("a call of nil, a method", "local t = {} t:method()"),
        code("a call of a number", "local n = 1 n()"),
        code("an index of nil, a local", "local x print(x.y)"),
        code("an index by nil", "local t = {} t[nil] = 1"),
        code("an index that is no number", "local t = {} t[0/0] = 1"),
        code("a comparison of two types", "print(1 < 'x')"),
        code("a comparison of two tables", "print({} < {})"),
        code("a length of a number", "print(#5)"),
        code("a for loop's start", "for i = 'a', 2 do end"),
        code("a for loop's limit", "for i = 1, {} do end"),
        code("a for loop's step of zero", "for i = 1, 2, 0 do end"),
        code("a for loop over no function", "for x in 5 do end"),
        code(
            "a loop of __index",
            "local t = {} setmetatable(t, {__index = t}) print(t.x)",
        ),
        code("a value that cannot be closed", "local x <close> = 5"),
        code("a shift beyond the width", "print(1 << 64, 1 << -1, -1 >> 1, ~0)"),
        code(
            "a number's text",
            "print(1e15, 1e100, 2^53, 0x.8p1, 1e308 * 10, -0.0, 3 | 0, 100 // 1e0)",
        ),
        code(
            "tointeger and math.type",
            "print(math.tointeger('8'), math.tointeger(3.0), math.type(1), math.type(1.0), math.type('1'))",
        ),
    ]);
}

#[test]
fn warnings_are_those_of_lua() {
    compare(&[
        code("they are off at first", "warn('a')"),
        code(
            "@on and @off",
            "warn('a') warn('@on') warn('b', 'c') warn('@off') warn('d') warn('@on') warn('e')",
        ),
        code(
            "a control message that is unknown",
            "warn('@on') warn('@unknown') warn('@on', ' in parts')",
        ),
        code("a value that is no text", "warn({})"),
        code("numbers", "warn('@on') warn(1, 2.5)"),
        case(
            "an error in __gc",
            &[
                "-W",
                "-e",
                "setmetatable({}, {__gc = function() error('g') end}) collectgarbage() print(1)",
            ],
        ),
        case(
            "an error in __gc at the end",
            &["-W", "-e", "setmetatable({}, {__gc = function() error('g') end})"],
        ),
        case(
            "an error object in __gc",
            &["-W", "-e", "setmetatable({}, {__gc = function() error({}) end})"],
        ),
        code(
            "an error in __gc without -W",
            "setmetatable({}, {__gc = function() error('g') end}) collectgarbage() print(1)",
        ),
        case(
            "a __gc that is no function",
            &["-W", "-e", "setmetatable({}, {__gc = 1}) collectgarbage()"],
        ),
    ]);
}

#[test]
fn the_collector_starts_as_in_lua() {
    compare(&[
        code(
            "it is generational",
            "print(collectgarbage('incremental'), collectgarbage('generational'))",
        ),
        code(
            "and it runs",
            "print(collectgarbage('isrunning'), collectgarbage('stop'), collectgarbage('isrunning'))",
        ),
        code(
            "its parameters",
            "print(collectgarbage('incremental', 100, 200), collectgarbage('incremental', 100, 200), collectgarbage('generational', 20, 100))",
        ),
        code(
            "its old parameters",
            "print(collectgarbage('setpause', 100), collectgarbage('setstepmul', 200))",
        ),
        code("a step", "print(collectgarbage('step'), collectgarbage())"),
        case("in LUA_INIT too", &["-e", ""]).variable("LUA_INIT", "print(collectgarbage('incremental'))"),
        code(
            "weak tables",
            "local t = setmetatable({}, {__mode = 'k'}) t[{}] = 1 collectgarbage() print(next(t))",
        ),
        code(
            "the globals",
            "local n = {} for k in pairs(_G) do n[#n + 1] = k end table.sort(n) print(table.concat(n, ' '))",
        ),
        code(
            "the loaded modules",
            "local n = {} for k in pairs(package.loaded) do n[#n + 1] = k end table.sort(n) print(table.concat(n, ' '))",
        ),
        code(
            "the searchers",
            "print(#package.searchers, _VERSION, rawequal(_G, _ENV), getmetatable(_G))",
        ),
    ]);
}
