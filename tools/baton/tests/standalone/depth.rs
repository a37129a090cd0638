//! How deep a program can go: the same limits, reached at the same depth, with the same message.

use crate::case::{case, code};
use crate::run::compare;

#[test]
fn recursion_fails_at_the_depth_of_lua() {
    compare(&[
        case("every kind of recursion", &["depth.lua"]),
        case("every kind of nesting", &["nesting.lua"]),
    ]);
}

#[test]
fn recursion_fails_at_the_depth_of_lua_however_the_chunk_was_started() {
    compare(&[
        case("as input", &["-"]).input("dofile('start.lua')"),
        case("from -e", &["-e", "dofile('start.lua')"]),
        case("from -l", &["-l", "start", "-e", ""]),
        case("from LUA_INIT", &["-e", ""]).variable("LUA_INIT", "@start.lua"),
        case("with arguments", &["start.lua", "a", "b", "c"]),
    ]);
}

#[test]
fn recursion_that_nobody_catches_is_reported_as_lua_reports_it() {
    compare(&[
        code("a function", "local function f() return f() + 1 end f()"),
        code(
            "a C function that calls back",
            "local function f(s) return string.gsub(s, '.', f) end f('a')",
        ),
        code(
            "a metamethod",
            "local t = setmetatable({}, {}) getmetatable(t).__add = function(a) return a + 1 end print(t + 1)",
        ),
        code(
            "an error in the message's own __tostring",
            "error(setmetatable({}, {__tostring = function(s) error(s) end}))",
        ),
        code(
            "a handler that recurses",
            "local function h() return h() + 1 end print(xpcall(error, h, 'x'))",
        ),
        code(
            "coroutines within coroutines",
            "local function f() return coroutine.wrap(f)() end f()",
        ),
        code(
            "a nesting of parentheses",
            "assert(load('x = ' .. ('('):rep(500) .. '1'))",
        ),
        code(
            "a string of __index",
            "local t = {} for i = 1, 3000 do t = setmetatable({}, {__index = t}) end print(t.x)",
        ),
    ]);
}
