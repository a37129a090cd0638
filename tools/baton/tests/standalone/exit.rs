//! How a program ends.

use crate::case::{case, code, shell, typed};
use crate::run::compare;

#[test]
fn the_exit_status_is_that_of_lua() {
    compare(&[
        code("os.exit()", "os.exit()"),
        code("os.exit(true)", "os.exit(true)"),
        code("os.exit(false)", "os.exit(false)"),
        code("os.exit(0)", "os.exit(0)"),
        code("os.exit(3)", "os.exit(3)"),
        code("os.exit(256 + 3)", "os.exit(259)"),
        code("os.exit(-1)", "os.exit(-1)"),
        code("os.exit of a float", "os.exit(3.0)"),
        code("os.exit of text", "os.exit('x')"),
        code(
            "os.exit does not close",
            "local x <close> = setmetatable({}, {__close = print}) os.exit(2)",
        ),
        code(
            "os.exit closes if asked",
            "local x <close> = setmetatable({}, {__close = function() print('closed') end}) os.exit(2, true)",
        ),
        code(
            "os.exit collects if asked",
            "setmetatable({}, {__gc = function() print('collected') end}) os.exit(true, true)",
        ),
        code(
            "os.exit does not collect",
            "setmetatable({}, {__gc = function() print('collected') end}) os.exit(true)",
        ),
        code("os.exit in a coroutine", "coroutine.wrap(function() os.exit(4) end)()"),
        code("os.exit in pcall", "pcall(os.exit, 5)"),
        code(
            "os.exit in a finalizer",
            "setmetatable({}, {__gc = function() os.exit(6) end}) collectgarbage()",
        ),
        code(
            "os.exit writes what is buffered",
            "io.stdout:setvbuf('full') io.write('buffered') os.exit(0)",
        ),
        code(
            "an error after what is buffered",
            "io.stdout:setvbuf('full') io.write('buffered') error('x')",
        ),
        typed("os.exit in the interactive mode", "os.exit(9)\nprint(1)\n"),
        shell(
            "the status of a command",
            "\"$LUA\" -e 'print(os.execute(\"exit 3\")) print(os.execute(\"kill -9 $$\")) print(os.execute())'",
        ),
    ]);
}

#[test]
fn what_is_open_at_the_end_is_closed_as_in_lua() {
    compare(&[
        case("variables of the main chunk that failed", &["closing.lua"]),
        case("with warnings", &["-W", "closing.lua"]),
        code(
            "variables of the main chunk",
            "local x <close> = setmetatable({}, {__close = function() print('closed') end}) print('end')",
        ),
        code(
            "finalizers at the end, last first",
            "for i = 1, 3 do X = {X, setmetatable({}, {__gc = function() print(i) end})} end",
        ),
        code(
            "a finalizer that makes another",
            "setmetatable({}, {__gc = function() setmetatable({}, {__gc = function() print('second') end}) print('first') end})",
        ),
        code(
            "a finalizer that fails and another",
            "for i = 1, 2 do X = {X, setmetatable({}, {__gc = function() print(i) error('e') end})} end",
        ),
        code(
            "a coroutine that waits is not closed",
            "local c = coroutine.wrap(function() local x <close> = setmetatable({}, {__close = print}) coroutine.yield() end) c()",
        ),
        code(
            "coroutine.close",
            "local c = coroutine.create(function() local x <close> = setmetatable({}, {__close = function() error('x') end}) coroutine.yield() end) coroutine.resume(c) print(coroutine.close(c))",
        ),
        code(
            "a finalizer after an error",
            "X = setmetatable({}, {__gc = function() print('collected') end}) error('e')",
        ),
        code(
            "a pipe that is left open",
            "X = io.popen('echo from the pipe; cat', 'w')",
        ),
    ]);
}
