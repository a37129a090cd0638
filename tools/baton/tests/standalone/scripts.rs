//! Scripts: what can be loaded, and what cannot.

use crate::case::{case, code, shell};
use crate::run::compare;

#[test]
fn scripts_are_loaded_as_lua_loads_them() {
    compare(&[
        case("an empty file", &["empty.lua"]),
        case(
            "a first line for the system, kept in line numbers",
            &["executable.lua", "a"],
        ),
        case("only that line", &["only_comment.lua"]),
        case("a byte order mark", &["marked.lua"]),
        case("a byte order mark and a first line", &["marked_executable.lua"]),
        case("the input with a first line", &["-"]).input("#!x\nprint(1) error(2)"),
        case("the input with a byte order mark", &[]).input("\u{feff}print(1)"),
        case("the input, empty", &[]),
        case("the input without a last line end", &[]).input("print(1)"),
        case("the input that returns", &["-"]).input("return 1, 2"),
        shell(
            "a compiled chunk",
            "\"$LUA\" -e 'io.write(string.dump(function(...) print(\"compiled\", ...) end))' | \"$LUA\" - a b",
        ),
        shell(
            "a compiled chunk cut short",
            "\"$LUA\" -e 'io.write(string.dump(function() end):sub(1, 20))' | \"$LUA\" -",
        ),
        case("a script that reads the rest of the input", &["reads.lua"]).input("12 rest\nabcdef\none\ntwo\n"),
        case("the input read by itself", &["-"]).input("print(io.read('l'))\nprint(io.read('l'))\n"),
        shell(
            "the name of a script in a directory",
            "\"$LUA\" ./sub/../sub/inner.lua x",
        ),
    ]);
}

#[test]
fn scripts_that_cannot_be_loaded_get_lua_s_message() {
    compare(&[
        case("a missing file", &["missing.lua"]),
        case("a missing file after code", &["-e", "print(1)", "missing.lua"]),
        case("an empty name", &[""]),
        case("a directory", &["."]),
        case("a syntax error in a file", &["broken.lua"]),
        case("a syntax error on the command line", &["-e", "x ="]),
        case("a syntax error in the input", &["-"]).input("for do"),
        case("a syntax error in the input, unasked: status 0", &[]).input("print(1"),
        case("an error in the input, unasked: status 0", &[]).input("error('x')"),
        case("an error in the input, asked for: status 1", &["-"]).input("error('x')"),
        case("an unfinished string", &["-e", "x = 'abc"]),
        case("an unfinished long string", &["-e", "x = [[abc"]),
        case("an unfinished comment", &["-e", "--[["]),
        case("a bad escape", &["-e", r"x = '\q'"]),
        case("a bad number", &["-e", "x = 12x"]),
        case("a goto without its label", &["-e", "goto nowhere"]),
        case(
            "a goto into a block",
            &["-e", "goto inside; do ::inside:: end local x ::inside:: print(x)"],
        ),
        case("a label twice", &["-e", "::a:: ::a::"]),
        case("break outside a loop", &["-e", "break"]),
        case("an attribute that is unknown", &["-e", "local x <fast> = 1"]),
        case("an assignment to a constant", &["-e", "local x <const> = 1 x = 2"]),
        case("varargs outside", &["-e", "function f() return ... end"]),
        case(
            "a block that is left open, with its line",
            &["-e", "if x then\n\n\nprint(1)"],
        ),
        case("a byte that is no symbol", &["-e", "x = 1 \u{1} 2"]),
        case(
            "too many local variables",
            &["-e", "assert(load(('local a '):rep(201)))"],
        ),
        case(
            "a chunk name that is long",
            &["-e", "assert(load('x =', ('long name '):rep(20)))"],
        ),
        case(
            "a chunk name of several lines",
            &["-e", "assert(load('x =\\n1 1', 'first line\\nsecond'))"],
        ),
        code("a mode that forbids text", "print(load('x = 1', 'c', 'b'))"),
        code("a reader that fails", "print(load(function() error('reader') end))"),
    ]);
}
