//! Recursion ends with Lua's own message at Lua's own depth, in the main process and in all others.

mod harness;

use harness::{Outcome, baton, peer};

const SCRIPT: &str = "recursion.lua";

/// A process has fewer Lua frames below its function than a script in the main program. So where
/// the limit is the number of Lua's stack slots (one million), this many more may be free for
/// recursion.
const SLOTS_BENEATH: u64 = 100;

/// The stack limit counts slots; the limit of 200 C levels is exact.
const MOST_C_LEVELS: u64 = 200;

#[test]
fn recursion_in_the_main_process_ends_where_it_ends_in_lua() {
    let Some(lua) = peer::lua() else { return };
    let wanted = lua.script(SCRIPT).run();
    let got = baton().script(SCRIPT).run();
    got.succeeds().quietly();
    for (wanted, got) in lines_side_by_side(&wanted, &got) {
        assert_eq!(wanted, got);
    }
}

#[test]
fn recursion_in_a_spawned_process_ends_where_it_ends_in_lua() {
    let Some(lua) = peer::lua() else { return };
    let wanted = lua.script(SCRIPT).run();
    let got = baton().script(SCRIPT).arg("process").run();
    got.succeeds().quietly();
    for (wanted, got) in lines_side_by_side(&wanted, &got) {
        let (wanted, got) = (Ending::of(wanted), Ending::of(got));
        assert_eq!((wanted.kind, wanted.message), (got.kind, got.message));
        let tolerance = if wanted.depth > MOST_C_LEVELS {
            SLOTS_BENEATH
        } else {
            0
        };
        let difference = wanted.depth.abs_diff(got.depth);
        assert!(
            difference <= tolerance,
            "{}: lua ends at {}, baton at {}",
            wanted.kind,
            wanted.depth,
            got.depth
        );
    }
}

#[test]
fn an_overflow_is_reported_as_one_when_finalizers_were_due_just_before() {
    baton()
        .code(
            "local deepest, collect_at = 0, 0
             local function endless(n)
               deepest = n
               if n == collect_at then collectgarbage() end
               return 1 + endless(n + 1)
             end
             local function overflow() return select(2, \
             coroutine.resume(coroutine.create(endless), 1)) end
             overflow()
             local whole, finalized = deepest, 0
             local counting = { __gc = function() finalized = finalized + 1 end }
             for before = 1, 25 do
               setmetatable({}, counting)
               collect_at = whole - before
               assert(overflow():find 'stack overflow', before)
               assert(deepest <= whole, before)
             end
             collectgarbage()
             print(finalized)",
        )
        .run()
        .succeeds()
        .wrote("25\n");
}

#[test]
fn a_process_goes_on_after_each_overflow() {
    baton()
        .process_code(
            "local lua_recursion, gsub_recursion
             function lua_recursion() return 1 + lua_recursion() end
             function gsub_recursion() return (string.gsub('x', 'x', gsub_recursion)) end
             for i = 1, 3 do
               local p = process.spawn(function()
                 for k = 1, 2 do assert(not pcall(lua_recursion) and not pcall(gsub_recursion)) end
                 return 'goes on'
               end)
               print(p:join())
             end",
        )
        .run()
        .succeeds()
        .wrote(&"true\tgoes on\n".repeat(3))
        .quietly();
}

#[test]
fn an_uncaught_overflow_is_an_ordinary_error() {
    baton()
        .process_code(
            "local function recurse() return 1 + recurse() end
             local p = process.spawn({ name = 'too deep', quiet = true }, recurse)
             local ok, message = p:join()
             print(ok, message:find 'stack overflow' ~= nil)
             local q = process.spawn({ name = 'printed' }, recurse)",
        )
        .run()
        .ends_with(1)
        .wrote("false\ttrue\n")
        .complained("printed")
        .complained("stack overflow")
        .without_panic();
}

#[test]
fn many_processes_recurse_to_the_limit_of_c_levels_at_once() {
    baton()
        .process_code(
            "process.params.slice = 0.0005
             local function through_sort() table.sort({ 1, 2 }, through_sort) end
             local all = {}
             for i = 1, 100 do
               all[i] = process.spawn(function()
                 for k = 1, 5 do
                   local ok, message = pcall(through_sort)
                   assert(not ok and message:find 'C stack overflow', message)
                   process.yield()
                 end
               end)
             end
             for i = 1, 100 do assert(all[i]:join()) end
             print 'end'",
        )
        .run()
        .succeeds()
        .wrote("end\n")
        .quietly();
}

/// A parsed line of the script's output.
struct Ending<'a> {
    kind: &'a str,
    depth: u64,
    message: &'a str,
}

impl<'a> Ending<'a> {
    fn of(line: &'a str) -> Self {
        let (kind, rest) = line
            .split_once(": depth ")
            .unwrap_or_else(|| panic!("no depth in {line:?}"));
        let (depth, message) = rest
            .split_once(": ")
            .unwrap_or_else(|| panic!("no message in {line:?}"));
        let depth = depth
            .parse()
            .unwrap_or_else(|_| panic!("no number in {line:?}"));
        Self {
            kind,
            depth,
            message,
        }
    }
}

fn lines_side_by_side<'a>(
    wanted: &'a Outcome,
    got: &'a Outcome,
) -> impl Iterator<Item = (&'a str, &'a str)> {
    let count = wanted.stdout.lines().count();
    assert!(count > 20, "lua itself failed\n{wanted}");
    assert_eq!(
        count,
        got.stdout.lines().count(),
        "another number of lines\n{got}"
    );
    wanted.stdout.lines().zip(got.stdout.lines())
}
