//! The options, `arg` and what is run in which order.

use crate::case::{Exception, case, shell};
use crate::run::compare;

#[test]
fn options_are_read_as_lua_reads_them() {
    compare(&[
        case("-v shows the version", &["-v"]).except(Exception::Release),
        case("-v before code", &["-v", "-e", "print(1)"]).except(Exception::Release),
        case("-v with a script", &["-v", "empty.lua"]).except(Exception::Release),
        case("-v leaves the input alone", &["-v"])
            .input("print(1)")
            .except(Exception::Release),
        case("-v and - run the input", &["-v", "-"])
            .input("print(1)")
            .except(Exception::Release),
        case("-v twice", &["-v", "-v"]).except(Exception::Release),
        case("-e with its code attached", &["-eprint(1)"]),
        case("-e several times", &["-e", "x=1", "-ex=x+1", "-e", "print(x)"]),
        case("-e stops at the first failure", &["-e", "error(1)", "-e", "print(2)"]),
        case("-e leaves the input alone", &["-e", "print(1)"]).input("print(2)"),
        case("-e then a script", &["-e", "x = 1", "arguments.lua", "a"]),
        case("-e with an empty chunk", &["-e", "", "arguments.lua"]),
        case("-e that returns a value", &["-e", "return 5"]),
        case("-e sees no arguments", &["-e", "print(select('#', ...))"]),
        case("-e - runs the input after", &["-e", "print(1)", "-"]).input("print(2)"),
        case(
            "-W turns warnings on from there",
            &["-e", "warn'a'", "-W", "-e", "warn'b'"],
        ),
        case("-E alone runs the input", &["-E"]).input("print(1)"),
        case("-W alone runs the input", &["-W"]).input("warn'w'"),
        case("-- alone runs the input", &["--"]).input("print(arg[0], arg[1])"),
        case("-- and a script", &["--", "arguments.lua", "-x"]),
        case("-- and a file called -", &["--", "-"]),
        case("-- after -e", &["-e", "print(1)", "--", "arguments.lua"]),
        case("- is the input", &["-"]).input("print(...)"),
        case("- with arguments", &["-", "-x", "y"]).input("print(arg[0], arg[-1], ...)"),
        case(
            "options after the script belong to it",
            &["arguments.lua", "-e", "x", "--", "-v"],
        ),
        case("an option's value may hold spaces", &["-e", " print ( 1 ) "]),
    ]);
}

#[test]
fn wrong_options_are_refused_as_lua_refuses_them() {
    compare(&[
        case("an unknown letter", &["-x"]),
        case("an unknown word", &["--verbose"]),
        case("a letter with a tail: -vE", &["-vE"]),
        case("a letter with a tail: -Ex", &["-Ex"]),
        case("a letter with a tail: -ix", &["-ix"]),
        case("a letter with a tail: -Wx", &["-Wx"]),
        case("-h", &["-h"]),
        case("-e without a value", &["-e"]),
        case("-l without a value", &["-l"]),
        case("-e before another option", &["-e", "-v"]),
        case("-l before another option", &["-l", "-"]),
        case(
            "a wrong option after good ones runs nothing",
            &["-e", "print(1)", "-v", "-x"],
        ),
        case("a wrong option comes before LUA_INIT", &["-x"]).variable("LUA_INIT", "print(1)"),
    ]);
}

#[test]
fn modules_are_required_as_lua_requires_them() {
    compare(&[
        case("-l", &["-l", "module", "-e", "print(module.name)"]),
        case("-l attached", &["-lmodule", "-e", "print(module.name)"]),
        case(
            "-l into another global",
            &["-l", "g=module", "-e", "print(g.name, module)"],
        ),
        case(
            "-l attached, into another global",
            &["-lg=module", "-e", "print(g.name)"],
        ),
        case(
            "-l of a module in a directory",
            &["-l", "sub.inner", "-e", "print(_G['sub.inner'].name)"],
        ),
        case(
            "-l with an empty global",
            &["-l", "=module", "-e", "print(_G[''].name)"],
        ),
        case("-l with an empty module", &["-l", "g=", "-e", "print(g)"]),
        case("-l of a library", &["-l", "s=string", "-e", "print(s == string)"]),
        case("-l of a module that is missing", &["-l", "missing", "-e", "print(1)"]),
        case("-l of a module that fails", &["-l", "failing"]),
        case("-l of a module with a syntax error", &["-l", "broken"]),
        case(
            "-l of a module that returns false",
            &["-l", "false", "-e", "print(_G['false'])"],
        ),
        case("-l when require is gone", &["-e", "require = nil", "-l", "module"]),
        case(
            "-l when the globals refuse",
            &[
                "-e",
                "setmetatable(_G, {__newindex = function(_, k) error('no ' .. k) end})",
                "-l",
                "module",
            ],
        ),
        case(
            "-l with a hyphen",
            &[
                "-l",
                "versioned-2",
                "-e",
                "print((versioned or _G['versioned-2']).name)",
            ],
        ),
        case(
            "-l takes the global's name up to the hyphen",
            &["-l", "versioned-2", "-e", "print(type(versioned))"],
        )
        .newer(
            "nil\n",
            "table\n",
            "since 5.4.5 -l ignores what follows a hyphen, as require does for C modules",
        ),
        case("-l leaves the input alone? no: it runs it", &["-l", "module"]).input("print(module.name)"),
    ]);
}

#[test]
fn arg_holds_what_lua_puts_there() {
    const SHOW: &str = "for i = -6, 6 do io.write(tostring(arg[i]), ' ') end print(#arg)";
    compare(&[
        case("a script without arguments", &["arguments.lua"]),
        case("a script with arguments", &["arguments.lua", "a", "", "b c"]),
        case(
            "options stand at negative indices",
            &["-e", "x=1", "-W", "-E", "arguments.lua", "a"],
        ),
        case("-- stands there too", &["-W", "--", "arguments.lua", "a"]),
        case("code alone counts from the program", &["-W", "-e", SHOW]),
        case("the input counts from the program", &["-W"]).input(SHOW),
        case("- is the script's name", &["-W", "-", "a"]).input(SHOW),
        case("what follows -- and nothing", &["-W", "--"]).input(SHOW),
        case(
            "the program may change arg",
            &["-e", "arg = {7, 8, nil, 9}", "arguments.lua", "q"],
        ),
        case(
            "arg may grow",
            &["-e", "arg[4] = 'four' arg[3] = 'three'", "arguments.lua", "1", "2"],
        ),
        case(
            "arg may have a length of its own",
            &[
                "-e",
                "setmetatable(arg, {__len = function() return 1 end})",
                "arguments.lua",
                "a",
                "b",
            ],
        ),
        case("arg must be a table", &["-e", "arg = 1", "arguments.lua"]),
        case(
            "arg may be too long",
            &[
                "-e",
                "setmetatable(arg, {__len = function() return 10000000 end})",
                "arguments.lua",
            ],
        ),
        shell("a thousand arguments", "\"$LUA\" arguments.lua $(seq 1 1000) | wc -w"),
    ]);
}
