//! The interactive mode, with its lines from a pipe.

use crate::case::{Exception, case, typed};
use crate::run::compare;

#[test]
fn lines_are_read_and_run_as_lua_does() {
    compare(&[
        typed("nothing", ""),
        typed("an expression is printed", "1 + 1\n'text', nil, 2.5\n"),
        typed("a statement is run", "x = 5\nx\n"),
        typed("= before an expression", "=1\n= 1, 2\n==1\n"),
        typed("an expression without values", "print()\n(function() end)()\n"),
        typed("a statement of several lines", "for i = 1, 2 do\nprint(i)\nend\n"),
        typed("an expression of several lines", "1 +\n2\n"),
        typed("a string of several lines", "[[a\nb\n\nc]]\n"),
        typed("an empty line inside", "x =\n\n\n3\nx\n"),
        typed("empty lines", "\n\n\n"),
        typed("locals end with their line", "local y = 1; print(y)\ny\n"),
        typed(
            "a function of several lines",
            "function f(a)\n  return a * 2\nend\nf(21)\n",
        ),
        typed("return", "return 1, 2\n"),
        typed("comments", "-- nothing\n1 -- one\n--[[ long\ncomment ]] 2\n"),
        typed("a line without its end", "1\n2"),
        typed("a goto on one line", "goto done; print(1) ::done::\n"),
    ]);
}

#[test]
fn errors_leave_the_interactive_mode_going() {
    compare(&[
        typed("a syntax error", "x x\n1\n"),
        typed("an error", "error('e')\n1\n"),
        typed(
            "an error object",
            "error({})\nerror(setmetatable({}, {__tostring = function() return 'o' end}))\n",
        ),
        typed("nil called", "undefined()\n"),
        typed("a traceback", "function f() error('deep') end\nf()\n"),
        typed("too many results", "table.unpack({}, 1, 1e8)\n"),
        typed("print is gone", "print = nil\n1\nx = 1\n"),
        typed("print fails", "print = function() error('mine', 0) end\n1\n"),
        typed("print fails with an object", "print = function() error({}) end\n1\n"),
        typed(
            "print is another",
            "print = function(...) io.write('<', ..., '>\\n') end\n1\n",
        ),
        typed("the input ends inside a statement", "for i = 1, 2 do\n").newer(
            "(null)\n",
            "stdin:1: 'end' expected near <eof>\n",
            "5.4.4 had lost the message",
        ),
        typed(
            "a prompt that fails ends the program",
            "_PROMPT = setmetatable({}, {__tostring = function() error('P') end})\n1\n",
        ),
    ]);
}

#[test]
fn prompts_and_the_program_s_name_are_those_of_lua() {
    compare(&[
        typed("_PROMPT", "_PROMPT = 'now> '\n1\n"),
        typed("_PROMPT2", "_PROMPT2 = 'more> '\nx =\n1\n"),
        typed("a number as prompt", "_PROMPT = 12\n1\n"),
        typed(
            "an object as prompt",
            "_PROMPT = setmetatable({}, {__tostring = function() return 'P' end})\n1\n",
        ),
        typed("false as prompt", "_PROMPT = false\n1\n"),
        typed("nil as prompt", "_PROMPT = 'x'\n_PROMPT = nil\n1\n"),
        case("after a script", &["-i", "arguments.lua", "a"])
            .input("arg[1]\n")
            .except(Exception::Release)
            .except(Exception::ReadlineEcho),
        case("after a script that fails, not at all", &["-i", "failing.lua"])
            .input("1\n")
            .except(Exception::Release),
        case("after code", &["-e", "x = 1", "-i"])
            .input("x\n")
            .except(Exception::Release)
            .except(Exception::ReadlineEcho),
        case("after code that fails, not at all", &["-i", "-e", "error('e')"])
            .input("1\n")
            .except(Exception::Release),
        case("after the input", &["-i", "-"])
            .input("print(1)")
            .except(Exception::Release),
        case("with LUA_INIT", &["-i"])
            .variable("LUA_INIT", "_PROMPT = 'init> '")
            .input("1\n")
            .except(Exception::Release)
            .except(Exception::ReadlineEcho),
        case("with a script that is missing", &["-i", "missing.lua"]).except(Exception::Release),
        typed(
            "what is left open is collected",
            "x = setmetatable({}, {__gc = function() print('collected') end})\n",
        ),
    ]);
}
