//! The environment's variables.

use crate::case::{Exception, case};
use crate::run::compare;

#[test]
fn lua_init_is_run_as_lua_runs_it() {
    compare(&[
        case("code", &["-e", "print(2)"]).variable("LUA_INIT", "print(1)"),
        case("code before -v's is not", &["-v"])
            .variable("LUA_INIT", "print(1)")
            .except(Exception::Release),
        case("a file", &["-e", "print(2)"]).variable("LUA_INIT", "@module.lua"),
        case("a missing file", &["-e", "print(2)"]).variable("LUA_INIT", "@missing.lua"),
        case("an empty value", &["-e", "print(2)"]).variable("LUA_INIT", ""),
        case("only an @", &["-e", "print(2)"]).variable("LUA_INIT", "@"),
        case("an error", &["-e", "print(2)"]).variable("LUA_INIT", "error('in init')"),
        case("a syntax error", &["-e", "print(2)"]).variable("LUA_INIT", "x x"),
        case("the version's own goes first", &["-e", "print(2)"])
            .variable("LUA_INIT", "print(1)")
            .variable("LUA_INIT_5_4", "print(54)"),
        case("an error in the version's own", &["-e", "print(2)"]).variable("LUA_INIT_5_4", "local x = nil + 1"),
        case("another version's is ignored", &["-e", "print(2)"]).variable("LUA_INIT_5_3", "print(53)"),
        case("it sees arg", &["arguments.lua", "a"]).variable("LUA_INIT", "arg[1] = arg[1] .. arg[0]"),
        case("it may end the program", &["-e", "print(2)"]).variable("LUA_INIT", "os.exit(7)"),
        case("-E ignores it", &["-E", "-e", "print(2)"]).variable("LUA_INIT", "print(1)"),
        case("-E ignores the version's own", &["-e", "print(2)", "-E"]).variable("LUA_INIT_5_4", "print(1)"),
    ]);
}

#[test]
fn search_paths_are_those_of_lua() {
    const SHOW: &str = "print(package.path) print(package.cpath) print(package.config)";
    compare(&[
        case("the system's", &["-e", SHOW]),
        case("LUA_PATH", &["-e", SHOW]).variable("LUA_PATH", "/here/?.lua"),
        case("LUA_PATH_5_4 before it", &["-e", SHOW])
            .variable("LUA_PATH", "/here/?.lua")
            .variable("LUA_PATH_5_4", "/there/?.lua"),
        case("LUA_CPATH", &["-e", SHOW]).variable("LUA_CPATH", "/here/?.so"),
        case("LUA_CPATH_5_4 before it", &["-e", SHOW])
            .variable("LUA_CPATH", "/here/?.so")
            .variable("LUA_CPATH_5_4", "/there/?.so"),
        case(";; stands for the system's, at the end", &["-e", SHOW]).variable("LUA_PATH", "/here/?.lua;;"),
        case(";; stands for the system's, at the start", &["-e", SHOW]).variable("LUA_CPATH", ";;/here/?.so"),
        case(";; stands for the system's, in between", &["-e", SHOW]).variable("LUA_PATH", "/a/?;;/b/?"),
        case("an empty path", &["-e", SHOW]).variable("LUA_PATH", ""),
        case("-E ignores them", &["-E", "-e", SHOW])
            .variable("LUA_PATH", "/here/?.lua")
            .variable("LUA_CPATH", "/here/?.so"),
        case(
            "a missing module lists where it was sought",
            &["-e", "require 'missing.module'"],
        )
        .variable("LUA_PATH", "./?.lua;/nowhere/?/init.lua"),
    ]);
}
