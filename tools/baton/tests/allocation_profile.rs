//! `baton profile --alloc`: which lines allocate, and how much.
#![cfg(target_os = "linux")]

mod harness;

use baton_formats::profile::pprof;
use harness::observed;
use harness::{Outcome, Run, Started, baton_path, program};
use serde_json::Value;
use std::collections::HashMap;
use std::fs;

/// Three functions that allocate 60, 30 and 10 %: in C, in a coroutine, and in a callback of
/// `sort`. Each string is twice as many bytes, as it is put together in a buffer.
const SHARES: &str = "
    local last
    local function fill(count) for _ = 1, count do last = string.rep('x', 20000) end end
    local function sixty() fill(60) return 1 end
    local function thirty() coroutine.wrap(function() fill(30) end)() return 1 end
    local function ten()
      local done
      table.sort({ 1, 2 }, function(a, b)
        if not done then done = true fill(10) end
        return a < b
      end)
      return 1
    end
    print 'ready'
    io.stdout:flush()
    while true do sixty() thirty() ten() end";

fn ready(code: &str) -> Started {
    observed::ready(observed::observed(code))
}

fn profile(program: &Started, more: &[&str]) -> Outcome {
    profile_of(program.pid(), more)
}

fn profile_of(pid: u32, more: &[&str]) -> Outcome {
    let run = Run::of(baton_path()).arg("profile").arg("--alloc");
    let run = more.iter().fold(run, |run, argument| run.arg(argument));
    run.arg(pid.to_string()).run()
}

fn summary(outcome: &Outcome) -> Value {
    serde_json::from_str(&outcome.stdout).expect("JSON")
}

fn number(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}

/// The share of a function, with what it calls, in percent.
fn share(summary: &Value, function: &str) -> f64 {
    let functions = summary["functions"].as_array().expect("a list");
    let found = functions.iter().find(|found| found["function"] == function);
    let found = found.unwrap_or_else(|| panic!("no {function} in {summary:#}"));
    100.0 * number(&found["total"]) / number(&summary["total"])
}

/// The bytes of each line, in percent: of the last Lua frame of each stack.
fn bytes_by_line(program: &Started, seconds: &str) -> HashMap<i64, f64> {
    let file = program.scratch().join("lines.pb.gz");
    let path = file.to_string_lossy().into_owned();
    profile(program, &["-d", seconds, "-o", &path]).succeeds();
    let written = fs::File::open(&file).expect("it was written");
    let message = pprof::read(written, 1 << 24).expect("a profile");
    let lines: HashMap<u64, i64> = message
        .location
        .iter()
        .map(|location| (location.id, location.line[0].line))
        .collect();
    let mut bytes: HashMap<i64, f64> = HashMap::new();
    for sample in &message.sample {
        let line = sample
            .location_id
            .iter()
            .map(|id| lines[id])
            .find(|&line| line > 0);
        *bytes.entry(line.unwrap_or(0)).or_default() += sample.value[1] as f64;
    }
    let total: f64 = bytes.values().sum();
    bytes.values_mut().for_each(|part| *part *= 100.0 / total);
    bytes
}

/// For how long so many samples come that chance moves no share by more than a point.
fn enough_seconds() -> &'static str {
    if program::is_emulated() { "120" } else { "5" }
}

#[test]
fn known_shares_are_found_within_two_points() {
    let program = ready(SHARES);
    let outcome = profile(&program, &["-d", enough_seconds(), "--json"]);
    program.signal_until_it_ends("KILL");
    outcome.succeeds();
    let summary = summary(&outcome);
    for (function, expected) in [("sixty", 60.0), ("thirty", 30.0), ("ten", 10.0)] {
        let found = share(&summary, function);
        assert!(
            (found - expected).abs() <= 2.0,
            "{function}: {expected} % expected, got {found:.1} %\n{summary:#}"
        );
    }
    assert!(share(&summary, "rep") > 99.0);
    assert_eq!(summary["unit"], "bytes");
}

/// Lines that allocate known numbers of bytes, and between them lines that allocate none. They are
/// in the main chunk, in which nothing but the allocation itself says where it is.
#[test]
fn each_line_gets_its_own_bytes() {
    let program = ready(
        "print 'ready' io.stdout:flush()
         local insert, rep, long = table.insert, string.rep, ('x'):rep(1000)
         local i, sum, t, u, s, f = 0, 0, nil, nil, nil, nil
         while true do
           i = i + 1
           t = {}
           sum = sum + i
           t = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 }
           sum = sum + i
           s = long .. 'y'
           sum = sum + #s
           f = function() return t end
           sum = sum + i
           t = { [1] = i, x = i }
           sum = sum + i
           u = { 1, nil }
           sum = sum + i
           insert(u, i) insert(u, i) insert(u, i) insert(u, i)
           sum = sum + i
         end",
    );
    let found = bytes_by_line(&program, enough_seconds());
    program.signal_until_it_ends("KILL");
    // On 64-bit machines: a table 56 bytes, a place in an array 16, a node 24; a long string 25 and
    // its bytes; a closure with an upvalue 40. The array grows from 2 places to 4, and to 8.
    let expected: [(i64, f64); 7] = [
        (7, 56.0),
        (9, 56.0 + 16.0 * 16.0),
        (11, 25.0 + 1001.0),
        (13, 40.0),
        (15, 56.0 + 2.0 * 24.0),
        (17, 56.0 + 2.0 * 16.0),
        (19, 6.0 * 16.0),
    ];
    let total: f64 = expected.iter().map(|(_, bytes)| bytes).sum();
    for (line, bytes) in expected {
        let (expected, found) = (
            100.0 * bytes / total,
            found.get(&line).copied().unwrap_or(0.0),
        );
        assert!(
            (found - expected).abs() <= 1.5,
            "line {line}: {expected:.1} % expected, got {found:.1} %"
        );
    }
    let others = found
        .keys()
        .filter(|line| !expected.iter().any(|(own, _)| own == *line));
    assert_eq!(others.count(), 0, "{found:?}");
}

/// Frames have offsets while their stack grows. Here almost all that is allocated are stacks.
#[test]
fn a_growing_stack_is_counted_where_it_grows() {
    let program = ready(
        "print 'ready' io.stdout:flush()
         local function down(n, ...)
           if n > 0 then return (down(n - 1, 1, 2, 3, 4, 5, 6, 7, 8)) end
           return n
         end
         local function deep() return (down(5000)) end
         local function try() return select('#', pcall(down, 5000)) end
         while true do
           coroutine.wrap(try)()
           try()
           coroutine.wrap(deep)()
           assert(coroutine.close(coroutine.create(deep)))
           deep()
         end",
    );
    let seconds = if program::is_emulated() { "30" } else { "2" };
    let outcome = profile(&program, &["-d", seconds, "--json"]);
    program.signal_until_it_ends("KILL");
    outcome.succeeds();
    let summary = summary(&outcome);
    assert!(number(&summary["total"]) > 100e6, "{summary:#}");
    assert!(share(&summary, "down") > 95.0, "{summary:#}");
}

/// What a process allocates while its call runs beside others is counted, too.
#[test]
fn buffers_of_calls_that_run_beside_others_are_counted() {
    let program = ready(
        "print 'ready' io.stdout:flush()
         local piece = ('x'):rep(10000)
         for _ = 1, 3 do
           process.spawn(function()
             while true do
               local long = piece:rep(2000)
               assert(#long == 20000000)
             end
           end)
         end
         local t
         while true do for i = 1, 1000 do t = { i } end end",
    );
    let outcome = profile(&program, &["-d", "3", "--json"]);
    program.signal_until_it_ends("KILL");
    outcome.succeeds();
    let summary = summary(&outcome);
    assert!(share(&summary, "rep") > 50.0, "{summary:#}");
}

#[test]
fn two_profiles_at_once_see_the_same() {
    let program = ready(SHARES);
    let pid = program.pid();
    let second = std::thread::spawn(move || profile_of(pid, &["-d", "3", "--json"]));
    profile(&program, &["-d", "3", "--json"]).succeeds();
    let second = second.join().expect("it ends");
    second.succeeds();
    assert!(share(&summary(&second), "sixty") > 50.0);
    // And a later one sees anew.
    let third = profile(&program, &["-d", "3", "--json"]);
    program.signal_until_it_ends("KILL");
    third.succeeds();
    assert!(share(&summary(&third), "sixty") > 50.0);
}

#[test]
fn each_suffix_gives_its_format() {
    let program = ready(SHARES);
    observed::assert_each_suffix_gives_its_format(&program, &["--alloc"]);
    profile(&program, &["-r", "10"])
        .ends_with(2)
        .complained("cannot be used with");
    program.signal_until_it_ends("KILL");
}

/// A fork's child takes no samples, and its allocator is the usual one after a while.
#[test]
fn a_forks_child_goes_on_without_the_profile() {
    let program = ready(
        "print 'ready' io.stdout:flush()
         local forker = require 'forker'
         local t
         while true do
           for i = 1, 10000 do t = { i } end
           local child = forker.fork()
           if child == 0 then
             for i = 1, 100000 do t = { i } end
             os.exit(0, false)
           end
           local status
           repeat process.sleep(0.001) status = forker.reap(child) until status
           assert(status == 0, 'the child has failed')
         end",
    );
    let outcome = profile(&program, &["-d", "2", "--json"]);
    program.signal_until_it_ends("KILL");
    outcome.succeeds();
    assert!(number(&summary(&outcome)["total"]) > 1e6);
}

#[test]
fn a_script_is_profiled_to_its_end() {
    let run = Run::of(baton_path()).arg("profile").arg("--alloc");
    let script = run.scratch().join("work.lua");
    fs::write(
        &script,
        "local function work() local t while os.clock() < 1 do t = { 1 } end return t end
         print(#work())",
    )
    .expect("it can be written");
    let outcome = run.arg(&script).run();
    outcome.succeeds();
    let out = &outcome.stdout;
    assert!(out.contains("Allocation of"), "{out}");
    assert!(out.contains("a sample each 512 KiB"), "{out}");
    assert!(out.contains("work ("), "{out}");
}
