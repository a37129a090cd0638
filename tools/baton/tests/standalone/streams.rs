//! The standard streams: closed, full, at their end, or huge.

use crate::case::{case, code, shell};
use crate::run::compare;

#[test]
fn closed_and_full_streams_behave_as_in_lua() {
    compare(&[
        shell(
            "print to a closed output",
            "\"$LUA\" -e 'print(1) io.stderr:write(\"end\\n\")' >&-; echo $? >&2",
        ),
        shell(
            "io.write to a closed output",
            "\"$LUA\" -e 'io.stdout:setvbuf(\"no\") io.stderr:write(tostring(select(2, io.write(\"x\"))))' >&-",
        ),
        shell(
            "flush to a closed output",
            "\"$LUA\" -e 'io.write(\"x\") io.stderr:write(tostring(select(2, io.flush())))' >&-",
        ),
        shell(
            "print to a full device",
            "\"$LUA\" -e 'print(1) io.stderr:write(\"end\\n\")' >/dev/full; echo $? >&2",
        ),
        shell(
            "flush to a full device",
            "\"$LUA\" -e 'io.write(\"x\") io.stderr:write(tostring(select(2, io.flush())))' >/dev/full",
        ),
        shell("-v to a closed output", "\"$LUA\" -v >&-; echo $? >&2"),
        shell(
            "an error with a closed error output",
            "\"$LUA\" -e 'error(1)' 2>&-; echo $?",
        ),
        shell("a wrong option with a closed error output", "\"$LUA\" -x 2>&-; echo $?"),
        shell(
            "a script opens the number of a closed output",
            "\"$LUA\" -e 'local f = io.open(\"empty.lua\") io.stderr:write(tostring(f ~= nil))' >&-",
        ),
        shell("read from a closed input", "\"$LUA\" -e 'print(io.read())' <&-"),
        shell("run a closed input", "\"$LUA\" <&-; echo $?"),
        shell("run a closed input, asked for", "\"$LUA\" - <&-; echo $?"),
        shell("run a directory as input", "\"$LUA\" - <.; echo $?"),
        shell(
            "all three closed",
            "\"$LUA\" -e 'print(1) error(2)' <&- >&- 2>&-; echo $?",
        ),
        shell(
            "a reader that goes away ends the writer",
            "{ \"$LUA\" -e 'while true do print(1) end'; echo $? >&2; } | head -n 1",
        ),
        shell(
            "a reader that went away, with SIGPIPE ignored",
            "{ (trap '' PIPE; \"$LUA\" -e 'while io.write(\"x\\n\") do end io.stderr:write(\"told\\n\")'; echo $? >&2); } | head -n 1",
        ),
        shell(
            "children inherit what SIGPIPE does",
            "\"$LUA\" -e 'os.execute(\"{ yes; echo $? >&2; } | head -n 1\")'",
        ),
        case(
            "read at the end of input",
            &["-e", "print(io.read(), io.read('a'), io.read('n'), io.read(0))"],
        ),
        case(
            "lines at the end of input",
            &["-e", "for l in io.lines() do print(l) end print(pcall(io.lines))"],
        ),
    ]);
}

#[test]
fn large_and_odd_data_pass_as_in_lua() {
    compare(&[
        code("a megabyte in one piece", "io.write(('x'):rep(1 << 20))"),
        code("a hundred thousand lines", "for i = 1, 100000 do print(i) end"),
        code("zeros and bytes", "io.write('a\\0b\\xff\\n') print('\\0')"),
        code("print of many values", "print(table.unpack({}, 1, 1000))"),
        code(
            "print through __tostring and __name",
            "print(setmetatable({}, {__tostring = function() return 'mine' end}), (tostring(setmetatable({}, {__name = 'N'})):gsub(':.*', '')))",
        ),
        code(
            "print of a bad __tostring",
            "print(setmetatable({}, {__tostring = function() end}))",
        ),
        code(
            "print after it failed half way",
            "print(1, setmetatable({}, {__tostring = function() error('no') end}))",
        ),
        code(
            "errors and output in their order",
            "io.stdout:setvbuf('no') print(1) io.stderr:write('e\\n') print(2)",
        ),
        code(
            "popen both ways",
            "local p = io.popen('cat', 'w') p:write('through cat\\n') print(p:close()) print(io.popen('echo x; exit 2'):read('a'))",
        ),
        shell(
            "input of a megabyte",
            "head -c 1048576 /dev/zero | tr '\\0' 'y' | \"$LUA\" -e 'print(#io.read(\"a\"))'",
        ),
        shell(
            "a script of a megabyte",
            "{ seq -f 'x = %g' 1 60000; echo 'print(x)'; } | \"$LUA\" -",
        ),
        shell(
            "what the script leaves of the input is for its child",
            "printf 'one\\ntwo\\n' | \"$LUA\" -e 'io.stdin:setvbuf(\"no\") print(io.read()) io.stdout:flush() os.execute(\"cat\")'",
        ),
    ]);
}
