//! Errors: their messages, objects and tracebacks.

use crate::case::{case, code};
use crate::run::compare;

#[test]
fn error_objects_are_shown_as_lua_shows_them() {
    compare(&[
        code("a string", "error('message')"),
        code("a string of several lines", "error('one\\ntwo')"),
        code("a string with a zero", "error('one\\0two')"),
        code("an empty string", "error('')"),
        code("a string without its place", "error('message', 0)"),
        code("an integer", "error(12)"),
        code("a float", "error(1.5)"),
        code("nil", "error(nil)"),
        code("nothing", "error()"),
        code("a boolean", "error(false)"),
        code("a table", "error({})"),
        code("a function", "error(print)"),
        code("a coroutine", "error(coroutine.create(print))"),
        code("a userdata", "error(io.stdout)"),
        code(
            "a table that names its type",
            "error(setmetatable({}, {__name = 'My.Type'}))",
        ),
        code(
            "a table with __tostring",
            "error(setmetatable({}, {__tostring = function() return 'text' end}))",
        ),
        code(
            "a table whose __tostring is no text",
            "error(setmetatable({}, {__tostring = function() return {} end}))",
        ),
        code(
            "a table whose __tostring is a number",
            "error(setmetatable({}, {__tostring = function() return 1 end}))",
        ),
        code(
            "a table whose __tostring fails",
            "error(setmetatable({}, {__tostring = function() error('again') end}))",
        ),
        code("a failed assertion", "assert(false)"),
        code("a failed assertion with a message", "assert(nil, 'not so')"),
        code("a failed assertion with an object", "assert(false, {})"),
        code("a failed assertion without a value", "assert()"),
    ]);
}

#[test]
fn tracebacks_are_those_of_lua() {
    compare(&[
        case("through metamethods, pcall, coroutines and sort", &["traceback.lua"]),
        case("levels", &["levels.lua"]),
        code(
            "an error in a coroutine that is resumed",
            "print(coroutine.resume(coroutine.create(function() error('c') end)))",
        ),
        code(
            "an error through coroutine.wrap",
            "coroutine.wrap(function() error('c') end)()",
        ),
        code(
            "an error object through coroutine.wrap",
            "coroutine.wrap(function() error({}) end)()",
        ),
        code("a dead coroutine", "local f = coroutine.wrap(print) f() f()"),
        code(
            "tail calls",
            "local function f() error('t') end local function g() return f() end g()",
        ),
        code("a method", "local o = {} function o:m() error('m') end o:m()"),
        code("a field", "t = {f = function() error('f') end} t.f()"),
        code("a global function", "function g() error('g') end g()"),
        code(
            "a metamethod",
            "local t = setmetatable({}, {__index = function() error('i') end}) return t.x",
        ),
        code("a for iterator", "for x in function() error('it') end do end"),
        code(
            "a function of the library that calls back",
            "table.sort({1, 2, 3}, function() error('s') end)",
        ),
        code("gsub's callback", "string.gsub('a', '.', function() error('g') end)"),
        code(
            "xpcall's handler",
            "print(xpcall(error, function(m) return debug.traceback('h: ' .. m) end, 'x'))",
        ),
        code(
            "xpcall's handler that fails",
            "print(xpcall(error, function(m) error('again') end, 'x'))",
        ),
        code("pcall of nothing", "print(pcall())"),
        code("an error in dofile", "dofile('failing.lua')"),
        code("an error in require", "require 'failing'"),
        code("an error in load", "load('error(1)', '=chunk')()"),
        code("a long chunk name", "load('error(1)', ('x'):rep(200))()"),
    ]);
}

#[test]
fn what_debug_says_of_the_stack_is_what_it_says_in_lua() {
    compare(&[
        code(
            "debug.traceback's levels",
            "local function f() print(debug.traceback('a', 0)) print(debug.traceback('b', 2)) end f()",
        ),
        code(
            "debug.traceback of an object",
            "print(debug.traceback({}) ~= nil, debug.traceback(nil), debug.traceback(12))",
        ),
        code(
            "what stands below the main chunk",
            "print(debug.getinfo(1, 'S').source, debug.getinfo(2, 'S').what, debug.getinfo(3))",
        ),
    ]);
}

#[test]
fn tracebacks_through_many_levels_and_close_methods_are_those_of_lua() {
    compare(&[
        code(
            "a deep traceback is cut",
            "local function f(n) if n == 0 then error('end') end f(n - 1) end f(100)",
        ),
        code(
            "a close method that fails",
            "local x <close> = setmetatable({}, {__close = function() error('c') end})",
        ),
    ]);
}

#[test]
fn messages_of_the_library_are_those_of_lua() {
    compare(&[
        code("a bad argument", "string.rep()"),
        code("a bad argument of a method", "('x'):rep({})"),
        code("a bad argument's type name", "setmetatable(1, {})"),
        code("a bad self", "io.stdout.write()"),
        code("an option that is invalid", "collectgarbage('sometimes')"),
        code(
            "a file that cannot be opened",
            "print(io.open('missing/file')) io.lines('missing')",
        ),
        code(
            "a closed file",
            "local f = io.open('empty.lua') f:close() print(f) f:read()",
        ),
        code("an unpack that is too long", "table.unpack({}, 1, 1e8)"),
        code("a string that is too long", "string.rep('x', 1 << 40, 'y')"),
        code("a pattern that is malformed", "string.find('a', '[')"),
        code("a format that is invalid", "string.format('%y', 1)"),
        code("a number without an integer", "string.rep('x', 1.5)"),
        code("tostring of nothing", "tostring()"),
        code(
            "setmetatable of a protected table",
            "setmetatable(setmetatable({}, {__metatable = 1}), {})",
        ),
        code("select out of range", "select(0)"),
        code("table.concat of a table", "table.concat({1, {}, 3})"),
        code("an order that is invalid", "table.sort({1, 'x'})"),
        code("utf8 that is invalid", "utf8.codepoint('\\xff')"),
        code("os.time without a day", "os.time({})"),
        code("os.date's conversion", "os.date('%Ez')"),
        code("a coroutine of the outside", "coroutine.yield()"),
        code("wrap of nothing", "coroutine.wrap()"),
    ]);
}
